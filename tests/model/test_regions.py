"""One region fails while another goes on: every checkpoint is a consistent cut; bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest

from flinknet.checkpoint.coordinator import CheckpointCoordinator, Order
from flinknet.cluster.coordinator.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.job_execution import JobExecution, SubtaskKey
from flinknet.cluster.coordinator.restore_point import RestorePoint
from tests.model.conftest import Tell
from tests.model.explorer import ViolationFoundError
from tests.model.region_world import RegionShape, explore_regions

STATES_MAX = 2_000_000

PLAIN = RegionShape()
ENDED = RegionShape(ended=True)
APART = RegionShape(apart=True)

RESTARTED = {
    "failed",
    "completed",
    "completed behind a restart",
    "completed too late",
    "restored",
    "from the start",
}
SEEN = {PLAIN: {*RESTARTED, "a late result"}, ENDED: RESTARTED}
"""What happens in each, on the way to one end at least. Where one region has ended, the other one
waits for its slot, and so for whatever is on its way."""

Original = Callable[..., Any]


@pytest.mark.parametrize("shape", SEEN, ids=str)
def test_what_goes_on_and_what_begins_again_make_one_cut(shape: RegionShape, tell: Tell) -> None:
    """A subtask of one region fails at any moment of a checkpoint of the job: only its region is
    restarted, from the last checkpoint that was completed; nothing of it runs twice, or counts
    under the number before; nobody waits for ever."""
    began = perf_counter()
    explored = explore_regions(shape, STATES_MAX)
    tell(explored.states, explored.steps, perf_counter() - began, shape)
    assert explored.seen >= SEEN[shape]


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_so_they_do_where_each_has_a_worker(tell: Tell) -> None:
    """The same with words of two workers, in any order."""
    began = perf_counter()
    explored = explore_regions(APART, STATES_MAX)
    tell(explored.states, explored.steps, perf_counter() - began, APART)
    assert explored.seen >= RESTARTED


def _keeps_what_is_under_way(original: Original) -> Original:
    def suspend(self: CheckpointCoordinator, now: float) -> list[Order]:
        self._running, self._suspended = False, True
        return []

    return suspend


def _cancels_all_there_is(original: Original) -> Original:
    def cancels_of(self: JobExecution, subtasks: Any) -> Any:
        return original(self, list(self.subtask_states()))

    return cancels_of


def _has_one_number(original: Original) -> Original:
    def number_of(self: JobExecution, subtask: SubtaskKey) -> int:
        return self.attempt

    return number_of


def _restores_what_the_attempt_began_with(original: Original) -> Original:
    def restored_for(self: AttemptRecord, number: int) -> RestorePoint:
        return RestorePoint(self.restored_from, self.restored_finished)

    return restored_for


@pytest.mark.parametrize(
    ("owner", "method", "plant"),
    [
        (CheckpointCoordinator, "suspend", _keeps_what_is_under_way),
        (JobExecution, "_cancels_of", _cancels_all_there_is),
        (JobExecution, "number_of", _has_one_number),
        (AttemptRecord, "restored_for", _restores_what_the_attempt_began_with),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)).strip("_"),
)
def test_a_planted_bug_is_found(
    owner: type,
    method: str,
    plant: Callable[[Original], Original],
    monkeypatch: pytest.MonkeyPatch,
    tell: Tell,
) -> None:
    """The world that is clean without it reveals it."""
    monkeypatch.setattr(owner, method, plant(getattr(owner, method)))
    began = perf_counter()
    with pytest.raises(ViolationFoundError) as found:
        explore_regions(PLAIN, STATES_MAX)
    assert "more than" not in str(found.value)
    name = plant.__name__.strip("_")
    tell(found.value.states, 0, perf_counter() - began, f"{PLAIN}: {name}")
    print(f"{name}: {found.value}")
