"""Checkpoints of real jobs, completed in their storage."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from flinknet.checkpoint.coordinator import Complete, Discard, Trigger
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import OperatorState, StateKind, StatePart, SubtaskState
from flinknet.checkpoint.pending_checkpoint import PendingCheckpoint, SubtaskReport
from flinknet.checkpoint.state_handle import encode_handle
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.checkpoints.checkpoint_completer import CheckpointCompleter
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.placement import Placement
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint, finished_subtasks
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.config import CheckpointingConfig, ClusterConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import (
    CheckpointFencedError,
    CheckpointStorageError,
    ConfigurationError,
    CoordinatorSupersededError,
)
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.checkpoint.checkpoints import change, made, metadata
from tests.unit.cluster.graphs import endless_graph
from tests.unit.cluster.running_cluster import Cluster, running_cluster


def submit(cluster: Cluster, directory: Path, **options: Any) -> JobRecord:
    settings = JobCheckpointingConfig(
        10.0, tolerable_failures=1, directory=str(directory), **options
    )
    graph = replace(endless_graph(), checkpointing=settings)
    return cluster.served.coordinator.submit(Submission.of_graph(graph))


def books(record: JobRecord) -> tuple[int, int]:
    """Return the numbers of complete and failed checkpoints."""
    assert record.checkpoints is not None
    return record.checkpoints.history.completed, record.checkpoints.history.failed


async def test_checkpoints_of_a_job_are_complete_one_after_the_other(tmp_path: Path) -> None:
    async with running_cluster() as cluster:
        record = submit(cluster, tmp_path)
        while books(record)[0] < 3:
            await asyncio.sleep(0)
        cluster.served.coordinator.cancel(record)
        await cluster.served.coordinator.wait_for_end(record, 60.0)
        await cluster.served.coordinator.finish_checkpoints()
    config = CheckpointingConfig()
    store = CheckpointStore(FileStorage(tmp_path, config), record.job_id, config)
    found, refused = await store.latest_valid()
    assert refused == []
    assert (found.job, found.attempt) == ("endless", 0)
    assert [operator.parallelism for operator in found.operators] == [2] * 3
    assert found.size_bytes > 0, "the positions of the sources"
    assert found.exchanges == (), "nothing was in flight"


def names_below(directory: Path) -> list[str]:
    """Return the names inside the directories of jobs."""
    return [path.name for path in directory.glob("*/*")]


@pytest.mark.parametrize(
    ("retention", "stay"),
    [
        ("retain_on_cancellation", True),
        ("delete_on_cancellation", False),
        ("no_externalized_checkpoints", False),
    ],
)
async def test_checkpoints_of_a_cancelled_job_stay_if_they_are_to(
    tmp_path: Path, retention: str, stay: bool
) -> None:
    async with running_cluster() as cluster:
        record = submit(cluster, tmp_path, retention=retention)
        while books(record)[0] < 2:
            await asyncio.sleep(0)
        cluster.served.coordinator.cancel(record)
        await cluster.served.coordinator.wait_for_end(record, 60.0)
        await cluster.served.coordinator.finish_checkpoints()
    config = CheckpointingConfig()
    store = CheckpointStore(FileStorage(tmp_path, config), record.job_id, config)
    assert bool(await store.completed()) is stay
    kept = names_below(tmp_path)
    assert len(kept) == (1 + len(await store.completed()) if stay else 0), "the journal goes, too"


async def test_a_place_that_fails_fails_the_job_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    async with running_cluster() as cluster:
        record = submit(cluster, tmp_path / "file")
        await cluster.served.coordinator.wait_for_end(record, 60.0)
        await cluster.served.coordinator.finish_checkpoints()
        assert books(record) == (0, 2)
        assert record.execution.cause is not None
        assert "2 checkpoints failed in a row" in record.execution.cause.message


def ignore(*answer: object) -> None:
    """Do nothing: the test waits for no answer."""


def job(directory: Path) -> JobRecord:
    """Return a record of the graph's job, with its checkpoints in this directory."""
    settings = JobCheckpointingConfig(10.0, directory=str(directory))
    graph = replace(endless_graph(), checkpointing=settings)
    return JobRecord("job-1", Submission.of_graph(graph), ClusterConfig(), submitted_at=0.0)


def worker() -> WorkerRecord:
    """Return a worker with slots for the job."""
    return WorkerRecord("worker-0", 1, "127.0.0.1:1", 9, "", 0.0, 0.0)


async def sought(
    directory: Path, *, has_completed: bool = True, doubted: bool = True
) -> RestorePoint | str | None:
    """Return a completer's answer about the checkpoints of the graph's job."""
    record = job(directory)
    record.begin_attempt([worker()], 0.0)
    if has_completed:
        record.continue_from(RestorePoint("checkpoint-2-attempt-0"))
    record.doubts_checkpoints = doubted
    record.recovery.fail(0.0)
    record.recovery.seek()
    answers: list[RestorePoint | str | None] = []

    def take(
        record: JobRecord, found: RestorePoint | None, failure: str | None, damage: str
    ) -> None:
        record.take_found(found, failure, 0.0, damage)
        answers.append(record.recovery.answer.failure or record.latest_checkpoint)

    completer = CheckpointCompleter(CheckpointingConfig(), ignore, take)
    completer.seek(record)
    await completer.close()
    (answer,) = answers
    return answer


async def checkpoints_of_the_graph(directory: Path) -> list[Path]:
    """Make two checkpoints and return them. In the second one a subtask of a chain had finished."""
    config = CheckpointingConfig(inline_bytes_max=0)
    store = CheckpointStore(FileStorage(directory, config), "job-1", config)
    claimed = await FencedStore.claim(store, 0)
    vertex = next(one for one in endless_graph().vertices if len(one.operators) > 1)
    for number in (1, 2):
        part = await store.write_part(claimed.directory(number), "state", [("x", b"the content")])
        assert part is not None
        subtasks = (
            SubtaskState(0, {}, finished=number == 2),
            SubtaskState(1, {StateKind.OPERATOR: part}),
        )
        one, *others = vertex.operators
        operators = [OperatorState(one.uid, 2, vertex.max_parallelism, subtasks)]
        operators += [
            OperatorState(other.uid, 2, vertex.max_parallelism, subtasks[:1]) for other in others
        ]
        await claimed.complete(metadata(number, 0, tuple(operators)))
    return [directory / "job-1" / f"checkpoint-{number}-attempt-0" for number in (1, 2)]


async def test_an_attempt_continues_from_the_last_checkpoint(tmp_path: Path) -> None:
    await checkpoints_of_the_graph(tmp_path)
    vertex = next(one for one in endless_graph().vertices if len(one.operators) > 1)
    assert await sought(tmp_path) == RestorePoint(
        "checkpoint-2-attempt-0", frozenset({(vertex.id, 0)})
    )


@pytest.mark.parametrize("how", ["removed", "torn", "a bit", "foreign", "newer"])
@pytest.mark.parametrize("file", ["metadata", "state"])
async def test_a_damaged_checkpoint_is_passed_over(
    tmp_path: Path, file: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await checkpoints_of_the_graph(tmp_path)
    change(second / file, how)
    assert await sought(tmp_path) == ("checkpoint-1-attempt-0", frozenset())
    if (file, how) != ("metadata", "removed"):
        assert str(second / file) in caplog.text
    change(first / file, how)
    answer = await sought(tmp_path)
    assert isinstance(answer, str)
    assert answer.startswith("the job had completed checkpoint 2 and cannot continue without")
    assert f"{tmp_path}/job-1 has no checkpoint that can be restored" in answer
    if (file, how) != ("metadata", "removed"):
        assert str(first / file) in answer


@pytest.mark.parametrize("how", ["removed", "torn"])
async def test_files_that_are_missing_or_torn_are_found_without_reading_them(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, second = await checkpoints_of_the_graph(tmp_path)
    change(second / "state", how)
    assert await sought(tmp_path, doubted=False) == ("checkpoint-1-attempt-0", frozenset())
    assert str(second / "state") in caplog.text


async def test_an_older_checkpoint_is_read_before_the_job_goes_back_to_it(tmp_path: Path) -> None:
    """Output is withdrawn before the job goes back, which cannot be undone."""
    first, second = await checkpoints_of_the_graph(tmp_path)
    change(second / "metadata", "removed")
    change(first / "state", "a bit")
    answer = await sought(tmp_path, doubted=False)
    assert isinstance(answer, str)
    assert "had completed checkpoint 2 and cannot continue" in answer
    assert str(first / "state") in answer


async def test_an_undoubted_checkpoint_is_read_by_its_subtasks_alone(tmp_path: Path) -> None:
    _, second = await checkpoints_of_the_graph(tmp_path)
    change(second / "state", "a bit")
    found = await sought(tmp_path, doubted=False)
    assert isinstance(found, RestorePoint)
    assert found.directory == "checkpoint-2-attempt-0"


async def test_a_job_whose_checkpoints_are_missing_does_not_restart_from_its_start(
    tmp_path: Path,
) -> None:
    """A place that is not mounted looks as if it had always been empty."""
    answer = await sought(tmp_path / "gone")
    assert isinstance(answer, str)
    assert f"{tmp_path}/gone/job-1 has no checkpoint" in answer
    assert "is it mounted?" in answer


async def test_a_job_without_own_checkpoints_restarts_from_its_first_restore_point(
    tmp_path: Path,
) -> None:
    assert await sought(tmp_path, has_completed=False) == RestorePoint()


async def test_a_place_that_does_not_answer_is_no_reason_to_go_further_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second = await checkpoints_of_the_graph(tmp_path)

    async def fails(storage: FileStorage, path: str, start: int, length: int) -> bytes:
        raise CheckpointStorageError(f"cannot read {path}: time-out")

    monkeypatch.setattr(FileStorage, "read_range", fails)
    answer = await sought(tmp_path)
    assert isinstance(answer, str)
    assert answer.startswith("could not read which checkpoint the job continues from: ")
    assert f"{second.name}/state: time-out" in answer


async def test_an_unexpected_error_is_an_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job waits for the answer, and would otherwise wait forever."""
    await checkpoints_of_the_graph(tmp_path)

    async def fails(storage: FileStorage, path: str, start: int, length: int) -> bytes:
        raise OSError(f"unforeseen: {path}")

    monkeypatch.setattr(FileStorage, "read_range", fails)
    answer = await sought(tmp_path)
    assert isinstance(answer, str)
    assert "continues from: OSError: unforeseen: job-1/checkpoint-2-attempt-0" in answer
    assert "Traceback" in caplog.text


Kept = tuple[int, str | None]


class Attempt:
    """An attempt of the graph's job, and a completer's answers to its orders."""

    def __init__(self, top: Path, number: int = 0) -> None:
        self.record = job(top)
        self.attempt = self.record.begin_attempt([worker()], 0.0)
        for _ in range(number):
            execution = self.attempt.execution
            execution.start()
            execution.fail(FailureCause.of_coordinator(1, "the next one"), 0.0)
            execution.released("worker-0", execution.attempt, [], 0.0)
            self.attempt = self.record.begin_attempt([worker()], 0.0)
        self.kept: list[Kept] = []
        self.reasons: list[CheckpointFailureReason] = []
        self.completer = CheckpointCompleter(CheckpointingConfig(), self.note, ignore)

    def note(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        checkpoint_id: int,
        failure: CheckpointFailure | None,
    ) -> None:
        assert (record, attempt) == (self.record, self.attempt)
        if failure is not None:
            self.reasons.append(failure.reason)
        self.kept.append((checkpoint_id, None if failure is None else failure.explanation))

    async def complete(
        self, checkpoint_id: int, uid: str | None = None, *, finished: bool = False
    ) -> Kept:
        """Order the completion of a checkpoint with state of one operator, and await it."""
        vertex = self.record.submission.shape.vertices[0]
        inline = StatePart((), None, b"")
        kind = StateKind.OUTPUT if finished else StateKind.OPERATOR
        handle = encode_handle([(uid or vertex.operators[0].uid, {kind: inline})])
        checkpoint = PendingCheckpoint(
            checkpoint_id,
            CheckpointKind.CHECKPOINT,
            [(vertex.id, 0)],
            (),
            triggered_at=0.0,
            timestamp_ms=1,
        )
        checkpoint.acknowledge((vertex.id, 0), SubtaskReport(handle, finished=finished))
        self.completer.carry_out(self.record, self.attempt, Complete(checkpoint))
        await self.completer.close()
        return self.kept.pop()

    async def discard(self, checkpoint_id: int) -> None:
        """Order the removal of a checkpoint, and wait for it."""
        self.completer.carry_out(self.record, self.attempt, Discard(checkpoint_id))
        await self.completer.close()


async def test_a_handle_of_an_unknown_operator_fails_the_checkpoint(
    tmp_path: Path,
) -> None:
    attempt = Attempt(tmp_path)
    assert await attempt.complete(1, "nobody") == (1, "KeyError: 'nobody'")
    assert await attempt.complete(2) == (2, None)
    assert attempt.reasons == [CheckpointFailureReason.COMPLETION_FAILURE]


async def test_a_full_disk_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, block: object) -> int:
        raise OSError(ENOSPC, "No space left on device")

    attempt = Attempt(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        checkpoint_id, why = await attempt.complete(1)
    assert (checkpoint_id, attempt.reasons) == (1, [CheckpointFailureReason.STORAGE_FULL])
    assert why is not None
    assert "No space left on device; make room there" in why
    assert await attempt.complete(2) == (2, None)


@pytest.mark.parametrize(
    ("reason", "is_told"),
    [(CheckpointFailureReason.STORAGE_FULL, True), (CheckpointFailureReason.SUBSUMED, False)],
)
async def test_a_failed_checkpoint_is_logged(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    reason: CheckpointFailureReason,
    is_told: bool,
) -> None:
    attempt = Attempt(tmp_path)
    books = attempt.record.checkpoints
    books.attempt_runs([(0, 0)], (), 0.0)
    (trigger,) = books.tick(1.0)
    assert isinstance(trigger, Trigger)
    books.decline(trigger.checkpoint_id, reason, "not now", 1.0)
    await attempt.discard(trigger.checkpoint_id)
    message = f'job "endless": checkpoint 1 failed: {reason.value}: not now'
    assert (message in caplog.text) is is_told


async def test_a_subtask_that_reports_its_end_does_not_run_again(tmp_path: Path) -> None:
    """O2: the data that its barrier has overtaken is kept with the report."""
    attempt = Attempt(tmp_path)
    assert await attempt.complete(1, finished=True) == (1, None)
    config = CheckpointingConfig()
    store = CheckpointStore(FileStorage(tmp_path, config), "job-1", config)
    found, _ = await store.latest_valid()
    (state,) = found.operators[0].subtasks
    assert (state.finished, list(state.parts)) == (True, [StateKind.OUTPUT])
    assert finished_subtasks(attempt.record.submission.shape, found) == {(0, 0)}


async def test_an_incomplete_checkpoint_is_removed(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path)
    left = tmp_path / "job-1" / "checkpoint-1-attempt-0"
    left.mkdir(parents=True)
    (left / "part").write_bytes(b"state")
    await attempt.discard(1)
    assert not left.exists()


async def test_a_removal_that_fails_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")
    await Attempt(tmp_path / "file").discard(1)
    assert "checkpoint 1 was not removed: " in caplog.text


async def test_the_first_order_of_an_attempt_removes_leftovers_of_the_previous_one(
    tmp_path: Path,
) -> None:
    """A killed worker leaves parts of a checkpoint that is never completed."""
    assert await Attempt(tmp_path).complete(1) == (1, None)
    left = tmp_path / "job-1" / "checkpoint-2-attempt-0"
    left.mkdir()
    (left / "part").write_bytes(b"state")
    after = Attempt(tmp_path, 1)
    own = tmp_path / "job-1" / "checkpoint-3-attempt-1"
    own.mkdir()
    assert await after.complete(4) == (4, None)
    assert not left.exists()
    assert own.exists(), "it is under way"


async def test_leftovers_that_cannot_be_removed_fail_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(storage: FileStorage, path: str) -> list[str]:
        raise CheckpointStorageError(f"cannot list {path}")

    monkeypatch.setattr(FileStorage, "directories", fails)
    assert await Attempt(tmp_path).complete(1) == (1, None)
    assert "incomplete checkpoints of earlier attempts: cannot list job-1" in caplog.text


async def test_a_job_that_has_ended_is_forgotten_after_its_last_order(tmp_path: Path) -> None:
    left = tmp_path / "job-1" / "checkpoint-1-attempt-0"
    left.mkdir(parents=True)
    attempt = Attempt(tmp_path)
    attempt.completer.carry_out(attempt.record, attempt.attempt, Discard(1))
    attempt.completer.forget("job-1")
    await attempt.completer.close()
    assert not left.exists()
    _, failure = await attempt.complete(2)
    assert failure is not None
    assert "attempt 0 has taken over" in failure, "nobody knows that it was this one"


async def test_a_job_needs_a_place() -> None:
    completer = CheckpointCompleter(CheckpointingConfig(), ignore, ignore)
    with pytest.raises(ConfigurationError, match="checkpointing.directory"):
        completer.check("")
    completer.check("/anywhere")
    CheckpointCompleter(CheckpointingConfig(directory="/somewhere"), ignore, ignore).check("")
    completer.forget("no such job")
    await completer.close()


async def test_the_search_of_a_successor_fences_the_coordinator_before_it(tmp_path: Path) -> None:
    """The earlier coordinator may still be at work.

    It can complete nothing behind the checkpoint that is found, and neither can a successor that
    came no further than this.
    """
    config = CheckpointingConfig()
    store = CheckpointStore(FileStorage(tmp_path, config), "job-1", config)
    before = await FencedStore.claim(store, 0)
    await made(before, 1)
    for number in (1, 2):
        record = job(tmp_path)
        lost = FailureCause.of_coordinator(1, "was lost")
        placement = Placement.of_job(record.submission.shape, "job-1", 0, [worker()])
        record.resume(0, placement, lost, begun_at=0.0, restored=RestorePoint())
        record.resume_execution(JobState.DEPLOYING, None, 0.0)
        while not record.execution.state.is_terminal:
            record.execution.tick(1e9)
        record.attempt_ended(0.0, may_restart=True)
        record.recovery.get_worker(0.0)
        record.recovery.seek()
        found: list[RestorePoint | None] = []

        def take(
            record: JobRecord, point: RestorePoint | None, *answer: object, found: Any = found
        ) -> None:
            found.append(point)

        completer = CheckpointCompleter(config, ignore, take)
        completer.seek(record)
        await completer.close()
        assert [point and point.directory for point in found] == ["checkpoint-1-attempt-0"]
        with pytest.raises(CheckpointFencedError):
            await made(before, 2)
        assert record.next_number == number


@pytest.mark.parametrize("is_superseded", [False, True])
async def test_a_superseded_coordinator_changes_no_savepoint_elsewhere(
    tmp_path: Path, is_superseded: bool
) -> None:
    """Such a place is not claimed, so the coordinator's epoch alone keeps it away."""

    async def check() -> None:
        if is_superseded:
            raise CoordinatorSupersededError("another one has taken over")

    attempt, elsewhere = Attempt(tmp_path / "own"), tmp_path / "elsewhere"
    request = SavepointRequest("request", 1, CheckpointKind.SAVEPOINT, str(elsewhere))
    attempt.record.savepoints[1] = request
    attempt.completer = CheckpointCompleter(CheckpointingConfig(), attempt.note, ignore, check)
    _, failure = await attempt.complete(1)
    assert ("another one has taken over" in (failure or "")) == is_superseded
    files = [path for path in elsewhere.rglob("*") if path.is_file()]
    assert bool(files) != is_superseded
    left = elsewhere / "job-1" / "savepoint-1-attempt-0"
    left.mkdir(parents=True, exist_ok=True)
    (left / "part").write_bytes(b"state")
    await attempt.discard(1)
    assert left.exists() == is_superseded
