"""Failures of a job in Flink's format."""

from __future__ import annotations

from dataclasses import replace

from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.region_failover import RegionFailure
from flinknet.cluster.coordinator.rest.flink.exceptions_view import job_exceptions
from tests.unit.cluster.coordinator.rest.flink.jobs import ms, open_all, release, submitted

CAUSE = FailureCause(
    rank=CauseRank.CAUSE,
    worker_id="worker-0",
    pid=1,
    error_type="ValueError",
    message="on purpose",
    subtask="sums (1/2)",
    traceback="Traceback: on purpose",
)


def failed(cause: FailureCause) -> tuple[Dispatcher, JobRecord]:
    """Return a job without restarts that has failed at 3."""
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    record.execution.fail(cause, 2.5)
    assert job_exceptions(record, {})["exceptionHistory"]["entries"] == [], "it has not ended"
    release(dispatcher, record, 3.0)
    assert record.ended_at == 3.0
    return dispatcher, record


def test_a_failure_has_its_place_and_time() -> None:
    dispatcher, record = failed(CAUSE)
    workers = {worker.worker_id: worker for worker in dispatcher.workers.workers()}
    told = job_exceptions(record, workers)
    assert (told["root-exception"], told["timestamp"]) == ("Traceback: on purpose", ms(3.0))
    assert not told["truncated"]
    assert told["exceptionHistory"] == {
        "entries": [
            {
                "exceptionName": "ValueError",
                "stacktrace": "Traceback: on purpose",
                "timestamp": ms(3.0),
                "failureLabels": {},
                "taskName": "sums (1/2)",
                "endpoint": "127.0.0.1:1000",
                "taskManagerId": "worker-0",
                "concurrentExceptions": [],
            }
        ],
        "truncated": False,
    }
    assert job_exceptions(record, workers, 0)["truncated"]


def test_a_failure_without_a_traceback_has_its_message() -> None:
    _, record = failed(FailureCause.of_coordinator(7, "ends"))
    (entry,) = job_exceptions(record, {})["exceptionHistory"]["entries"]
    assert entry["stacktrace"] == "the coordinator (pid 7) ends"
    assert (entry["endpoint"], entry["taskManagerId"], entry["taskName"]) == (None, None, None)


def test_a_restarted_region_comes_after_later_failures() -> None:
    _, record = failed(CAUSE)
    earlier = replace(CAUSE, traceback="Traceback: before", worker_id="worker-9")
    record.present.failures.append(RegionFailure(frozenset({"0-0"}), earlier, 2.2))
    entries = job_exceptions(record, {})["exceptionHistory"]["entries"]
    assert [(one["stacktrace"], one["timestamp"]) for one in entries] == [
        ("Traceback: on purpose", ms(3.0)),
        ("Traceback: before", ms(2.2)),
    ]
