"""Jobs that outlive their coordinator: stored by one, resumed by the next."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import msgpack
import pytest

from flinknet.checkpoint.coordinator import Complete, Discard
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    Cancel,
    CompleteCheckpoint,
    Deploy,
    Heartbeat,
    Message,
    Opened,
    Register,
    Released,
    Settle,
    Settled,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.job_repository import JobRepository
from flinknet.cluster.coordinator.jobs.job_store import JobStore
from flinknet.cluster.coordinator.jobs.recovery import RecoveryState
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.config import ClusterConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.config.restart_strategy import NO_RESTART, FixedDelayRestart, RestartStrategy
from flinknet.graph.graph import CheckpointedOutput
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.cluster.graphs import keyed_graph

CONFIG = ClusterConfig(jobs_retained=2, restart_slots_timeout_ms=20_000.0)
CHECKPOINTS = JobCheckpointingConfig(interval_ms=1_000.0)
RESULT = {
    **asdict(IOMetrics(3, 2, 10, 20, 400, 500, 100)),
    "metrics": {},
    "collected": b"",
    "committables": b"",
    "checkpoint_taken": -1,
}
SUBTASKS = ((0, 0), (1, 0), (1, 1))


class Life:
    """One coordinator's life: a dispatcher on the directory, and a record of its messages to
    workers."""

    def __init__(self, directory: Path, *, started_at: float = 1000.0) -> None:
        self.store = JobStore(directory)
        self.now = 0.0
        self.sent: list[tuple[str, Message]] = []
        self.sought: list[JobRecord] = []
        self.wall = WallClock(started_at)
        repository = JobRepository(self.store, CONFIG, self.wall)
        self.dispatcher = Dispatcher(
            CONFIG,
            now=self.now,
            send=lambda *sent: self.sent.append(sent),
            keep=self.keep,
            seek=self.sought.append,
            repository=repository,
            wall=self.wall,
        )
        for record, state, cause in repository.resume(self.now):
            self.dispatcher.resume(record, state, cause, self.now)

    def keep(self, record: JobRecord, attempt: AttemptRecord, order: Complete | Discard) -> None:
        """Do nothing: the test ignores the order."""

    def join(self, *workers: str, slots: int = 2) -> None:
        for worker_id in workers:
            self.dispatcher.register(Register(worker_id, 1, f"{worker_id}:1", slots), self.now)
            self.say(worker_id, Heartbeat())

    def say(self, worker_id: str, message: Message) -> None:
        self.dispatcher.receive(worker_id, message, self.now)

    def said(self, kind: type[Message]) -> list[tuple[str, Message]]:
        return [sent for sent in self.sent if isinstance(sent[1], kind)]

    def submit(
        self,
        restart: RestartStrategy = NO_RESTART,
        checkpointing: JobCheckpointingConfig | None = None,
        *,
        commits: bool = False,
        job_id: str | None = None,
    ) -> JobRecord:
        graph = replace(keyed_graph(), restart=restart, checkpointing=checkpointing)
        submission = replace(Submission.of_graph(graph), commits=commits)
        body = submission.to_bytes()
        return self.dispatcher.submit(Submission.from_bytes(body), self.now, job_id=job_id)

    def running(self, *arguments: object, **options: object) -> JobRecord:
        record = self.submit(*arguments, **options)  # type: ignore[arg-type]
        for worker_id in record.execution.workers:
            self.say(worker_id, Opened(record.job_id, record.present.number))
        assert record.state is JobState.RUNNING
        return record

    def finish(self, record: JobRecord, *subtasks: tuple[int, int], collected: bytes = b"") -> None:
        """Upload results of subtasks, as the routes do."""
        for subtask in subtasks:
            result = {**RESULT, "collected": collected, "committables": b"%d-%d" % subtask}
            number = record.present.number
            self.store.write_results(record.job_id, number, {subtask: msgpack.packb(result)})
            self.dispatcher.take_result(record, record.present, subtask, result, self.now)

    def release(self, record: JobRecord) -> None:
        for worker_id in record.execution.workers:
            self.say(worker_id, Released(record.job_id, record.present.number))

    def complete_checkpoint(self, record: JobRecord) -> None:
        """Have the next checkpoint triggered, acknowledged and kept."""
        books = record.checkpoints
        self.now += 10.0
        for worker_id in record.execution.workers:
            self.say(worker_id, Heartbeat())
        self.dispatcher.tick(self.now)
        (pending,) = books.pending
        for subtask in SUBTASKS:
            acknowledged = AcknowledgeCheckpoint(
                record.job_id, 0, pending.checkpoint_id, *subtask, b"handle", [0] * 7
            )
            self.say(record.execution.worker_of(subtask), acknowledged)
        number = pending.checkpoint_id
        self.dispatcher.checkpoint_kept(record, record.present, number, None, self.now)

    def job(self) -> JobRecord:
        (record,) = self.dispatcher.jobs()
        return record


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[list[Life]]:
    """The lives of successive coordinators: the last one is killed when the next begins."""
    lives: list[Life] = []
    yield lives
    if lives:
        lives[-1].store.close()


@pytest.fixture
def first(lives: list[Life], tmp_path: Path) -> Life:
    life = Life(tmp_path)
    life.join("worker-0", "worker-1")
    lives.append(life)
    return life


def next_life(lives: list[Life], tmp_path: Path) -> Life:
    lives[-1].store.close()
    lives.append(Life(tmp_path, started_at=1100.0))
    return lives[-1]


def test_a_job_with_checkpoints_continues_in_a_new_attempt(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    first.now = 7.0
    record = first.running(checkpointing=CHECKPOINTS)
    assert record.present.number == 0
    life = next_life(lives, tmp_path)
    resumed = life.job()
    assert (resumed.job_id, resumed.submission.graph) == (record.job_id, record.submission.graph)
    assert resumed.submitted_at == 7.0 - 100.0
    assert resumed.state is JobState.RESTARTING
    assert life.sought == [], "nobody is there who could go on"
    assert life.dispatcher.deadline > 0.0
    life.now = 1e6
    life.dispatcher.tick(life.now)
    assert resumed.state is JobState.RESTARTING, "however long that takes"
    life.join("worker-0", slots=1)
    assert life.sought == [resumed]
    found = RestorePoint("checkpoint-4-attempt-0")
    life.dispatcher.checkpoint_found(resumed, found, None, life.now)
    assert resumed.recovery.state is RecoveryState.WAITING_FOR_SLOTS
    life.join("worker-5", slots=1)
    assert (resumed.present.number, resumed.present.restored_from) == (1, found.directory)
    assert {worker for worker, _ in life.said(Deploy)} == {"worker-0", "worker-5"}
    assert resumed.checkpoints.next_id == 5
    assert resumed.status(life.now)["seconds"] == 1e6 + 93.0


@pytest.mark.parametrize("can_withdraw", [True, False])
def test_the_next_coordinator_knows_the_checkpoint_that_outputs_were_notified_of(
    first: Life, lives: list[Life], tmp_path: Path, can_withdraw: bool
) -> None:
    """Each checkpoint is stored before the outputs are told, and no number is used again."""
    record = first.running(checkpointing=CHECKPOINTS)
    output = CheckpointedOutput(1, "output", can_withdraw)
    record.submission = replace(record.submission, outputs=(output,))
    for number in (1, 2):
        first.complete_checkpoint(record)
        (*_, (_, told)) = first.said(CompleteCheckpoint)
        assert isinstance(told, CompleteCheckpoint)
        assert told.checkpoint_id == number
    first.store.write_submission(record.job_id, record.submission.to_bytes())
    life = next_life(lives, tmp_path)
    life.join("worker-0", "worker-1")
    resumed = life.job()
    assert resumed.completed.newest == 2
    found = RestorePoint("checkpoint-1-attempt-0")
    life.dispatcher.checkpoint_found(resumed, found, None, life.now)
    assert (resumed.execution.cause is None) is can_withdraw
    life = next_life(lives, tmp_path)
    known = life.job().completed
    assert (known.newest, known.is_passed_over(2)) == ((1, True) if can_withdraw else (2, False))
    assert life.job().checkpoints.next_id == 3


def test_the_number_of_an_attempt_is_never_given_again(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    """This includes an attempt that ended right after it got its number."""
    first.submit(checkpointing=CHECKPOINTS)
    for number in (1, 2, 3):
        life = next_life(lives, tmp_path)
        life.join("worker-0", "worker-1")
        life.dispatcher.checkpoint_found(life.job(), RestorePoint(), None, life.now)
        assert life.job().present.number == number
        assert life.job().present.restored_from == ""


def test_slots_that_do_not_come_back_end_the_wait(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    first.running(checkpointing=CHECKPOINTS)
    life = next_life(lives, tmp_path)
    life.join("worker-0", slots=1)
    life.dispatcher.checkpoint_found(life.job(), RestorePoint(), None, life.now)
    life.now = 21.0
    life.dispatcher.tick(life.now)
    assert life.job().state is JobState.FAILED
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.FAILED, "it stays so"


def test_without_checkpoints_the_strategy_must_allow_it(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    first.running()
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.FAILED
    cause = life.job().execution.cause
    assert cause is not None
    assert cause.describe().startswith("the coordinator (pid ")
    assert "was lost while the job ran, which has no checkpoints to continue from" in cause.message


def test_restarts_are_counted_on(first: Life, lives: list[Life], tmp_path: Path) -> None:
    first.running(FixedDelayRestart(attempts=2, delay_ms=0.0))
    for number in (1, 2):
        life = next_life(lives, tmp_path)
        assert life.job().state is JobState.RESTARTING
        life.join("worker-0", "worker-1")
        assert life.job().present.number == number
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.FAILED


def test_a_job_that_waits_for_its_restart_still_waits(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    record = first.running(FixedDelayRestart(attempts=1, delay_ms=1e6))
    first.dispatcher.worker_exited("worker-0", "killed", first.now)
    first.release(record)
    assert record.state is JobState.RESTARTING
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.RESTARTING
    life.dispatcher.cancel(life.job(), life.now)
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.CANCELED


def test_a_cancelled_job_is_not_restarted(first: Life, lives: list[Life], tmp_path: Path) -> None:
    record = first.running(checkpointing=CHECKPOINTS)
    first.dispatcher.cancel(record, first.now)
    assert first.said(Cancel)
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.CANCELED


def test_sinks_are_committed_by_whoever_comes(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    """All subtasks have finished, and the coordinator dies before it knows whether the sinks were
    committed."""
    record = first.running(checkpointing=CHECKPOINTS, commits=True)
    first.finish(record, *SUBTASKS, collected=b"all")
    first.release(record)
    assert first.said(Settle)
    life = next_life(lives, tmp_path)
    resumed = life.job()
    assert resumed.state.value == "FINISHING"
    assert resumed.present.prepared() == [b"0-0", b"1-0", b"1-1"]
    life.dispatcher.register(Register("worker-0", 1, "worker-0:1", 2), life.now)
    assert life.sent == [], "Registered is still to be said"
    life.dispatcher.worker_exited("worker-0", "killed", life.now)
    assert resumed.state.value == "FINISHING", "another one may come"
    life.join("worker-7", "worker-8")
    assert life.said(Settle) == [("worker-7", Settle(resumed.job_id, 0, True))]
    life.dispatcher.worker_exited("worker-7", "killed", life.now)
    assert life.said(Settle)[-1] == ("worker-8", Settle(resumed.job_id, 0, True))
    life.say("worker-8", Settled(resumed.job_id, 0, {}))
    assert resumed.state is JobState.FINISHED
    assert [row["collected"] for row in resumed.present.result()] == [b"all"] * 3
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.FINISHED
    assert life.job().status(life.now)["vertices"] == resumed.status(life.now)["vertices"]
    assert [row["collected"] for row in life.job().present.result()] == [b"all"] * 3


def test_a_commit_without_any_worker_left_fails_the_job(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    record = first.running(commits=True)
    first.finish(record, *SUBTASKS)
    life = next_life(lives, tmp_path)
    life.join("worker-7")
    life.dispatcher.worker_exited("worker-7", "killed", life.now)
    assert life.job().state is JobState.FAILED


def test_a_finished_job_is_resumed_as_finished(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    """Nothing has to be committed. The release by its workers need not be known."""
    record = first.running()
    first.finish(record, *SUBTASKS)
    assert record.execution.holders
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.FINISHED
    assert len(life.job().present.result()) == 3


def test_the_result_of_a_subtask_that_finished_before_a_checkpoint_is_not_lost(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    record = first.running(checkpointing=CHECKPOINTS)
    first.finish(record, (0, 0), collected=b"early")
    life = next_life(lives, tmp_path)
    life.join("worker-0", "worker-1")
    found = RestorePoint("checkpoint-1-attempt-0", frozenset({(0, 0)}))
    life.dispatcher.checkpoint_found(life.job(), found, None, life.now)
    before = life.job().result_before((0, 0))
    assert before is not None
    assert (before["collected"], before["committables"]) == (b"early", b"0-0")
    assert life.job().result_before((1, 0)) is None


def test_a_job_whose_checkpoint_was_seen_keeps_knowing_it(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    """It must not begin again from its start if its checkpoints are gone."""
    record = first.running(checkpointing=CHECKPOINTS)
    record.continue_from(RestorePoint("checkpoint-1-attempt-0"))
    first.dispatcher._persistence.save(record)
    life = next_life(lives, tmp_path)
    assert life.job().latest_checkpoint.directory == "checkpoint-1-attempt-0"
    assert life.job().start == RestorePoint()


def test_the_savepoint_with_which_a_job_was_to_end_is_remembered(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    record = first.running(checkpointing=CHECKPOINTS)
    record.continue_from(RestorePoint("/saved/job/savepoint-1-attempt-0"), is_savepoint=True)
    first.dispatcher._persistence.save(record)
    life = next_life(lives, tmp_path)
    life.join("worker-0", "worker-1")
    assert life.sought == []
    assert life.job().present.restored_from == "/saved/job/savepoint-1-attempt-0"


def test_a_job_that_waits_for_slots_still_does(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    graph = replace(keyed_graph(parallelism=5), restart=NO_RESTART)
    submission = replace(Submission.of_graph(graph), wait_for_slots_ms=60_000.0)
    body = replace(submission, graph=b"graph").to_bytes()
    first.dispatcher.submit(Submission.from_bytes(body), first.now, job_id="0" * 32)
    cancelled = first.dispatcher.submit(Submission.from_bytes(body), first.now, job_id="1" * 32)
    first.dispatcher.cancel(cancelled, first.now)
    first.store.close()
    second = Life(tmp_path)
    lives.append(second)
    record, ended = second.dispatcher.jobs()
    assert (record.state, ended.state) == (JobState.CREATED, JobState.CANCELED)
    second.join("a", "b", slots=3)
    assert record.state is JobState.DEPLOYING
    assert (record.present.number, len(record.attempts)) == (0, 1)


def test_a_job_is_submitted_once(first: Life) -> None:
    record = first.submit(job_id="5" * 32)
    assert record.job_id == "5" * 32
    assert first.submit(job_id="5" * 32) is record


def test_what_is_forgotten_is_forgotten_for_good(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    for number in range(4):
        first.now = float(number)
        record = first.submit()
        first.dispatcher.cancel(record, first.now)
        first.release(record)
    life = next_life(lives, tmp_path)
    last = [job.job_id for job in first.dispatcher.jobs()][-2:]
    assert [job.job_id for job in life.dispatcher.jobs()] == last
    assert [stored.job_id for stored in life.store.load()] == sorted(last)
    assert all(job.submission.graph == b"" for job in life.dispatcher.jobs())


def test_what_a_stopped_coordinator_breaks_is_resumed(
    first: Life, lives: list[Life], tmp_path: Path
) -> None:
    record = first.running(checkpointing=CHECKPOINTS)
    first.dispatcher.stop(FailureCause.of_coordinator(1, "stops"), first.now)
    first.release(record)
    assert record.state is JobState.FAILED
    life = next_life(lives, tmp_path)
    assert life.job().state is JobState.RESTARTING


def test_no_worker_is_sent_an_attempt_that_is_not_stored(
    first: Life, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "jobs").rmdir()
    (tmp_path / "jobs").touch()
    with caplog.at_level(logging.ERROR):
        record = first.submit()
    assert first.said(Deploy) == []
    first.release(record)
    assert record.state is JobState.FAILED
    assert record.execution.cause is not None
    assert "cannot store the start of attempt 0" in record.execution.cause.message


def test_a_job_that_makes_no_sense_is_left_alone(
    first: Life, lives: list[Life], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = first.running(commits=True)
    first.finish(record, *SUBTASKS)
    first.store.remove_results(record.job_id)
    first.store.write_job("5" * 32, b"nonsense", {})
    first.store.write_job("6" * 32, record.submission.to_bytes(), {"start": []})
    with caplog.at_level(logging.ERROR):
        life = next_life(lives, tmp_path)
    assert life.dispatcher.jobs() == ()
    for job_id, why in (
        (record.job_id, "the results of subtasks"),
        ("5" * 32, "the request's body is not a job"),
        ("6" * 32, "ValueError"),
    ):
        assert any(job_id in one and why in one for one in caplog.messages), why
    assert len(life.store.load()) == 3


def test_stored_times_follow_corrections_of_the_clock(tmp_path: Path) -> None:
    """A job was submitted 10 s ago, even after the clock was set back by an hour, and for the next
    coordinator. No time lies in the future."""
    first = Life(tmp_path)
    first.join("worker-0")
    first.join("worker-1")
    record = first.submit()
    first.wall.follow(10.0, 1010.0 - 3600.0)
    first.now = 10.0
    first.dispatcher.cancel(record, first.now)
    first.store.close()
    for started_at, ago in ((1020.0 - 3600.0, 20.0), (1020.0 - 7200.0, 0.0)):
        life = Life(tmp_path, started_at=started_at)
        assert life.job().submitted_at == -ago
        life.store.close()


SAVED, SUSPENDED = CheckpointKind.SAVEPOINT, CheckpointKind.SAVEPOINT_SUSPEND


@pytest.mark.parametrize("kind", [SAVED, SUSPENDED])
@pytest.mark.parametrize("dies", ["before it is written", "when it is written", "when all is over"])
def test_the_next_coordinator_reports_the_outcome_of_a_savepoint(
    tmp_path: Path, kind: CheckpointKind, dies: str
) -> None:
    """This includes a savepoint with which the job was to end: the coordinator knows whether it
    has."""
    first = Life(tmp_path)
    first.join("worker-0", "worker-1")
    record = first.running(checkpointing=JobCheckpointingConfig(10_000.0))
    asked = first.dispatcher.checkpoints.trigger_savepoint(
        record, kind, "/saved", first.now, "5" * 32
    )
    if dies != "before it is written":
        number = asked.checkpoint_id
        for subtask in SUBTASKS:
            acknowledged = AcknowledgeCheckpoint(
                record.job_id, 0, number, *subtask, b"handle", [0] * 7
            )
            first.say(record.execution.worker_of(subtask), acknowledged)
        first.dispatcher.checkpoint_kept(record, record.present, number, None, first.now)
    if dies == "when all is over" and kind.stops:
        first.finish(record, *SUBTASKS)
        first.release(record)
        assert record.ended_at is not None
    first.store.close()
    found = Life(tmp_path).job().savepoint("5" * 32)
    assert found is not None
    assert found.is_done
    location = f"/saved/{record.job_id}/savepoint-{asked.checkpoint_id}-attempt-0"
    if dies == "before it is written":
        assert found.failure is not None
        assert "before its savepoint was written: the coordinator (pid " in found.failure
        assert "was lost while the job ran" in found.failure
    elif kind.stops and dies == "when it is written":
        assert found.failure is not None
        assert f"a savepoint was written to {location}, but the job did not end" in found.failure
    else:
        assert (found.location, found.failure) == (location, None)
