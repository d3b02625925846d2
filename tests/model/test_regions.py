"""Regions fail while others continue: checkpoints are consistent cuts; planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.checkpoint.attempt_state import AttemptEvent
from flinknet.checkpoint.barrier_handler import BarrierHandler
from flinknet.checkpoint.coordinator import CheckpointCoordinator, Order
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_execution import Commands, JobExecution, SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.order_executor import OrderExecutor
from flinknet.cluster.coordinator.jobs.region_failover import RegionFailover
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.consumer.input_gate import InputGate
from flinknet.partition.registry import PartitionRegistry
from flinknet.wire.events import CheckpointBarrier
from tests.model.conftest import Tell
from tests.model.explorer import ViolationFoundError
from tests.model.region_world import RegionShape, explore_regions

STATES_MAX = 2_000_000

PLAIN = RegionShape()
BRIEF = RegionShape(checkpoints=0)
ENDED = RegionShape(ended=True)
APART = RegionShape(apart=True)
SPREAD = RegionShape(spread=True, ended=True)
BRIEF_SPREAD = RegionShape(spread=True, ended=True, checkpoints=0)
LOSS = RegionShape(spread=True, loses=True)
REAL = RegionShape(real=True, ended=True)
UNALIGNED = RegionShape(real=True, unaligned=True, ended=True)
BOTH = RegionShape(records=0, both=True, failures=2, checkpoints=0)

RESTARTED = {
    "failed",
    "completed",
    "completed behind a restart",
    "completed too late",
    "restored",
    "from the start",
}
SEEN = {
    BRIEF: {"failed", "from the start", "a late result"},
    ENDED: RESTARTED,
    BRIEF_SPREAD: {"failed", "from the start"},
    LOSS: {*RESTARTED, "lost in vain"},
    REAL: RESTARTED,
    UNALIGNED: RESTARTED,
    BOTH: {*RESTARTED, "failed together"},
}
"""Shapes and the outcomes that must occur on a path to some final state.

Where one region has ended, the other one waits for its slot, and so for all messages in transit.
"""

DEEP = {PLAIN: {*RESTARTED, "a late result"}, SPREAD: RESTARTED, APART: RESTARTED}
"""Larger worlds, with checkpoints while a region of two tasks continues.

The others have the same parts, but a region that continues has no checkpoints, or has ended, or is
a source alone.
"""

Original = Callable[..., Any]


@pytest.mark.timeout(400)  # this takes minutes on a busy machine
@pytest.mark.parametrize("shape", SEEN, ids=str)
def test_continuing_and_restarted_regions_form_one_consistent_cut(
    shape: RegionShape, tell: Tell
) -> None:
    """Only failed regions restart, from the last completed checkpoint, whenever they fail.

    A subtask fails, or a worker with parts of two regions is lost. No subtask of a region runs
    twice, and no result of an old attempt counts. No sink waits for its last checkpoint for ever,
    also if the second of two regions fails while the first one restarts.
    """
    began = perf_counter()
    explored = explore_regions(shape, STATES_MAX)
    tell(explored.states, explored.steps, perf_counter() - began, shape)
    assert explored.seen >= SEEN[shape]


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", DEEP, ids=str)
def test_so_they_do_in_larger_worlds(shape: RegionShape, tell: Tell) -> None:
    """The same with checkpoints while one region continues, and with messages in any order."""
    began = perf_counter()
    explored = explore_regions(shape, STATES_MAX)
    tell(explored.states, explored.steps, perf_counter() - began, shape)
    assert explored.seen >= DEEP[shape]


def _keeps_what_is_under_way(original: Original) -> Original:
    def suspend(self: CheckpointCoordinator, now: float) -> list[Order]:
        self._become(AttemptEvent.SUSPEND)
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


def _runs_what_one_worker_has_opened(original: Original) -> Original:
    def opened(self: JobExecution, worker_id: str, number: int) -> Commands:
        part = worker_id, number
        self._unopened = {one for one in self._unopened if one == part or one[1] != number}
        return original(self, worker_id, number)

    return opened


def _cancels_on_one_worker(original: Original) -> Original:
    def cancels_of(self: JobExecution, subtasks: Any) -> Any:
        return original(self, subtasks)[:1]

    return cancels_of


def _waits_for_nobody(original: Original) -> Any:
    return property(lambda self: True)


def _waits_for_the_lost(original: Original) -> Original:
    def is_held(self: JobExecution, key: SubtaskKey) -> bool:
        return True

    return is_held


def _gives_up_one(original: Original) -> Original:
    def broken(self: JobExecution) -> frozenset[str]:
        return frozenset(sorted(original(self))[:1])

    return broken


def _does_nothing(original: Original) -> Original:
    def nothing(*arguments: Any) -> None:
        pass

    nothing.__name__ = original.__name__  # a pickled method is found by its name
    return nothing


def _drops_what_is_overtaken(original: Original) -> Original:
    def overtake(self: BarrierHandler, barrier: CheckpointBarrier) -> None:
        assert isinstance(self._gate, InputGate)
        polled = self._gate.poll()
        if polled is not None:
            polled[1].recycle()
        original(self, barrier)

    return overtake


def _restores_what_the_attempt_began_with(original: Original) -> Original:
    def restored_for(self: AttemptRecord, number: int) -> RestorePoint:
        return RestorePoint(self.restored_from, self.restored_finished)

    return restored_for


def _voids_what_was_said_since_the_restart(original: Original) -> Original:
    def follow(self: OrderExecutor, record: JobRecord, attempt: AttemptRecord, now: float) -> None:
        books = record.checkpoints
        if attempt.execution.all_run and books.is_suspended:
            for restart in attempt.restarts:
                books.restart(restart.subtasks, restart.restored.finished)
        original(self, record, attempt, now)

    return follow


def _hears_nothing_while_suspended(original: Original) -> Original:
    def hear(self: CheckpointCoordinator, subtask: SubtaskKey, taken: int = -1) -> list[Order]:
        orders: list[Order] = [] if self.is_suspended else original(self, subtask, taken)
        return orders

    return hear


@pytest.mark.parametrize(
    ("shape", "owner", "method", "plant"),
    [
        (ENDED, CheckpointCoordinator, "suspend", _keeps_what_is_under_way),
        (BRIEF, JobExecution, "_cancels_of", _cancels_all_there_is),
        (ENDED, JobExecution, "number_of", _has_one_number),
        (ENDED, AttemptRecord, "restored_for", _restores_what_the_attempt_began_with),
        (BRIEF_SPREAD, JobExecution, "opened", _runs_what_one_worker_has_opened),
        (BRIEF_SPREAD, JobExecution, "_cancels_of", _cancels_on_one_worker),
        (LOSS, RegionFailover, "is_released", _waits_for_nobody),
        (LOSS, JobExecution, "_is_held", _waits_for_the_lost),
        (LOSS, JobExecution, "_broken", _gives_up_one),
        (REAL, PartitionRegistry, "_forget", _does_nothing),
        (REAL, NetworkBufferPool, "release_local_pool", _does_nothing),
        (REAL, BarrierHandler, "_let_go", _does_nothing),
        (UNALIGNED, BarrierHandler, "_overtake", _drops_what_is_overtaken),
        (BOTH, OrderExecutor, "_follow", _voids_what_was_said_since_the_restart),
        (BOTH, CheckpointCoordinator, "subtask_finished", _hears_nothing_while_suspended),
        (BOTH, CheckpointCoordinator, "subtask_awaits", _hears_nothing_while_suspended),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)).strip("_"),
)
def test_a_planted_bug_is_found(
    shape: RegionShape,
    owner: type,
    method: str,
    plant: Callable[[Original], Any],
    monkeypatch: pytest.MonkeyPatch,
    tell: Tell,
) -> None:
    """The world that is clean without the fault reveals it."""
    monkeypatch.setattr(owner, method, plant(getattr(owner, method)))
    began = perf_counter()
    with pytest.raises(ViolationFoundError) as found:
        explore_regions(shape, STATES_MAX)
    assert "more than" not in str(found.value)
    name = plant.__name__.strip("_")
    tell(found.value.states, 0, perf_counter() - began, f"{shape}: {name}")
    print(f"{name}: {found.value}")
