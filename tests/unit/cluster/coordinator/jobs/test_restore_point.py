"""A job continues from a checkpoint only if all its state has a place in the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import OperatorState, StateKind, SubtaskState
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster.control.submission import RestoreSettings
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint, find_restore_point
from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.graph.graph import JobGraph
from tests.unit.checkpoint.checkpoints import change, metadata
from tests.unit.cluster.graphs import keyed_graph

CONFIG = CheckpointingConfig(inline_bytes_max=0)
GRAPH = keyed_graph("flights", parallelism=2)
VERTEX = GRAPH.vertices[-1]
UID = VERTEX.operators[0].uid


async def found(
    top: Path,
    graph: JobGraph = GRAPH,
    *,
    uid: str = UID,
    parallelism: int = 2,
    max_parallelism: int = VERTEX.max_parallelism,
    finished: tuple[int, ...] = (),
    kind: StateKind = StateKind.KEYED,
    allow: bool = False,
    damage: str = "",
) -> RestorePoint:
    """Make a checkpoint of one operator, and return the restore point of a job that continues from
    it."""
    store = CheckpointStore(FileStorage(top, CONFIG), "job-1", CONFIG)
    claimed = await FencedStore.claim(store, 0)
    part = await store.write_part(claimed.directory(1), "state", [(0, b"the content")])
    assert part is not None
    subtasks = [
        SubtaskState(index, {} if index else {kind: part}, index in finished)
        for index in range(parallelism)
    ]
    state = OperatorState(uid, parallelism, max_parallelism, tuple(subtasks))
    place = await claimed.complete(metadata(1, 0, (state,)))
    if damage:
        change(Path(place) / "state", damage)
    return await find_restore_point(graph, RestoreSettings(place, allow), CONFIG)


async def test_a_restore_point_has_its_location_and_finished_subtasks(tmp_path: Path) -> None:
    place = f"{tmp_path}/job-1/checkpoint-1-attempt-0"
    assert await found(tmp_path, finished=(1,)) == RestorePoint(place, frozenset({(VERTEX.id, 1)}))


async def test_a_finished_operator_stays_finished_at_another_parallelism(tmp_path: Path) -> None:
    point = await found(tmp_path, parallelism=3, finished=(0, 1, 2), kind=StateKind.OUTPUT)
    assert point.finished == {(VERTEX.id, 0), (VERTEX.id, 1)}


async def test_a_finished_subtask_with_remaining_state_is_restored(tmp_path: Path) -> None:
    """O2: this is state that it still has to commit."""
    point = await found(tmp_path, finished=(0, 1))
    assert point.finished == {(VERTEX.id, 1)}


async def test_remaining_state_may_move_to_any_subtask_at_another_parallelism(
    tmp_path: Path,
) -> None:
    """O2."""
    point = await found(tmp_path, parallelism=3, finished=(0, 1, 2))
    assert point.finished == set()


async def test_finished_subtasks_with_pending_commits_fix_the_parallelism(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="1 of the 3 subtasks .* must have that parallelism"):
        await found(tmp_path, parallelism=3, finished=(0,))


async def test_a_partly_finished_operator_restarts_all_subtasks_at_another_parallelism(
    tmp_path: Path,
) -> None:
    """O2: the subtasks share the state of those that had not finished."""
    assert (await found(tmp_path, parallelism=3, finished=(1, 2))).finished == set()


async def test_state_without_an_operator_is_left_behind_only_if_it_may_be(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="checkpoint-1-attempt-0 has state .* have: gone; give"):
        await found(tmp_path / "one", uid="gone")
    assert (await found(tmp_path / "other", uid="gone", allow=True)).finished == set()


async def test_the_number_of_key_groups_cannot_change(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"has 64 key groups .*set_max_parallelism\(64\)"):
        await found(tmp_path, max_parallelism=64)


@pytest.mark.parametrize("damage", ["removed", "torn", "a bit"])
async def test_a_bad_file_is_named_before_anything_runs(tmp_path: Path, damage: str) -> None:
    with pytest.raises(CheckpointCorruptedError, match="checkpoint-1-attempt-0/state"):
        await found(tmp_path, damage=damage)
