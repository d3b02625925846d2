"""A job's attempts: one after the other, numbered, and a limited number of them remembered."""

from __future__ import annotations

import pytest

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import Register
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord, WorkerRegistry
from flinknet.config import ClusterConfig
from flinknet.errors import InsufficientSlotsError, LocalProtocolError
from tests.unit.cluster.graphs import keyed_graph

CONFIG = ClusterConfig(cancel_timeout_ms=5_000.0, attempts_retained=2)


@pytest.fixture
def workers() -> tuple[WorkerRecord, ...]:
    registry = WorkerRegistry(
        now=0.0,
        heartbeat_interval_s=1.0,
        heartbeat_timeout_s=10.0,
        stuck_timeout_s=0.0,
        lost_retained=9,
    )
    registry.register(Register("worker-0", 1, "127.0.0.1:1000", 4), 0.0)
    return registry.registered()


@pytest.fixture
def record() -> JobRecord:
    return JobRecord("job", Submission.of_graph(keyed_graph()), CONFIG, submitted_at=1.0)


def cancel_present(record: JobRecord, now: float) -> None:
    record.execution.start()
    record.execution.cancel(now)
    record.execution.released("worker-0", record.present.number, [], now)
    assert record.execution.state.is_terminal
    record.present.end(now)


def test_attempts_are_numbered_from_0(record: JobRecord, workers: tuple[WorkerRecord, ...]) -> None:
    for number in range(2):
        attempt = record.begin_attempt(workers, now=float(number))
        assert record.present is attempt
        assert record.execution is attempt.execution
        assert (attempt.number, attempt.execution.state) == (number, JobState.CREATED)
        (descriptors,) = attempt.placement.subtasks.values()
        assert {descriptor.attempt for descriptor in descriptors} == {number}
        cancel_present(record, now=float(number))


def test_there_is_one_attempt_at_a_time(
    record: JobRecord, workers: tuple[WorkerRecord, ...]
) -> None:
    record.begin_attempt(workers, now=1.0)
    with pytest.raises(LocalProtocolError, match="job is still at attempt 0"):
        record.begin_attempt(workers, now=2.0)
    cancel_present(record, now=3.0)
    record.begin_attempt(workers, now=4.0)
    assert [attempt.ended_at for attempt in record.attempts] == [3.0, None]


def test_a_job_that_has_ended_takes_no_attempt(
    record: JobRecord, workers: tuple[WorkerRecord, ...]
) -> None:
    record.begin_attempt(workers, now=1.0)
    cancel_present(record, now=3.0)
    record.end(now=3.5)
    assert record.submission.graph == b"", "nobody needs it any more"
    assert record.status(now=9.0)["seconds"] == 2.5
    with pytest.raises(LocalProtocolError, match="job has ended"):
        record.begin_attempt(workers, now=4.0)


def test_an_attempt_that_does_not_fit_is_not_recorded(record: JobRecord) -> None:
    with pytest.raises(InsufficientSlotsError):
        record.begin_attempt((), now=1.0)
    assert record.attempts == ()


def test_only_so_many_earlier_attempts_are_remembered(
    record: JobRecord, workers: tuple[WorkerRecord, ...]
) -> None:
    for number in range(5):
        record.begin_attempt(workers, now=float(number))
        cancel_present(record, now=float(number))
    assert [attempt.number for attempt in record.attempts] == [2, 3, 4]
    found = [record.attempt(number) for number in range(-1, 6)]
    assert found == [None, None, None, *record.attempts, None]


def test_the_status_is_that_of_the_present_attempt(
    record: JobRecord, workers: tuple[WorkerRecord, ...]
) -> None:
    record.begin_attempt(workers, now=1.0)
    cancel_present(record, now=3.0)
    record.begin_attempt(workers, now=4.0)
    status = record.status(now=6.0)
    assert (status["job_id"], status["name"], status["attempt"]) == ("job", "sums", 1)
    assert (status["state"], status["seconds"]) == ("CREATED", 5.0), "since its submission"
    assert [vertex["states"] for vertex in status["vertices"]] == [
        {"DEPLOYING": 1},
        {"DEPLOYING": 2},
    ]
