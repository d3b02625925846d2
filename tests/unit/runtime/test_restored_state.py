"""The state that a subtask starts with; `test_subtask_checkpoints.py` tests whole jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinknet.checkpoint.metadata import (
    CheckpointDirectory,
    CheckpointMetadata,
    OperatorState,
    StateKind,
    SubtaskState,
)
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment
from flinknet.errors import StateError
from flinknet.records.key_groups import key_group, key_group_range
from flinknet.runtime.chain import OperatorChain
from flinknet.runtime.restored_state import RestoredState
from flinknet.runtime.subtask_checkpoints import SECTION_BYTES, labelled
from flinknet.state.descriptors import StateKind as KindOfState
from flinknet.state.state_handler import StateHandler
from flinknet.wire.events import CheckpointKind
from tests.unit.operators.harness import context
from tests.unit.runtime.checkpointed import store_in
from tests.unit.state.backends import BACKENDS, Backends, made_backends


def chain(**fields: Any) -> OperatorChain:
    environment = StreamExecutionEnvironment()
    environment.from_source(GeneratorSource(str, 1)).print()
    (vertex,) = environment.job_graph().vertices
    return OperatorChain(vertex, context(**fields), {})


def restored(tmp_path: Path, *operators: OperatorState) -> RestoredState:
    metadata = CheckpointMetadata(
        "job", "job", 0, 1, CheckpointKind.CHECKPOINT, 1, 2, tuple(operators)
    )
    return RestoredState(store_in(tmp_path), metadata)


async def test_an_operator_that_is_new_begins_without_state(tmp_path: Path) -> None:
    await restored(tmp_path).restore(chain(), 0, 1, 128)


async def test_key_groups_cannot_change(tmp_path: Path) -> None:
    one = chain()
    checkpoint = restored(tmp_path, OperatorState(one.uids[0], 1, 64))
    with pytest.raises(StateError, match="64 key groups in the checkpoint and 128 in the job"):
        await checkpoint.restore(one, 0, 1, 128)


@pytest.fixture(params=BACKENDS)
def backends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backends]:
    with made_backends(request.param, tmp_path / "state") as made:
        made.groups = 128
        yield made


async def test_a_large_part_is_written_and_read_in_sections(
    tmp_path: Path, backends: Backends
) -> None:
    """A subtask in the middle reads the parts of two earlier subtasks.

    State on disk is never whole in memory.
    """
    values = {number: "x" * 1_000 + str(number) for number in range(12_000)}
    directory = CheckpointDirectory(False, 1, 0)
    store = store_in(tmp_path / "checkpoints")
    states = []
    uid = chain().uids[0]
    for index in range(2):
        own = key_group_range(128, 2, index)
        handler = StateHandler(uid=uid, index=index, parallelism=2)
        mine = {key: value for key, value in values.items() if key_group(key, 128) in own}
        handler.keyed.table("text", KindOfState.VALUE).live.update(mine)
        snapshot = handler.snapshot(1, 0)
        for _ in snapshot.slices():
            pass
        blocks = labelled(StateKind.KEYED, snapshot.keyed_pieces())
        part = await store.write_part(directory, f"part-{index}", blocks)
        assert part is not None
        assert part.labels == ("keyed", 1)
        assert SECTION_BYTES <= part.sections[0].size_bytes < SECTION_BYTES + 100_000
        states.append(SubtaskState(index, {StateKind.KEYED: part}))
    operator = OperatorState(uid, 2, 128, tuple(states))
    place = {"index": 1, "parallelism": 3}
    one = chain(state_backends=lambda *_: backends.backend(), **place)
    metadata = restored(tmp_path / "checkpoints", operator)
    await metadata.restore(one, 1, 3, 128)
    found = dict(one.state_of(uid).keyed.entries["text"].table.entries())
    wanted = key_group_range(128, 3, 1)
    assert found == {k: v for k, v in values.items() if key_group(k, 128) in wanted}
    one.close_state()


@pytest.mark.parametrize(
    ("finished", "parallelism", "ended"),
    [((), 2, []), ((1,), 2, [1]), ((0, 1), 2, [0, 1]), ((0, 1), 3, [0, 1, 2])],
)
def test_operators_with_ended_input_are_known(
    tmp_path: Path, finished: tuple[int, ...], parallelism: int, ended: list[int]
) -> None:
    """O2: if all inputs had ended, they have ended at any parallelism."""
    subtasks = tuple(SubtaskState(index, {}, index in finished) for index in range(2))
    checkpoint = restored(tmp_path, OperatorState("one", 2, 128, subtasks))
    assert ended == [
        index
        for index in range(parallelism)
        if checkpoint.has_ended(["new", "one"], index, parallelism)
    ]
