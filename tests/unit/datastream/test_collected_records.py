"""The records that a program sees of a stream while its job runs, and after a failure."""

from __future__ import annotations

import socket
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.datastream.collected_records import READ_AHEAD_RECORDS, CollectedRecords
from flinknet.datastream.job_client import JobClient
from flinknet.errors import JobFailedError
from flinknet.graph.record_frames import frame

RESULT = JobResult("id", "job", "FINISHED", 1.0, (), (), {})


class Job:
    """A job whose end and subtasks are controlled by the test."""

    def __init__(self) -> None:
        self.attempts = -1
        self.records = CollectedRecords()
        self._result: Future[JobResult] = Future()
        control = JobControl()
        self.client = JobClient(self._run, control)
        control.start(self._result.cancel)
        self.records.follow(self.client)

    def _run(self) -> JobResult:
        return self._result.result()

    def subtask(
        self, index: int, restored: int | None, *, checkpointed: bool, attempt: int | None = None
    ) -> socket.socket:
        """Connect a subtask, under the next attempt number unless one is given."""
        self.attempts += 1
        number = self.attempts if attempt is None else attempt
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.records.sink._path)
        connection.sendall(frame("open", index, number, restored, checkpointed))
        return connection

    def finish(self) -> None:
        self._result.set_result(RESULT)
        self.client.join()

    def fail(self) -> None:
        self._result.set_exception(JobFailedError("broken"))
        self.client.join()


@pytest.fixture
def job() -> Iterator[Job]:
    made = Job()
    yield made
    made.records.close()


def say(subtask: socket.socket, *messages: tuple[Any, ...]) -> None:
    """Send messages and wait until they were handled; the program continues to listen."""
    for message in messages:
        subtask.sendall(frame(*message))
        if message[0] == "mark":
            assert subtask.recv(1) == b"\0"
    subtask.sendall(frame("end"))
    assert subtask.recv(1) == b"\0"


def is_hung_up(subtask: socket.socket, sent: bytes) -> bool:
    """Return whether the program hangs up before, within or after these bytes."""
    try:
        subtask.sendall(sent)
        return subtask.recv(1) == b""
    except (BrokenPipeError, ConnectionResetError):
        return True


def mark(subtask: socket.socket, records: list[Any], checkpoint: int) -> None:
    """Send records of a checkpoint, and wait until they were handled."""
    subtask.sendall(frame("records", records) + frame("mark", checkpoint))
    assert subtask.recv(1) == b"\0"


def test_without_checkpoints_records_come_at_once(job: Job) -> None:
    with job.subtask(0, None, checkpointed=False) as subtask:
        subtask.sendall(frame("records", [1, "two"]))
        assert [next(job.records), next(job.records)] == [1, "two"]
        say(subtask, ("records", [3]))
    job.finish()
    assert list(job.records) == [3]
    assert list(job.records) == [], "it has been closed"


def test_with_checkpoints_records_come_when_they_cannot_come_again(job: Job) -> None:
    with job.subtask(0, None, checkpointed=True) as subtask:
        messages = ("records", [1]), ("mark", 7), ("records", [2]), ("complete", 7), ("mark", 8)
        say(subtask, *messages, ("records", [3]))
    assert next(job.records) == 1
    with job.subtask(0, 8, checkpointed=True) as subtask:  # 3 is dropped
        say(subtask, ("records", ["3 again"]))
    assert next(job.records) == 2, "the checkpoint that the job goes on from is complete"
    job.finish()
    assert list(job.records) == ["3 again"]


def test_an_unknown_checkpoint_shows_no_records(job: Job) -> None:
    with job.subtask(0, None, checkpointed=True) as subtask:
        say(subtask, ("records", [1]), ("complete", 5))
    job.fail()
    with pytest.raises(JobFailedError, match="broken"):
        next(job.records)


def test_a_job_that_begins_again_gives_nothing_out_twice(job: Job) -> None:
    with job.subtask(0, None, checkpointed=False) as subtask:
        say(subtask, ("records", [1, 2]))
    with job.subtask(0, None, checkpointed=False) as subtask:  # the program has not read 1 and 2
        say(subtask, ("records", [1, 2]))
    assert next(job.records) == 1
    with job.subtask(0, None, checkpointed=False) as subtask:
        say(subtask)
    assert next(job.records) == 2
    with pytest.raises(JobFailedError, match="has restarted"):
        next(job.records)


def test_a_slow_program_holds_its_job_back(job: Job) -> None:
    with job.subtask(0, None, checkpointed=False) as subtask:
        subtask.sendall(frame("records", [0] * READ_AHEAD_RECORDS))
        subtask.sendall(frame("end"))
        subtask.setblocking(False)
        with pytest.raises(BlockingIOError):
            subtask.recv(1)
        subtask.setblocking(True)
        assert next(job.records) == 0
        assert subtask.recv(1) == b"\0"


def test_closing_cancels_the_job_and_leaves_nothing(job: Job) -> None:
    directory = Path(job.records.sink._path).parent
    with job.subtask(0, None, checkpointed=False) as subtask, job.records:
        subtask.sendall(frame("records", [0] * READ_AHEAD_RECORDS))
        assert next(job.records) == 0
    assert not directory.exists()
    assert job.client.get_job_execution_result().done()


def test_records_behind_the_end_are_taken(job: Job) -> None:
    """The last checkpoint is taken there. No record is shown twice, in any order of events."""
    with job.subtask(0, None, checkpointed=True) as subtask:
        say(subtask, ("records", [1, 2]))
        say(subtask, ("mark", 7), ("complete", 7))
        assert [next(job.records), next(job.records)] == [1, 2]
        say(subtask, ("records", [3]), ("mark", 8))
        job.finish()
        say(subtask, ("complete", 8))
        assert list(job.records) == [3]


def test_unread_records_of_a_lost_subtask_are_not_returned_twice(job: Job) -> None:
    """These records are in the old connection, behind those for which the program has no room."""
    with (
        job.subtask(0, None, checkpointed=True) as lost,
        job.subtask(1, None, checkpointed=True) as other,
    ):
        full = list(range(READ_AHEAD_RECORDS))
        mark(lost, ["first"], 1)
        mark(other, full, 1)
        other.sendall(frame("complete", 1))
        lost.sendall(frame("complete", 1) + frame("records", ["again"]))
    with job.subtask(0, 1, checkpointed=True) as subtask:
        mark(subtask, ["again"], 2)
        subtask.sendall(frame("complete", 2))
        seen = Counter(next(job.records) for _ in range(len(full) + 2))
        job.finish()
    assert seen == Counter([*full, "first", "again"])
    assert list(job.records) == []


def test_a_worker_that_was_given_up_and_still_lives_is_not_listened_to(job: Job) -> None:
    with job.subtask(0, None, checkpointed=True, attempt=1) as subtask:
        say(subtask, ("records", [1]))
        with job.subtask(0, None, checkpointed=True, attempt=0) as old:
            assert is_hung_up(old, frame("records", ["old"]))
        job.finish()
    assert list(job.records) == [1]


def test_one_part_that_begins_again_takes_nothing_from_the_others(job: Job) -> None:
    """The job has no checkpoints, and the program has not read any record of the restarted part."""
    with job.subtask(0, None, checkpointed=False) as left:
        say(left, ("records", ["left"]))
        with job.subtask(1, None, checkpointed=False) as right:
            say(right, ("records", ["right"]))
        assert next(job.records) == "left"
        with job.subtask(1, None, checkpointed=False) as right:
            say(right, ("records", ["right"]))
            job.finish()
    assert list(job.records) == ["right"]


def test_a_job_without_checkpoints_that_began_from_a_savepoint_repeats_nothing(job: Job) -> None:
    with job.subtask(0, 5, checkpointed=False) as subtask:
        say(subtask, ("records", [1]))
    with job.subtask(0, 5, checkpointed=False) as subtask:
        say(subtask, ("records", [1]))
        job.finish()
    assert list(job.records) == [1]


class Unreadable:
    """A record that the program cannot unpickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, ("no number",))


def test_a_record_that_cannot_be_read_is_told(job: Job) -> None:
    with job.subtask(0, None, checkpointed=False) as subtask:
        subtask.sendall(frame("records", [Unreadable()]))
        with pytest.raises(JobFailedError, match="a record cannot be read.*no number"):
            next(job.records)


def test_records_come_whatever_the_directory_for_temporary_files_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job schedulers and test runners make TMPDIR longer than the path of a socket may be."""
    long = tmp_path / ("d" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    job = Job()
    with job.subtask(0, None, checkpointed=False) as subtask:
        say(subtask, ("records", ["it"]))
        assert next(job.records) == "it"
        job.finish()
    assert list(job.records) == []
