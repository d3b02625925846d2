"""How a job has ended, in Flink's shape."""

from __future__ import annotations

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.coordinator.rest.flink.result_view import job_result
from tests.unit.cluster.coordinator.rest.flink.jobs import open_all, release, result, submitted


def test_a_job_that_runs_has_no_result_yet() -> None:
    _, record = submitted()
    assert job_result(record) == {"status": {"id": "IN_PROGRESS"}}


def test_one_that_has_finished_has_succeeded() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    for subtask in record.execution.subtask_states():
        dispatcher.take_result(record, record.present, subtask, result(), 3.0)
    release(dispatcher, record, 4.0)
    assert job_result(record) == {
        "status": {"id": "COMPLETED"},
        "job-execution-result": {
            "id": record.job_id,
            "application-status": "SUCCEEDED",
            "accumulator-results": {},
            "net-runtime": 3000,
        },
    }


def test_one_that_was_cancelled_has_no_cause() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    dispatcher.cancel(record, 3.0)
    release(dispatcher, record, 4.0)
    told = job_result(record)["job-execution-result"]
    assert told["application-status"] == "CANCELED"
    assert "failure-cause" not in told


def test_one_that_has_failed_says_why() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    record.execution.fail(FailureCause.of_coordinator(7, "ends"), 3.0)
    release(dispatcher, record, 4.0)
    told = job_result(record)["job-execution-result"]
    assert told["application-status"] == "FAILED"
    assert told["failure-cause"]["stack-trace"] == "the coordinator (pid 7) ends"
