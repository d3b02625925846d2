"""Workers register once, are lost for a reason, and have their slots counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.messages import Register
from flinknet.cluster.coordinator.workers import worker_registry as module
from flinknet.cluster.coordinator.workers.worker_registry import (
    TRANSITIONS,
    WorkerEvent,
    WorkerRegistry,
    WorkerState,
)
from flinknet.errors import ConfigurationError
from tests.unit.tables import named, shown_in, way_to

INTERVAL, TIMEOUT = 1.0, 10.0
RETAINED = 3
WORKER_1 = Register("worker-1", 101, "127.0.0.1:1001", 3, process="its name")


@pytest.fixture
def stuck_timeout_s() -> float:
    return 0.0


@pytest.fixture
def takes_back() -> bool:
    return True


@pytest.fixture
def registry(stuck_timeout_s: float, takes_back: bool) -> WorkerRegistry:
    registry = WorkerRegistry(
        now=0.0,
        heartbeat_interval_s=INTERVAL,
        heartbeat_timeout_s=TIMEOUT,
        stuck_timeout_s=stuck_timeout_s,
        lost_retained=RETAINED,
        takes_back=takes_back,
    )
    registry.register(Register("worker-0", 100, "127.0.0.1:1000", 2), now=0.0)
    registry.register(WORKER_1, now=0.0)
    return registry


def tick_until(
    registry: WorkerRegistry, start: float, end: float, *, alive: list[str]
) -> list[str]:
    """Tick at every ``next_tick`` up to ``end``, with a heartbeat of ``alive`` before each.

    Returns the losses with their times.
    """
    lost, now = [], start
    while now < end:
        now = registry.next_tick
        for worker_id in alive:
            registry.heard(worker_id, now)
        lost += [f"{cause.worker_id}@{now:g}" for cause in registry.tick(now)]
    return lost


def notice(registry: WorkerRegistry, event: WorkerEvent) -> FailureCause | None:
    """Cause an event of worker-1 at the time of ``TIMEOUT``; worker-0 lives."""
    match event:
        case WorkerEvent.DISCONNECT:
            return registry.connection_closed("worker-1")
        case WorkerEvent.CONNECT_AGAIN:
            return registry.connected_again(WORKER_1)
        case WorkerEvent.EXIT:
            return registry.exited("worker-1", "exited with status 1")
        case WorkerEvent.FALL_SILENT:
            registry.heard("worker-0", TIMEOUT)
            return next(iter(registry.tick(TIMEOUT)), None)


@pytest.mark.parametrize("event", WorkerEvent)
@pytest.mark.parametrize("state", WorkerState)
def test_every_pair_of_state_and_event(
    registry: WorkerRegistry, state: WorkerState, event: WorkerEvent
) -> None:
    """An event outside the table is no news."""
    registry.tick(TIMEOUT - INTERVAL)
    for worker_id in ("worker-0", "worker-1"):
        registry.heard(worker_id, 0.0)
    for past in way_to(state, WorkerState.REGISTERED, TRANSITIONS):
        notice(registry, past)
    worker = registry.get("worker-1")
    assert worker is not None
    assert worker.state is state
    loss, news = worker.loss, notice(registry, event)
    assert (news is not None) == ((state, event) in TRANSITIONS)
    assert worker.state is (TRANSITIONS[state, event] if news else state)
    assert worker.loss is (news or loss)
    assert worker.is_lost == (worker.loss is not None)


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize("takes_back", [False, True])
def test_the_id_of_a_worker_is_its_own(registry: WorkerRegistry, takes_back: bool) -> None:
    """The id of a lost worker is free, unless a launcher starts another worker in its place."""
    another = Register("worker-1", 102, "127.0.0.1:1002", 2, process="another name")
    assert registry.connected_again(another) is None
    with pytest.raises(ConfigurationError, match=r"worker-1 is taken by pid 101: .*--worker-id"):
        registry.register(another, now=1.0)
    registry.occupy("worker-1", ("job", 0), 3)
    registry.connection_closed("worker-1")
    if takes_back:
        fresh = registry.register(another, now=1.0)
        assert (fresh.free_slots, fresh.loss, fresh.heard_at) == (2, None, 1.0)
        assert [worker.pid for worker in registry.workers()] == [100, 102]
        assert registry.connection_closed("worker-1") is not None, "it can be lost again"
    else:
        with pytest.raises(ConfigurationError, match="taken by pid 101, which is lost"):
            registry.register(another, now=1.0)


@pytest.mark.parametrize("takes_back", [False, True])
def test_a_process_may_connect_again(registry: WorkerRegistry, takes_back: bool) -> None:
    """Its earlier subtasks are lost, as after any loss.

    A process without a name is never the same.
    """
    nameless = Register("worker-0", 100, "127.0.0.1:1000", 2)
    assert registry.connected_again(nameless) is None
    loss = registry.connected_again(WORKER_1)
    if takes_back:
        assert loss is not None
        assert "has connected again" in loss.message
        assert registry.register(WORKER_1, now=1.0).free_slots == 3
    else:
        assert loss is None
        with pytest.raises(ConfigurationError, match="taken"):
            registry.register(WORKER_1, now=1.0)


def test_a_worker_without_slots_is_refused(registry: WorkerRegistry) -> None:
    with pytest.raises(ConfigurationError, match="offers 0 slots"):
        registry.register(Register("worker-2", 102, "127.0.0.1:1002", 0), now=1.0)


def test_a_worker_that_hashes_text_in_another_way_is_refused(registry: WorkerRegistry) -> None:
    """Its hash(text) would send keys to other subtasks than the other workers do."""
    message = Register("worker-2", 1, "127.0.0.1:1", 2)
    with pytest.raises(ConfigurationError, match="start it with the coordinator's cluster.hash_se"):
        registry.register(replace(message, text_hash=message.text_hash + 1), 0.0)
    assert registry.register(message, 0.0).worker_id == "worker-2"


def test_a_silent_worker_is_lost_after_the_timeout(registry: WorkerRegistry) -> None:
    lost = tick_until(registry, 0.0, 30.0, alive=["worker-0"])
    assert lost == [f"worker-1@{TIMEOUT:g}"]
    worker = registry.get("worker-1")
    assert worker is not None
    assert worker.state is WorkerState.EXPLAINED
    assert worker.is_lost
    assert worker.loss is not None
    assert worker.loss.rank is CauseRank.CAUSE
    assert "no sign of life for 10000 ms" in worker.loss.message
    assert "cluster.heartbeat_timeout_ms" in worker.loss.message
    assert [worker.worker_id for worker in registry.registered()] == ["worker-0"]


def test_a_pause_shorter_than_the_timeout_is_no_loss(registry: WorkerRegistry) -> None:
    """A user function may block a worker's loop for a while."""
    assert tick_until(registry, 0.0, TIMEOUT - INTERVAL, alive=[]) == []
    registry.heard("worker-0", TIMEOUT - INTERVAL / 2)
    registry.heard("worker-1", TIMEOUT - INTERVAL / 2)
    assert registry.tick(TIMEOUT) == []


def beats_alone(registry: WorkerRegistry, until: float) -> list[str]:
    """Tick until a time, with worker-0 heard and only the pulse of worker-1; return the losses."""
    lost, now = [], 0.0
    while now < until:
        now = registry.next_tick
        registry.heard("worker-0", now)
        registry.lives("worker-1", now)
        registry.lives("worker-9", now)  # a stranger's pulse has no effect
        assert registry.one_was_held_up(since=now) == registry.is_there("worker-1")
        assert not registry.one_was_held_up(since=now + 1.0)
        lost += [cause.message for cause in registry.tick(now)]
    return lost


def test_a_worker_that_user_code_holds_up_lives(registry: WorkerRegistry) -> None:
    assert beats_alone(registry, 100 * TIMEOUT) == []
    assert tick_until(registry, 100 * TIMEOUT, 101 * TIMEOUT, alive=["worker-0"]) == [
        f"worker-1@{101 * TIMEOUT:g}"
    ]


@pytest.mark.parametrize("stuck_timeout_s", [3 * TIMEOUT])
def test_the_user_may_limit_how_long_code_holds_a_worker_up(registry: WorkerRegistry) -> None:
    (lost,) = beats_alone(registry, 4 * TIMEOUT)
    assert "blocked its event loop for 30000 ms (cluster.task_stuck_timeout_ms)" in lost
    assert registry.get("worker-0") in registry.registered()


@pytest.mark.parametrize("stuck_timeout_s", [0.0, 3 * TIMEOUT])
def test_the_user_may_limit_how_long_one_call_takes(
    registry: WorkerRegistry, stuck_timeout_s: float
) -> None:
    """The call runs in the thread of a subtask, beside an event loop that turns."""
    registry.is_at_step("worker-1", "Map (1/1)", 3 * TIMEOUT - 1)
    assert registry.tick(0.0) == []
    registry.is_at_step("worker-1", "Map (1/1)", 3 * TIMEOUT)
    lost = [cause.message for cause in registry.tick(0.0)]
    expected = (
        'subtask "Map (1/1)" has been in one call for 30000 ms (cluster.task_stuck_timeout_ms)'
    )
    assert lost == ([f"user code of {expected}"] if stuck_timeout_s else [])


def test_the_absence_of_the_coordinator_is_not_blamed_on_workers(registry: WorkerRegistry) -> None:
    """The coordinator itself was suspended and could not read any messages."""
    assert tick_until(registry, 0.0, 5.0, alive=["worker-0", "worker-1"]) == []
    assert registry.tick(1000.0) == []
    assert tick_until(registry, 1000.0, 1005.0, alive=["worker-0"]) == []
    assert tick_until(registry, 1005.0, 1020.0, alive=["worker-0"]) == ["worker-1@1010"]


def test_a_closed_connection_is_a_suspicion_that_the_exit_status_explains(
    registry: WorkerRegistry,
) -> None:
    suspicion = registry.connection_closed("worker-1")
    assert suspicion is not None
    assert suspicion.rank is CauseRank.SUSPICION
    cause = registry.exited("worker-1", "killed by signal 9 (SIGKILL)")
    assert cause is not None
    assert cause.rank is CauseRank.CAUSE
    assert cause.describe() == ("worker worker-1 (pid 101) was lost: killed by signal 9 (SIGKILL)")
    assert registry.exited("worker-1", "exited with status 0") is None


def test_an_exit_that_is_known_first_needs_no_suspicion(registry: WorkerRegistry) -> None:
    assert registry.exited("worker-1", "exited with status 1") is not None
    assert registry.connection_closed("worker-1") is None


def test_the_exit_of_an_unregistered_worker_changes_nothing(registry: WorkerRegistry) -> None:
    assert registry.exited("worker-9", "exited with status 1") is None
    assert registry.get("worker-9") is None


def test_slots_are_occupied_until_released(registry: WorkerRegistry) -> None:
    worker = registry.get("worker-1")
    assert worker is not None
    registry.occupy("worker-1", ("job-a", 0), 2)
    registry.occupy("worker-1", ("job-b", 0), 1)
    assert worker.free_slots == 0
    registry.release("worker-1", ("job-a", 0))
    registry.release("worker-1", ("job-a", 0))
    assert worker.free_slots == 2


def test_a_lost_worker_has_no_free_slots(registry: WorkerRegistry) -> None:
    registry.occupy("worker-1", ("job-a", 0), 1)
    registry.connection_closed("worker-1")
    worker = registry.get("worker-1")
    assert worker is not None
    assert worker.free_slots == 0
    registry.release("worker-1", ("job-a", 0))
    assert worker.free_slots == 0


def test_the_last_lost_workers_are_remembered(registry: WorkerRegistry) -> None:
    """A long-lived cluster loses workers again and again."""
    for number in range(2, 2 + RETAINED):
        registry.register(Register(f"worker-{number}", number, f"127.0.0.1:{number}", 1), now=0.0)
    for number in range(1, 2 + RETAINED):
        registry.connection_closed(f"worker-{number}")
        registry.exited(f"worker-{number}", "exited with status 1")
    kept = [worker.worker_id for worker in registry.workers()]
    assert kept == ["worker-0", "worker-2", "worker-3", "worker-4"]
    assert registry.forgotten == 1
    assert registry.get("worker-1") is None
    assert registry.connection_closed("worker-1") is None, "no news of one that is forgotten"
    again = registry.register(Register("worker-1", 999, "127.0.0.1:999", 1), now=1.0)
    assert not again.is_lost


def test_slots_are_counted_anew(registry: WorkerRegistry) -> None:
    registry.occupy("worker-1", ("job-a", 0), 2)
    registry.reoccupy("worker-1", ("job-a", 0), 1)
    registry.reoccupy("worker-1", ("job-a", 1), 2)
    worker = registry.get("worker-1")
    assert worker is not None
    assert worker.free_slots == 0
    registry.reoccupy("worker-1", ("job-a", 0), 0)
    assert worker.occupied == {("job-a", 1): 2}
    registry.connection_closed("worker-1")
    registry.reoccupy("worker-1", ("job-a", 1), 1)
    registry.reoccupy("worker-9", ("job-a", 1), 1)
    assert worker.occupied == {}, "it is lost"


@pytest.mark.parametrize(
    ("error_s", "known"), [(-1.0, False), (-0.001, False), (0.0, True), (0.5, True), (2.0, True)]
)
def test_a_clock_is_known_with_any_error_that_is_not_negative(
    registry: WorkerRegistry, error_s: float, known: bool
) -> None:
    registry.has_clock("worker-0", 3.0, error_s)
    worker = next(one for one in registry.registered() if one.worker_id == "worker-0")
    expected = (3.0, error_s) if known else (0.0, None)
    assert (worker.clock_offset_s, worker.clock_error_s) == expected


@pytest.mark.parametrize("stuck_timeout_s", [0.5])
def test_a_worker_is_at_no_step_before_its_first_heartbeat(registry: WorkerRegistry) -> None:
    assert registry.tick(0.25) == []
    registry.is_at_step("worker-0", "map (1/2)", 0.5)
    assert [cause.worker_id for cause in registry.tick(0.25)] == ["worker-0"]
