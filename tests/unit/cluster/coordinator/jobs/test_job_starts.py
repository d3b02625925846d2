"""The first attempts of jobs, the next ones, and restarts of regions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.checkpoint.coordinator import Discard
from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    Cancel,
    Deploy,
    Failed,
    Heartbeat,
    Register,
    Released,
    Run,
    TriggerCheckpoint,
)
from flinknet.cluster.coordinator.jobs.recovery import RecoveryState
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.config.restart_strategy import FixedDelayRestart
from flinknet.errors import (
    InsufficientSlotsError,
    LocalProtocolError,
)
from flinknet.graph.graph import CheckpointedOutput
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.cluster.coordinator.jobs.dispatched import (
    CHECKPOINTING,
    CONFIG,
    RESULT,
    WORKERS,
    Checkpointed,
    Cluster,
    Parted,
    failed,
    triggers,
)


def test_a_job_that_does_not_fit_is_refused_and_leaves_nothing(cluster: Cluster) -> None:
    with pytest.raises(InsufficientSlotsError, match="needs 5 slots"):
        cluster.submit(parallelism=5)
    cluster.running(parallelism=3)
    with pytest.raises(InsufficientSlotsError, match=r"needs 2 slots.*has 1"):
        cluster.submit(parallelism=2)
    assert len(cluster.dispatcher.jobs()) == 1


def test_jobs_wait_for_slots_in_order_of_their_submission(cluster: Cluster) -> None:
    first = cluster.running(parallelism=4)
    wide = cluster.submit(parallelism=3, waits_s=60.0)
    narrow = cluster.submit(parallelism=1, waits_s=60.0)
    assert [one.state for one in (wide, narrow)] == [JobState.CREATED] * 2
    status = wide.status(cluster.now)
    assert (status["state"], status["workers"], status["holders"]) == ("CREATED", [], [])
    assert cluster.sent == [], "no worker hears of them"
    for subtask in first.execution.subtask_states():
        result = {**RESULT, "collected": b""}
        cluster.dispatcher.take_result(first, first.present, subtask, result, cluster.now)
    cluster.say("worker-0", Released(first.job_id, 0))
    assert cluster.free_slots() == [2, 0]
    assert narrow.state is JobState.CREATED, "it would fit, and does not overtake"
    with pytest.raises(InsufficientSlotsError, match=r"needs 3 slots.*has 2"):
        cluster.submit(parallelism=3)
    cluster.say("worker-1", Released(first.job_id, 0))
    assert [one.state for one in (wide, narrow)] == [JobState.DEPLOYING] * 2
    assert (wide.present.number, len(wide.attempts)) == (0, 1)
    cluster.open(wide)
    cluster.finish(wide)
    assert wide.state is JobState.FINISHED


def test_a_job_that_has_waited_too_long_fails_with_the_numbers(cluster: Cluster) -> None:
    cluster.restart = FixedDelayRestart(3, 0.0)
    cluster.running(parallelism=4)
    waiting = cluster.submit(parallelism=3, waits_s=60.0)
    behind = cluster.submit(parallelism=3, waits_s=10.0)
    cluster.pass_time(59.9)
    assert (waiting.state, behind.state) == (JobState.CREATED, JobState.FAILED)
    cluster.pass_time(60.1)
    assert waiting.state is JobState.FAILED
    cause = waiting.execution.cause
    assert cause is not None
    assert "has waited for slots for 60 s" in cause.message
    assert "needs 3 slots" in cause.message
    assert waiting.submission.graph == b""


def test_a_job_that_waits_is_cancelled_or_ends_with_the_coordinator(cluster: Cluster) -> None:
    cluster.running(parallelism=4)
    cancelled = cluster.submit(parallelism=3, waits_s=60.0)
    ended = cluster.submit(parallelism=3, waits_s=60.0)
    cluster.dispatcher.cancel(cancelled, cluster.now)
    assert cancelled.state is JobState.CANCELED
    cluster.dispatcher.stop(FailureCause.of_coordinator(1, "stops"), cluster.now)
    assert ended.state is JobState.FAILED


def test_only_so_many_jobs_wait(cluster: Cluster) -> None:
    cluster.running(parallelism=4)
    for _ in range(CONFIG.jobs_waiting_max):
        cluster.submit(parallelism=1, waits_s=60.0)
    with pytest.raises(InsufficientSlotsError, match="2 jobs wait already"):
        cluster.submit(parallelism=1, waits_s=60.0)


def test_a_job_whose_attempt_has_failed_ends_with_it(cluster: Cluster) -> None:
    """It has no restart strategy."""
    record = cluster.running()
    cluster.fail(record)
    assert record.ended_at == cluster.now
    assert record.submission.graph == b""
    with pytest.raises(LocalProtocolError, match="has ended"):
        cluster.dispatcher.starts.begin_attempt(record, cluster.now)


def test_a_failed_attempt_is_followed_by_another_that_answers_for_the_job(
    retrying: Cluster,
) -> None:
    record = retrying.running()
    retrying.now = 2.0
    retrying.fail(record)
    assert (record.ended_at, retrying.free_slots()) == (None, [2, 2])
    assert record.submission.graph, "the next attempt needs it"
    retrying.now = 3.0
    attempt = retrying.dispatcher.starts.begin_attempt(record, retrying.now)
    assert record.present is attempt
    assert retrying.sent == [(worker_id, Deploy(record.job_id, 1)) for worker_id in WORKERS]
    assert retrying.free_slots() == [1, 1]
    retrying.open(record)
    retrying.now = 7.0
    retrying.finish(record)
    status = record.status(retrying.now)
    assert (status["attempt"], status["state"], status["seconds"]) == (1, "FINISHED", 7.0)
    assert status["cause"] is None
    story = [attempt.status(retrying.now) for attempt in record.attempts]
    assert [(past["attempt"], past["state"], past["seconds"]) for past in story] == [
        (0, "FAILED", 2.0),
        (1, "FINISHED", 4.0),
    ]
    assert story[0]["cause"]["message"] == "boom"
    assert record.ended_at == 7.0
    assert record.submission.graph == b""


def test_the_names_of_an_attempt_are_its_own(retrying: Cluster) -> None:
    """No channel of one attempt can then be taken for one of another."""
    record = retrying.running()
    retrying.fail(record)
    retrying.dispatcher.starts.begin_attempt(record, retrying.now)
    partitions = [
        {
            result.partition_id
            for descriptors in attempt.placement.subtasks.values()
            for descriptor in descriptors
            for result in descriptor.results
        }
        for attempt in record.attempts
    ]
    assert all(partitions)
    assert not set.intersection(*partitions)


def test_a_job_is_restarted_when_its_time_has_come(restarting: Cluster) -> None:
    record = restarting.running()
    assert not restarting.dispatcher.starts.waits_to_restart
    restarting.fail(record)
    assert (record.state, record.status(0.5)["state"]) == (JobState.RESTARTING, "RESTARTING")
    assert restarting.dispatcher.starts.waits_to_restart
    restarting.pass_time(0.9)
    assert record.present.number == 0
    restarting.pass_time(1.0)
    assert (record.present.number, record.state) == (1, JobState.DEPLOYING)
    assert restarting.sent == [(worker_id, Deploy(record.job_id, 1)) for worker_id in WORKERS]
    restarting.open(record)
    restarting.fail(record)
    assert (record.state, record.ended_at) == (JobState.FAILED, 1.0), "once, and not again"


def test_a_job_with_an_invalid_configuration_is_not_restarted(restarting: Cluster) -> None:
    """The next attempt would fail in the same way until the restarts are used up, which never
    happens with checkpoints. In a job that has run before, the cause is something that had
    worked, so it is restarted."""
    wrong = restarting.running()
    restarting.fail(wrong, error="ConfigurationError")
    assert (wrong.state, wrong.ended_at) == (JobState.FAILED, 0.0)
    retrying = Cluster(FixedDelayRestart(attempts=9, delay_ms=1000.0))
    record = retrying.running()
    retrying.fail(record)
    retrying.pass_time(1.0)
    retrying.open(record)
    retrying.fail(record, error="ConfigurationError")
    assert record.state is JobState.RESTARTING


def test_a_restart_waits_for_a_worker_in_place_of_a_lost_one(restarting: Cluster) -> None:
    record = restarting.running(parallelism=4)
    restarting.dispatcher.worker_exited("worker-1", "killed by signal 9 (SIGKILL)", 0.0)
    restarting.say("worker-0", Released(record.job_id, 0))
    restarting.sent.clear()
    restarting.pass_time(15.0)
    assert (record.state, restarting.sent) == (JobState.RESTARTING, [])
    restarting.dispatcher.register(Register("worker-1.1", 7, "127.0.0.1:7", 2), restarting.now)
    assert restarting.sent == [], "it has not heard yet that it is registered"
    restarting.say("worker-1.1", Heartbeat())
    assert restarting.sent[1:] == [
        ("worker-0", Deploy(record.job_id, 1)),
        ("worker-1.1", Deploy(record.job_id, 1)),
    ]
    restarting.open(record)
    restarting.finish(record)
    assert record.state is JobState.FINISHED


def test_a_restart_does_not_wait_for_slots_for_ever(restarting: Cluster) -> None:
    record = restarting.running(parallelism=4)
    restarting.dispatcher.worker_exited("worker-1", "killed by signal 9 (SIGKILL)", 0.0)
    restarting.say("worker-0", Released(record.job_id, 0))
    restarting.pass_time(20.9)
    assert record.state is JobState.RESTARTING
    restarting.pass_time(21.0)
    assert (record.state, record.ended_at) == (JobState.FAILED, 21.0)
    assert record.status(21.0)["cause"]["message"] == "killed by signal 9 (SIGKILL)"


def test_a_job_that_waits_for_its_restart_can_be_cancelled(restarting: Cluster) -> None:
    record = restarting.running()
    restarting.fail(record)
    restarting.dispatcher.cancel(record, 0.5)
    assert (record.state, record.ended_at) == (JobState.CANCELED, 0.5)
    restarting.pass_time(5.0)
    assert record.present.number == 0


def test_nothing_is_restarted_when_the_coordinator_ends(restarting: Cluster) -> None:
    waiting, running = restarting.running(), restarting.running()
    restarting.fail(waiting)
    restarting.dispatcher.stop(FailureCause.of_coordinator(7, "was told to stop"), 0.0)
    for worker_id in WORKERS:
        restarting.say(worker_id, Released(running.job_id, 0))
    assert [waiting.state, running.state] == [JobState.FAILED, JobState.FAILED]
    assert not restarting.dispatcher.starts.waits_to_restart


def test_the_loss_of_a_worker_concerns_the_attempt_that_runs_there(retrying: Cluster) -> None:
    record = retrying.running()
    retrying.dispatcher.worker_exited("worker-1", "exited with status 1", retrying.now)
    retrying.say("worker-0", Released(record.job_id, 0))
    attempt = retrying.dispatcher.starts.begin_attempt(record, retrying.now)
    assert attempt.execution.workers == ("worker-0",)
    retrying.open(record)
    assert record.execution.state is JobState.RUNNING


def test_an_attempt_that_does_not_fit_leaves_the_job_as_it_is(retrying: Cluster) -> None:
    record = retrying.running(parallelism=4)
    retrying.dispatcher.worker_exited("worker-1", "exited with status 1", retrying.now)
    retrying.say("worker-0", Released(record.job_id, 0))
    with pytest.raises(InsufficientSlotsError, match="needs 4 slots"):
        retrying.dispatcher.starts.begin_attempt(record, retrying.now)
    assert (record.present.number, record.ended_at) == (0, None)
    assert retrying.free_slots() == [2, 0]


@pytest.mark.parametrize(
    "point",
    [
        RestorePoint("checkpoint-7-attempt-0", frozenset({(1, 1)})),
        RestorePoint("checkpoint-0-attempt-0"),
    ],
    ids=["a later one", "an older one"],
)
def test_an_attempt_continues_from_the_checkpoint_that_was_found(
    checkpointed: Checkpointed, point: RestorePoint
) -> None:
    """The job waits for the answer for any time, and needs no tick meanwhile."""
    record = checkpointed.failed_after_checkpoint()
    checkpointed.pass_time(100.0)
    assert (checkpointed.sought, record.present.number) == (1, 0)
    checkpointed.found(record, point)
    assert record.present.number == 1
    assert (record.present.restored_from, record.present.restored_finished) == point
    checkpointed.open(record)
    checkpointed.found(record, RestorePoint("late"))
    assert record.latest_checkpoint == point
    checkpointed.say("worker-0", failed(record, "worker-0", CauseRank.CAUSE))
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 1))
    assert checkpointed.sought == (2 if point.directory else 1), "the start need not be found"


FILES = CheckpointedOutput(1, "files", can_withdraw=True)


PROGRAM = CheckpointedOutput(1, "program", can_withdraw=False)


def test_a_job_that_has_given_out_records_does_not_go_back(checkpointed: Checkpointed) -> None:
    """It fails at once, with any restarts left, as the same checkpoint would be found again."""
    record = checkpointed.completed(FILES, PROGRAM)
    checkpointed.fail(record)
    checkpointed.found(record, RestorePoint("checkpoint-1-attempt-0"))
    cause = record.execution.cause
    assert cause is not None
    assert 'told "program" that checkpoint 2 is complete' in cause.message
    assert "found checkpoint-1-attempt-0" in cause.message
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 1))
    assert (record.state, record.present.number) == (JobState.FAILED, 1)


@pytest.mark.parametrize("outputs", [(), (FILES,), (PROGRAM,)])
def test_a_job_that_goes_back_has_no_newer_checkpoint_from_then_on(
    checkpointed: Checkpointed,
    outputs: tuple[CheckpointedOutput, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    allowed = PROGRAM in outputs
    checkpointed.checkpointing = replace(CHECKPOINTING, allow_repeated_output=allowed)
    record = checkpointed.completed(*outputs)
    checkpointed.fail(record)
    checkpointed.found(record, RestorePoint("checkpoint-1-attempt-0"))
    assert record.present.restored_from == "checkpoint-1-attempt-0"
    (warning,) = caplog.messages
    assert (
        "continues from checkpoint-1-attempt-0, although it had completed checkpoint 2" in warning
    )
    assert ("repeats its output" in warning) is allowed
    assert [record.completed.is_passed_over(number) for number in (1, 2, 3)] == [False, True, False]
    checkpointed.open(record)
    checkpointed.fail(record)
    checkpointed.found(record, RestorePoint("checkpoint-1-attempt-0"))
    assert len(caplog.messages) == 1, "it is the newest one now"
    checkpointed.open(record)
    checkpointed.pass_time(50.0)
    (*_, (_, trigger)) = triggers(checkpointed)
    assert isinstance(trigger, TriggerCheckpoint)
    assert trigger.checkpoint_id == 3


def test_a_job_without_any_of_its_checkpoints_does_not_restart_from_its_start(
    checkpointed: Checkpointed,
) -> None:
    """A missing mount may come back, so the restart strategy decides."""
    record = checkpointed.completed(FILES)
    checkpointed.fail(record)
    checkpointed.dispatcher.checkpoint_found(record, None, None, checkpointed.now, "it is empty")
    cause = record.execution.cause
    assert cause is not None
    assert "had completed checkpoint 2 and cannot continue without it" in cause.message
    assert "it is empty" in cause.message
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 1))
    assert record.state is JobState.RESTARTING
    checkpointed.found(record, RestorePoint("checkpoint-2-attempt-0"))
    assert record.present.restored_from == "checkpoint-2-attempt-0"


@pytest.mark.parametrize("error", ["CheckpointCorruptedError", "CheckpointNotFoundError"])
def test_all_files_are_read_after_one_was_damaged(checkpointed: Checkpointed, error: str) -> None:
    """If they had been read before, this attempt would not have been made.

    It therefore does not count as a restart.
    """
    record = checkpointed.failed_after_checkpoint()
    assert not record.doubts_checkpoints
    checkpointed.found(record, record.latest_checkpoint)
    checkpointed.open(record)
    restarts = record.backoff.restarts
    checkpointed.fail(record, error=error)
    assert (checkpointed.sought, record.state) == (2, JobState.RESTARTING)
    assert (record.doubts_checkpoints, record.backoff.restarts) == (True, restarts)
    checkpointed.found(record, RestorePoint("checkpoint-7-attempt-0"))
    checkpointed.open(record)
    checkpointed.fail(record, error=error)
    assert record.backoff.restarts == restarts + 1, "an error of the store: not for ever"
    checkpointed.found(record, RestorePoint("checkpoint-7-attempt-0"))
    checkpointed.open(record)
    checkpointed.pass_time(20.0)
    (*_, (_, trigger)) = triggers(checkpointed)
    assert isinstance(trigger, TriggerCheckpoint)
    checkpointed.orders.clear()
    checkpointed.complete(record, trigger.checkpoint_id)
    assert not record.doubts_checkpoints, "of a newer one nothing is known"


def test_damage_where_nothing_is_restored_is_a_failure(checkpointed: Checkpointed) -> None:
    record = checkpointed.running()
    corrupted = failed(record, "worker-0", CauseRank.CAUSE, error="CheckpointCorruptedError")
    checkpointed.say("worker-0", corrupted)
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 0))
    assert record.present.number == 1
    assert (record.doubts_checkpoints, record.backoff.restarts) == (False, 1)


def test_the_found_checkpoint_is_kept_while_slots_are_missing(checkpointed: Checkpointed) -> None:
    record = checkpointed.failed_after_checkpoint()
    other = checkpointed.submit(parallelism=4)
    checkpointed.found(record, record.latest_checkpoint)
    checkpointed.pass_time(11.0)
    assert record.recovery.state is RecoveryState.WAITING_FOR_SLOTS
    checkpointed.open(other)
    checkpointed.finish(other)
    assert (checkpointed.sought, record.present.number) == (1, 1)
    assert record.present.restored_from == "checkpoint-1-attempt-0"


def test_an_attempt_fails_with_the_place_of_its_checkpoint(checkpointed: Checkpointed) -> None:
    """The restart strategy decides whether to try again."""
    record = checkpointed.failed_after_checkpoint()
    checkpointed.found(record, "the place does not answer")
    assert record.present.number == 1
    assert record.execution.cause is not None
    assert record.execution.cause.message == "the place does not answer"
    ends = [message for _, message in checkpointed.sent if isinstance(message, Cancel)]
    assert ends == [Cancel(record.job_id, 1)] * 2
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 1))
    assert checkpointed.sought == 2
    checkpointed.found(record, record.latest_checkpoint)
    assert record.present.restored_from == "checkpoint-1-attempt-0"
    checkpointed.open(record)


def test_a_job_that_is_cancelled_meanwhile_continues_from_nothing(
    checkpointed: Checkpointed,
) -> None:
    record = checkpointed.failed_after_checkpoint()
    checkpointed.dispatcher.cancel(record, checkpointed.now)
    checkpointed.found(record, RestorePoint())
    assert (record.present.number, record.state) == (0, JobState.CANCELED)


def test_a_region_restarts_from_the_last_checkpoint_and_the_others_go_on(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    cluster.pass_time(10.0)
    cluster.complete(record, 1)
    cluster.pass_time(20.0)
    cluster.sent.clear()
    cluster.right(record, 0)
    assert record.state is JobState.RESTARTING
    assert record.execution.state is JobState.RUNNING
    assert cluster.orders == [(0, Discard(2))], "what was under way is not completed"
    assert (cluster.sought, cluster.free_slots()) == (1, [1, 1]), "the other side has the slots"
    finished = frozenset({(2, 1), (0, 0)})
    cluster.sent.clear()
    cluster.found(record, RestorePoint("checkpoint-1-attempt-0", finished))
    assert cluster.sent == [(worker_id, Deploy(record.job_id, 1)) for worker_id in WORKERS]
    cluster.reopened(record, 1)
    assert cluster.sent[2:] == [(worker_id, Run(record.job_id, 1)) for worker_id in WORKERS]
    assert record.execution.all_run
    attempt = record.present
    assert (attempt.number, attempt.last_number) == (0, 1)
    assert attempt.restored_for(1) == RestorePoint("checkpoint-1-attempt-0", finished)
    assert attempt.restored_for(0).directory == ""
    assert attempt.restored_finished == {(2, 1)}, "of the other side nobody was restored"
    cluster.sent.clear()
    cluster.pass_time(30.0)
    parts = {
        (worker, message.attempt)
        for worker, message in triggers(cluster)
        if isinstance(message, TriggerCheckpoint)
    }
    assert parts == {("worker-0", 0), ("worker-1", 0), ("worker-0", 1)}
    assert record.attempt(1) is record.present
    assert record.attempt(2) is None
    assert attempt.story(cluster.now)["region_attempts"] == {"0-0": 0, "2-0": 1}


@pytest.mark.parametrize("vertex", [0, 3])
def test_only_outputs_of_the_restarted_region_matter(cluster_of_parts: Parted, vertex: int) -> None:
    """Vertex 3 belongs to the right pipeline, which goes back; vertex 0 belongs to the other, which
    goes on."""
    cluster = cluster_of_parts
    record = cluster.completed(CheckpointedOutput(vertex, "program", can_withdraw=False))
    cluster.sent.clear()
    cluster.right(record, 0)
    cluster.found(record, RestorePoint("checkpoint-1-attempt-0"))
    if vertex == 3:
        assert record.execution.state is JobState.FAILING
        return
    assert record.present.restored_for(1).directory == "checkpoint-1-attempt-0"
    assert record.completed.newest == 2, "the other part has been told of it"
    assert record.completed.is_passed_over(2), "neither goes on from it"


def test_a_region_restarts_as_often_as_the_strategy_allows(cluster_of_parts: Parted) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    for number in range(9):
        cluster.right(record, number)
        cluster.reopened(record, number + 1)
        assert record.state is JobState.RUNNING
    cluster.right(record, 9)
    assert record.execution.state is JobState.FAILING
    assert record.execution.cause is not None
    assert record.execution.cause.message == "boom"
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert record.state is JobState.FAILED, "not another attempt of all of it"
    assert [one.cause.message for one in record.present.failures] == ["boom"] * 3, "the last ones"
    assert cluster.free_slots() == [2, 2]


def test_a_region_without_slots_waits_and_then_fails_the_job(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    cluster.restart = FixedDelayRestart(attempts=1, delay_ms=0.0)
    record = cluster.running()
    for subtask in ((0, 0), (0, 1), (1, 0), (1, 1)):
        cluster.finish_subtask(record, subtask)
    for worker_id in WORKERS:
        message = Register(f"other-{worker_id}", 1, "127.0.0.1:1", 1)
        cluster.dispatcher.register(message, cluster.now)
    cluster.dispatcher.worker_exited("worker-1", "exited with status 1", cluster.now)
    assert record.execution.failover.given_up == {"2-0"}, "the other side has finished"
    other = cluster.submit(parallelism=3)
    cluster.say("worker-0", Released(record.job_id, 0))
    cluster.pass_time(19.0)
    waiting = RecoveryState.WAITING_FOR_SLOTS, JobState.RESTARTING
    assert (record.recovery.state, record.state) == waiting
    cluster.pass_time(21.0)
    assert record.state is JobState.FAILED
    assert record.execution.cause is not None
    assert "for the restarted part" in record.execution.cause.message
    assert not other.execution.state.is_terminal


def test_a_checkpoint_found_for_a_region_is_judged_again_for_the_whole_job(
    cluster_of_parts: Parted,
) -> None:
    """The part that goes back to an older checkpoint lacks slots, so the whole attempt fails.

    The other part has an output that must not go back.
    """
    cluster = cluster_of_parts
    record = cluster.completed(CheckpointedOutput(0, "program", can_withdraw=False))
    for subtask in ((0, 0), (0, 1), (1, 0), (1, 1)):
        cluster.finish_subtask(record, subtask)
    for worker_id in WORKERS:
        message = Register(f"other-{worker_id}", 1, "127.0.0.1:1", 1)
        cluster.dispatcher.register(message, cluster.now)
    cluster.dispatcher.worker_exited("worker-1", "exited with status 1", cluster.now)
    cluster.submit(parallelism=3)
    cluster.say("worker-0", Released(record.job_id, 0))
    cluster.found(record, RestorePoint("checkpoint-1-attempt-0"))
    assert record.recovery.state is RecoveryState.WAITING_FOR_SLOTS
    cluster.pass_time(cluster.now + CONFIG.restart_slots_timeout_ms / 1000 + 1.0)
    assert (record.state, cluster.sought) == (JobState.RESTARTING, 2)
    cluster.dispatcher.register(Register("spare", 1, "127.0.0.1:1", 4), cluster.now)
    cluster.found(record, RestorePoint("checkpoint-1-attempt-0"))
    assert record.execution.cause is not None
    assert 'told "program" that checkpoint 2 is complete' in record.execution.cause.message


def test_a_job_that_ends_with_a_savepoint_is_not_restarted_in_part(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    kind = CheckpointKind.SAVEPOINT_SUSPEND
    cluster.dispatcher.checkpoints.trigger_savepoint(record, kind, "/saved", 1.0)
    cluster.right(record, 0)
    assert (record.present.number, record.execution.state) == (1, JobState.DEPLOYING)


def test_a_region_whose_checkpoint_cannot_be_found_fails_the_whole_attempt(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    cluster.pass_time(10.0)
    cluster.complete(record, 1)
    cluster.right(record, 0)
    assert cluster.sought == 1
    cluster.say("worker-0", Heartbeat())
    assert cluster.sought == 1, "it is being looked for"
    cluster.found(record, "the place does not answer")
    assert record.execution.state is JobState.FAILING
    assert record.execution.cause is not None
    assert record.execution.cause.message == "the place does not answer"
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert cluster.sought == 2, "for all of it"
    cluster.found(record, record.latest_checkpoint)
    assert (record.present.number, record.state) == (1, JobState.DEPLOYING)


@pytest.mark.parametrize("is_answered", ["before it is released", "afterwards"])
def test_the_whole_attempt_fails_while_the_checkpoint_of_a_region_is_sought(
    cluster_of_parts: Parted, is_answered: str
) -> None:
    """The answer concerns only the part.

    Whenever it comes, the job finds a checkpoint and goes on.
    """
    cluster = cluster_of_parts
    record = cluster.running()
    cluster.pass_time(10.0)
    cluster.complete(record, 1)
    cluster.right(record, 0)
    assert cluster.sought == 1
    left = FailureCause(CauseRank.CAUSE, "worker-0", 100, "ValueError", "left, too", "left (1/2)")
    cluster.say("worker-0", Failed(record.job_id, 0, 0, 0, left.to_dict()))
    assert record.execution.state is JobState.FAILING
    if is_answered == "before it is released":
        cluster.found(record, record.latest_checkpoint)
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    if is_answered == "before it is released":
        assert cluster.sought == 2, "for all of it"
    cluster.found(record, record.latest_checkpoint)
    assert (record.present.number, record.state) == (1, JobState.DEPLOYING)
    assert record.present.restored_from == "checkpoint-1-attempt-0"


def test_the_whole_job_can_be_cancelled_while_a_region_restarts(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    cluster.restart = FixedDelayRestart(attempts=1, delay_ms=60_000.0)
    record = cluster.running()
    cluster.right(record, 0)
    assert cluster.dispatcher.starts.waits_to_restart
    cluster.dispatcher.cancel(record, cluster.now)
    assert not cluster.dispatcher.starts.waits_to_restart
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert record.state is JobState.CANCELED
    assert cluster.free_slots() == [2, 2]
    cluster.pass_time(100.0)
    assert record.present.last_number == 0


def test_a_region_does_not_restart_while_the_job_is_cancelled(
    cluster_of_parts: Parted,
) -> None:
    """Its restart is due while a worker has not released the other subtasks yet."""
    cluster = cluster_of_parts
    cluster.restart = FixedDelayRestart(attempts=1, delay_ms=10.0)
    record = cluster.running()
    cluster.right(record, 0)
    cluster.dispatcher.cancel(record, cluster.now)
    cluster.pass_time(cluster.now + 0.02)
    assert (record.state, record.present.last_number) == (JobState.CANCELLING, 0)
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert record.state is JobState.CANCELED
