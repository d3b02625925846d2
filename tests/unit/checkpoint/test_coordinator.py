"""The checkpoint coordinator: when checkpoints begin, and how they end."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from flinknet.checkpoint.coordinator import (
    CheckpointCoordinator,
    Complete,
    Discard,
    FailJob,
    NotifyAborted,
    NotifyCompleted,
    Order,
    Trigger,
)
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
from flinknet.checkpoint.pending_checkpoint import SubtaskId, SubtaskReport
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import LocalProtocolError
from flinknet.wire.checkpoint_options import CheckpointKind

SOURCES = ((0, 0), (0, 1))
SINK = (1, 0)
SUBTASKS = (*SOURCES, SINK)
INPUTS: dict[int, tuple[int, ...]] = {0: (), 1: (0,)}
REPORT = SubtaskReport()
NOT_WRITTEN = CheckpointFailure(CheckpointFailureReason.COMPLETION_FAILURE, "not now")


def wall_ms(at: float) -> int:
    return round((100.0 + at) * 1000)


def coordinator(**options: Any) -> CheckpointCoordinator:
    """Return a coordinator with an interval of one second; all its subtasks run since second 0."""
    made = CheckpointCoordinator(
        JobCheckpointingConfig(**{"interval_ms": 1000.0, "timeout_ms": 5000.0, **options}),
        INPUTS,
        wall_ms=wall_ms,
    )
    made.attempt_runs(SUBTASKS, (), 0.0)
    return made


def triggered(coordinator: CheckpointCoordinator, now: float) -> Trigger:
    """Return the trigger of the only checkpoint that begins now."""
    (order,) = coordinator.tick(now)
    assert isinstance(order, Trigger)
    coordinator.check_invariants()
    return order


def acknowledged(coordinator: CheckpointCoordinator, checkpoint_id: int) -> list[Order]:
    orders = [coordinator.acknowledge(checkpoint_id, subtask, REPORT) for subtask in SUBTASKS]
    coordinator.check_invariants()
    return [order for order in orders if order is not None]


def complete(coordinator: CheckpointCoordinator, checkpoint_id: int, now: float) -> list[Order]:
    (order,) = acknowledged(coordinator, checkpoint_id)
    assert isinstance(order, Complete)
    assert order.checkpoint.checkpoint_id == checkpoint_id
    orders = coordinator.completed(checkpoint_id, now)
    coordinator.check_invariants()
    return orders


def aborts(*checkpoint_ids: int) -> list[Order]:
    return [
        order
        for checkpoint_id in checkpoint_ids
        for order in (NotifyAborted(checkpoint_id), Discard(checkpoint_id))
    ]


CHECKPOINT, SAVEPOINT = CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT


def test_checkpoints_begin_at_the_sources_an_interval_apart() -> None:
    books = coordinator()
    assert books.deadline == 1.0
    assert books.tick(0.5) == []
    assert triggered(books, 1.0) == Trigger(1, 101_000, CHECKPOINT, SOURCES)
    assert complete(books, 1, 1.25) == [NotifyCompleted(1, CHECKPOINT)]
    assert books.latest is not None
    assert books.latest.checkpoint_id == 1
    assert books.deadline == 2.0
    assert triggered(books, 2.5).checkpoint_id == 2, "late, and not caught up"
    complete(books, 2, 2.5)
    assert books.deadline == 3.5


def test_no_checkpoint_before_all_subtasks_run() -> None:
    books = CheckpointCoordinator(JobCheckpointingConfig(1000.0), INPUTS, wall_ms=wall_ms)
    assert books.deadline is None
    assert books.tick(1e6) == []
    with pytest.raises(LocalProtocolError, match="all subtasks of the job"):
        books.trigger_savepoint(SAVEPOINT, 0.0)


def test_the_next_one_waits_for_one_too_many() -> None:
    books = coordinator()
    triggered(books, 1.0)
    assert books.deadline == 6.0, "its time-out"
    assert books.tick(3.0) == []
    complete(books, 1, 3.5)
    assert books.deadline == 3.5, "at once"
    assert triggered(books, 3.5).checkpoint_id == 2


def test_as_many_at_a_time_as_may() -> None:
    books = coordinator(max_concurrent=2)
    triggered(books, 1.0)
    triggered(books, 2.0)
    assert books.deadline == 6.0
    assert books.tick(3.0) == []
    assert [one.checkpoint_id for one in books.pending] == [1, 2]


def test_the_pause_begins_at_the_end_of_the_one_before() -> None:
    books = coordinator(min_pause_ms=700.0)
    triggered(books, 1.0)
    complete(books, 1, 1.75)
    assert books.deadline == pytest.approx(2.45)
    assert books.tick(2.0) == []
    assert triggered(books, 2.5).checkpoint_id == 2
    books.decline(2, CheckpointFailureReason.DECLINED, "", 3.0)
    assert books.deadline == pytest.approx(3.7), "one that fails ends, too"


def test_a_later_one_subsumes_those_before_it() -> None:
    """A subsumed checkpoint counts neither as failed nor as complete."""
    books = coordinator(max_concurrent=3)
    for now in (1.0, 2.0, 3.0):
        triggered(books, now)
    assert complete(books, 2, 3.5) == [*aborts(1), NotifyCompleted(2, CHECKPOINT)]
    assert acknowledged(books, 1) == []
    assert books.decline(1, CheckpointFailureReason.DECLINED, "", 3.5) == []
    assert [one.checkpoint_id for one in books.pending] == [3]
    assert books.history.checkpoints[-1].reason is CheckpointFailureReason.SUBSUMED


def test_one_whose_metadata_came_too_late_is_discarded() -> None:
    books = coordinator(max_concurrent=2)
    triggered(books, 1.0)
    triggered(books, 2.0)
    acknowledged(books, 1)
    complete(books, 2, 2.5)
    assert books.completed(1, 2.5) == [Discard(1)]
    assert books.completion_failed(1, NOT_WRITTEN, 2.5) == []
    assert books.latest is not None
    assert books.latest.checkpoint_id == 2


def test_a_checkpoint_that_times_out_is_aborted() -> None:
    books = coordinator(tolerable_failures=5)
    triggered(books, 1.0)
    books.acknowledge(1, SINK, REPORT)
    assert books.tick(6.0)[:2] == aborts(1)
    assert books.acknowledge(1, SOURCES[0], REPORT) is None
    assert books.history.checkpoints[-1].reason is CheckpointFailureReason.EXPIRED
    books.check_invariants()


def test_the_time_for_the_metadata_is_limited_too() -> None:
    books = coordinator(tolerable_failures=5)
    triggered(books, 1.0)
    acknowledged(books, 1)
    assert books.tick(6.0)[:2] == aborts(1)
    assert books.completed(1, 6.5) == [Discard(1)]


def test_one_failure_more_than_may_be_fails_the_job() -> None:
    books = coordinator(tolerable_failures=1)
    triggered(books, 1.0)
    assert books.decline(1, CheckpointFailureReason.DECLINED, "not now", 1.5) == aborts(1)
    triggered(books, 2.0)
    acknowledged(books, 2)
    *ended, failure = books.completion_failed(2, NOT_WRITTEN, 2.5)
    assert ended == aborts(2)
    assert failure == FailJob(
        "2 checkpoints failed in a row, more than the 1 that are tolerated "
        "(set_tolerable_checkpoint_failure_number); "
        "the last one, 2, because its metadata could not be written: not now"
    )


def test_a_full_disk_fails_checkpoints_and_never_the_job() -> None:
    """This holds for any number of failures. The next checkpoint is not tried before its time."""
    books = coordinator()
    full = CheckpointFailure(CheckpointFailureReason.STORAGE_FULL, "No space left on device")
    triggered(books, 1.0)
    assert books.decline(1, *full, 1.5) == aborts(1)
    assert books.deadline == 2.0
    triggered(books, 2.0)
    acknowledged(books, 2)
    assert books.completion_failed(2, full, 2.5) == aborts(2)
    assert books.history.why_failed(2) == "the storage has no space left: No space left on device"
    assert books.history.failed == 2
    triggered(books, 3.0)
    complete(books, 3, 3.5)


def test_a_last_checkpoint_for_which_there_is_no_room_is_tried_again_in_its_time() -> None:
    """A subtask with something to commit waits for such a checkpoint.

    Without room, the tries must not follow each other at once.
    """
    books = coordinator()
    for subtask in SOURCES:
        books.subtask_finished(subtask)
    books.subtask_awaits(SINK, 0)
    (trigger,) = books.tick(1.0)
    assert isinstance(trigger, Trigger)
    assert books.decline(1, CheckpointFailureReason.STORAGE_FULL, "", 1.1) == aborts(1)
    assert books.deadline == 2.0


def test_a_complete_one_begins_the_count_anew() -> None:
    books = coordinator(tolerable_failures=1)
    for number in range(1, 7, 2):
        triggered(books, float(number))
        ended = books.decline(number, CheckpointFailureReason.ASYNC_FAILURE, "", float(number))
        assert ended == aborts(number)
        triggered(books, number + 1.0)
        complete(books, number + 1, number + 1.0)


def test_missing_subtasks_are_counted_in_the_explanation() -> None:
    books = coordinator()
    triggered(books, 1.0)
    *_, failure = books.tick(6.0)[:3]
    assert isinstance(failure, FailJob)
    assert failure.explanation.endswith("within its time-out; 3 subtasks had not acknowledged it")


def test_a_checkpoint_that_comes_too_early_fails_no_job() -> None:
    """This holds even if a subtask is never ready and the job tolerates no failure."""
    books = coordinator(tolerable_failures=0)
    for second in range(1, 6):
        checkpoint_id = triggered(books, float(second)).checkpoint_id
        orders = books.decline(checkpoint_id, CheckpointFailureReason.NOT_READY, "", second + 0.1)
        assert orders == aborts(checkpoint_id)
    checkpoint_id = triggered(books, 6.0).checkpoint_id
    *_, failure = books.decline(checkpoint_id, CheckpointFailureReason.DECLINED, "", 6.1)
    assert isinstance(failure, FailJob)


def test_while_some_subtasks_begin_again_there_are_no_checkpoints() -> None:
    """The coordinator still records which of the other subtasks finish or await the last
    checkpoint."""
    books = coordinator()
    triggered(books, 1.0)
    books.subtask_finished(SOURCES[1])
    assert books.suspend(1.5) == aborts(1)
    assert (books.is_running, books.is_suspended, books.deadline) == (False, True, None)
    with pytest.raises(LocalProtocolError, match="all subtasks of the job to run"):
        books.trigger_savepoint(CheckpointKind.SAVEPOINT, 1.6)
    books.subtask_finished(SOURCES[0])
    assert books.subtask_awaits(SINK, 0) == []
    books.restart([SOURCES[1]], ())
    books.resume(10.0)
    assert (books.is_running, books.is_suspended) == (True, False)
    assert books.deadline == 11.0
    trigger = triggered(books, 11.0)
    assert trigger.checkpoint_id == 2, "numbers never repeat"
    assert trigger.subtasks == (SOURCES[1], SINK), "who has begun again has not finished"
    books.check_invariants()


def test_a_restarted_subtask_no_longer_awaits_its_last_checkpoint() -> None:
    books = coordinator()
    books.subtask_awaits(SOURCES[0], 0)
    books.suspend(1.5)
    books.restart([SOURCES[0], SINK], [SINK, SOURCES[1]])
    books.resume(10.0)
    assert triggered(books, 11.0).subtasks == SOURCES, "the sink had finished in the checkpoint"
    assert books.suspend(12.0) == aborts(1)
    assert books.attempt_ends(12.0) == []
    assert not books.is_suspended
    assert books.subtask_awaits(SOURCES[0], 0) == [], "nothing is left of the attempt"


def test_a_subtask_that_awaits_its_last_checkpoint_waits_for_no_interval() -> None:
    books = coordinator()
    for subtask in SOURCES:
        books.subtask_finished(subtask)
    books.suspend(1.5)
    books.subtask_awaits(SINK, 0)
    books.resume(10.0)
    assert triggered(books, 10.0).subtasks == (SINK,)


REGIONS = (((0, 0), (1, 0)), ((2, 0), (3, 0)), ((4, 0), (5, 0)))
"""A source and a sink for each region."""

Told = tuple[str, int]


def _order(regions: int, random: Random) -> list[Told]:
    """Return an order in which regions restart, some of them twice, and their subtasks end.

    In each region a source finishes, and then its sink awaits its last checkpoint.
    """
    order: list[Told] = []
    steps = [0] * regions
    while set(steps) != {2}:
        region = random.randrange(regions)
        if random.random() < 0.3:
            order.append(("restart", region))
            steps[region] = 0
        elif steps[region] < 2:
            order.append((("source", "sink")[steps[region]], region))
            steps[region] += 1
    return order


@pytest.mark.parametrize("regions", [2, 3])
def test_reports_between_suspend_and_resume_count_from_the_last_restart(
    regions: int,
) -> None:
    """The order of restarts and ends does not matter.

    The checkpoint that the sinks await is triggered at once, at all sinks, and needs no other
    acknowledgement.
    """
    random = Random(7)
    places = REGIONS[:regions]
    inputs = {vertex: (vertex - 1,) * (vertex % 2) for vertex in range(2 * regions)}
    for _ in range(500):
        order = _order(regions, random)
        books = CheckpointCoordinator(
            JobCheckpointingConfig(interval_ms=1000.0),
            inputs,
            wall_ms=wall_ms,
        )
        books.attempt_runs([one for region in places for one in region], (), 0.0)
        books.suspend(1.5)
        for what, region in order:
            source, sink = places[region]
            if what == "restart":
                books.restart(places[region], ())
            elif what == "source":
                assert books.subtask_finished(source) == []
            else:
                assert books.subtask_awaits(sink, -1) == []
        books.resume(2.0)
        sinks = tuple(sink for _, sink in places)
        assert triggered(books, 2.0).subtasks == sinks, order
        told = [books.acknowledge(1, sink, REPORT) for sink in sinks]
        assert isinstance(told[-1], Complete), order
        books.check_invariants()


def test_an_attempt_that_ends_takes_its_checkpoints_along() -> None:
    books = coordinator(max_concurrent=2)
    triggered(books, 1.0)
    triggered(books, 2.0)
    acknowledged(books, 2)
    assert books.attempt_ends(2.5) == aborts(1, 2)
    assert books.attempt_ends(2.5) == []
    assert books.deadline is None
    books.check_invariants()
    books.attempt_runs(SUBTASKS, (), 10.0)
    assert books.deadline == 11.0
    assert triggered(books, 11.0).checkpoint_id == 3, "numbers never repeat"


def test_a_job_goes_on_with_checkpoints_when_sources_have_finished() -> None:
    """O2: finished subtasks take part in no checkpoint.

    It is triggered at the next subtasks instead.
    """
    books = coordinator()
    assert books.subtask_finished(SOURCES[0]) == []
    assert triggered(books, 1.0).subtasks == (SOURCES[1],)
    books.acknowledge(1, SINK, REPORT)
    (order,) = books.subtask_finished(SOURCES[1])
    assert isinstance(order, Complete)
    assert order.checkpoint.finished == set(SOURCES)
    assert books.subtask_finished((7, 7)) == []
    books.completed(1, 1.5)
    books.attempt_ends(1.5)
    books.attempt_runs(SUBTASKS, SOURCES, 1.5)
    assert triggered(books, 2.5).subtasks == (SINK,)
    books.subtask_finished(SINK)
    books.completed(2, 2.5)
    assert books.deadline is None
    assert books.tick(99.0) == []
    with pytest.raises(LocalProtocolError):
        books.trigger_savepoint(SAVEPOINT, 99.0)


OTHER_SINK = (2, 0)


def two_pipelines(**options: Any) -> CheckpointCoordinator:
    """Return a coordinator of source 0 with sink 1, and of source 2, which is its own sink."""
    books = CheckpointCoordinator(
        JobCheckpointingConfig(**{"interval_ms": 1000.0, "timeout_ms": 5000.0, **options}),
        {0: (), 1: (0,), 2: ()},
        wall_ms=lambda at: round(at * 1000),
    )
    books.attempt_runs(((0, 0), (1, 0), OTHER_SINK), (), 0.0)
    return books


def test_a_last_checkpoint_comes_at_once_when_nothing_else_happens() -> None:
    """O2: the waiting subtasks are the roots.

    While other subtasks are at work, it comes when it is due.
    """
    books = two_pipelines(min_pause_ms=500.0)
    triggered(books, 1.0)
    for subtask in ((0, 0), (1, 0), OTHER_SINK):
        books.acknowledge(1, subtask, REPORT)
    books.completed(1, 1.1)
    assert books.subtask_finished((0, 0), taken=1) == []
    assert books.subtask_awaits(SINK, 1) == []
    assert books.deadline == 2.0
    assert books.subtask_awaits(OTHER_SINK, 1) == []
    assert triggered(books, 1.2) == Trigger(2, 1200, CHECKPOINT, (SINK, OTHER_SINK))
    assert books.deadline == 6.2
    books.acknowledge(2, SINK, REPORT)
    books.acknowledge(2, OTHER_SINK, REPORT)
    books.completed(2, 1.3)
    books.subtask_finished(SINK, taken=2)
    books.subtask_finished(OTHER_SINK, taken=2)
    assert books.deadline is None


def test_the_last_one_to_finish_hastens_the_checkpoint_of_the_others() -> None:
    books = two_pipelines()
    books.subtask_finished((0, 0))
    books.subtask_awaits(SINK, -1)
    assert books.deadline == 1.0
    books.subtask_finished(OTHER_SINK)
    assert triggered(books, 0.1).subtasks == (SINK,)


def test_one_under_way_is_the_last_checkpoint_if_it_is_behind_the_end() -> None:
    """O2: if it fails, the next one comes when it is due, or at once if it was only subsumed."""
    books = two_pipelines(tolerable_failures=5)
    triggered(books, 1.0)
    assert books.subtask_finished((0, 0)) == [Trigger(1, 1000, CHECKPOINT, (SINK,))]
    books.subtask_finished(OTHER_SINK)
    assert books.subtask_awaits(SINK, 0) == []
    assert books.deadline == 6.0
    reason = CheckpointFailureReason
    assert books.decline(1, reason.ASYNC_FAILURE, "", 1.1) == aborts(1)
    assert books.deadline == 2.0
    triggered(books, 2.0)
    assert books.decline(2, reason.SUBSUMED, "", 2.1) == aborts(2)
    triggered(books, 2.1)


def test_one_before_the_end_is_not_the_last_checkpoint() -> None:
    books = two_pipelines(max_concurrent=2)
    triggered(books, 1.0)
    books.subtask_finished((0, 0), taken=1)
    books.subtask_finished(OTHER_SINK, taken=1)
    books.subtask_awaits(SINK, 1)
    assert triggered(books, 1.1).checkpoint_id == 2


def test_a_subtask_that_awaits_a_checkpoint_is_finished_for_downstream() -> None:
    """O2: it emits no further barriers, so the next subtasks trigger the checkpoint, even one that
    had begun before."""
    books = coordinator()
    assert triggered(books, 1.0).subtasks == SOURCES
    assert books.subtask_awaits(SOURCES[0], -1) == []
    assert books.subtask_awaits(SOURCES[1], -1) == [Trigger(1, 101_000, CHECKPOINT, (SINK,))]
    assert books.subtask_finished(SOURCES[0], taken=1) == []
    complete(books, 1, 1.5)
    assert triggered(books, 2.0).subtasks == (SOURCES[1], SINK)


def test_a_downstream_subtask_triggers_a_checkpoint_without_barriers() -> None:
    """O2: the sources ended while it was triggered, and have no barrier to pass on."""
    books = coordinator()
    triggered(books, 1.0)
    assert books.subtask_finished(SOURCES[0]) == []
    assert books.subtask_finished(SOURCES[1]) == [Trigger(1, 101_000, CHECKPOINT, (SINK,))]
    (order,) = [books.acknowledge(1, SINK, REPORT)]
    assert isinstance(order, Complete)
    assert order.checkpoint.finished == set(SOURCES)


def test_no_subtask_awaits_a_checkpoint_of_an_ended_attempt() -> None:
    books = coordinator()
    books.subtask_finished(SINK)
    assert books.subtask_awaits(SINK, -1) == []
    books.attempt_ends(0.5)
    assert books.subtask_awaits(SOURCES[0], -1) == []
    books.attempt_runs(SUBTASKS, (), 1.0)
    assert triggered(books, 2.0).subtasks == SOURCES


def test_a_subtask_that_finishes_after_taking_part_is_still_awaited() -> None:
    """O2: its acknowledgement is on its way, and holds its state at the checkpoint."""
    books = coordinator()
    triggered(books, 1.0)
    assert books.is_running
    books.acknowledge(1, SINK, REPORT)
    books.acknowledge(1, SOURCES[0], REPORT)
    assert books.subtask_finished(SOURCES[1], taken=1) == []
    order = books.acknowledge(1, SOURCES[1], REPORT)
    assert isinstance(order, Complete)
    assert order.checkpoint.finished == set()


def test_a_savepoint_stands_beside_the_checkpoints() -> None:
    books = coordinator()
    triggered(books, 1.0)
    assert books.trigger_savepoint(SAVEPOINT, 1.5) == Trigger(2, 101_500, SAVEPOINT, SOURCES)
    books.check_invariants()
    complete(books, 1, 1.5)
    triggered(books, 2.0)
    assert complete(books, 3, 2.5) == [NotifyCompleted(3, CHECKPOINT)], "not subsumed"
    assert complete(books, 2, 2.5) == [NotifyCompleted(2, SAVEPOINT)]
    assert books.latest is not None
    assert books.latest.checkpoint_id == 3, "users may delete a savepoint"


def test_no_unaligned_checkpoint_overtakes_a_savepoint() -> None:
    books = coordinator(unaligned=True)
    books.trigger_savepoint(SAVEPOINT, 0.5)
    assert books.tick(1.0) == []
    assert complete(books, 1, 3.0) == [NotifyCompleted(1, SAVEPOINT)]
    assert triggered(books, 3.0).checkpoint_id == 2


def test_a_savepoint_that_fails_is_the_users_matter() -> None:
    books = coordinator()
    books.trigger_savepoint(SAVEPOINT, 0.5)
    assert books.decline(1, CheckpointFailureReason.DECLINED, "", 0.5) == aborts(1)


def test_no_checkpoint_beside_the_savepoint_that_ends_the_job() -> None:
    books = coordinator()
    books.trigger_savepoint(CheckpointKind.SAVEPOINT_SUSPEND, 0.5)
    assert books.deadline == 5.5
    assert books.tick(1.0) == []
    with pytest.raises(LocalProtocolError, match="already being stopped"):
        books.trigger_savepoint(SAVEPOINT, 1.0)
    books.decline(1, CheckpointFailureReason.DECLINED, "", 1.5)
    assert triggered(books, 1.5).checkpoint_id == 2, "it goes on"


def test_nothing_is_triggered_after_the_savepoint_that_ends_the_job() -> None:
    books = coordinator()
    books.trigger_savepoint(CheckpointKind.SAVEPOINT_SUSPEND, 0.5)
    complete(books, 1, 0.75)
    assert books.deadline is None
    assert books.tick(10.0) == []
    with pytest.raises(LocalProtocolError, match="already being stopped"):
        books.trigger_savepoint(SAVEPOINT, 10.0)
    books.attempt_ends(11.0)
    books.attempt_runs(SUBTASKS, (), 12.0)
    assert triggered(books, 13.0).checkpoint_id == 2, "its end failed, and it runs again"


def test_a_job_that_could_not_be_drained_fails() -> None:
    """Its windows have fired already."""
    books = coordinator()
    books.trigger_savepoint(CheckpointKind.SAVEPOINT_TERMINATE, 0.5)
    *orders, failure = books.decline(1, CheckpointFailureReason.DECLINED, "full", 1.5)
    assert orders == aborts(1)
    assert failure == FailJob(
        "the savepoint that was to drain the job failed: a subtask could not take part: full"
    )
    books.trigger_savepoint(CheckpointKind.SAVEPOINT_TERMINATE, 2.0)
    assert books.attempt_ends(3.0) == aborts(2)


def test_without_periodic_checkpoints_there_are_savepoints() -> None:
    books = CheckpointCoordinator(
        JobCheckpointingConfig(1000.0), INPUTS, wall_ms=wall_ms, periodic=False
    )
    books.attempt_runs(SUBTASKS, (), 0.0)
    assert books.deadline is None
    assert books.tick(10.0) == []
    books.trigger_savepoint(SAVEPOINT, 10.0)
    assert complete(books, 1, 11.0) == [NotifyCompleted(1, SAVEPOINT)]


def random_subtask(random: Random) -> SubtaskId:
    return random.choice(SUBTASKS)


def test_numbers_go_on_behind_those_of_books_that_are_lost() -> None:
    books = coordinator()
    assert books.next_id == 1
    books.number_after(7)
    books.number_after(3)
    assert triggered(books, 1000.0).checkpoint_id == 8


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_what_happens_keeps_the_books(seed: int) -> None:
    random = Random(seed)
    books = coordinator(max_concurrent=random.randint(1, 3), tolerable_failures=100)
    now = 0.0
    completing: list[int] = []
    for _ in range(400):
        now += random.choice((0.0, 0.05, 0.3))
        checkpoint_id = max(1, books.history.triggered - random.randint(0, 2))
        orders: list[Order] = []
        match random.randrange(10):
            case 0 | 1:
                orders = books.tick(now)
            case 2 | 3 | 4:
                order = books.acknowledge(checkpoint_id, random_subtask(random), REPORT)
                orders = [] if order is None else [order]
            case 5:
                if completing:
                    orders = books.completed(completing.pop(), now)
            case 6 if random.random() < 0.3:
                orders = books.decline(checkpoint_id, CheckpointFailureReason.DECLINED, "", now)
            case 7 if random.random() < 0.1:
                orders = books.attempt_ends(now)
                books.attempt_runs(SUBTASKS, (), now)
            case 8 if random.random() < 0.05:
                orders = books.subtask_awaits(random_subtask(random), checkpoint_id)
            case 9 if random.random() < 0.02:
                orders = books.subtask_finished(random_subtask(random), checkpoint_id)
        completing += [
            order.checkpoint.checkpoint_id for order in orders if isinstance(order, Complete)
        ]
        books.check_invariants()
    assert books.history.completed > 0
