"""How a job has ended, as Flink's REST tells those who wait for it: plain JSON types."""

from __future__ import annotations

from typing import Any

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.serialized_throwable import failure_cause

__all__ = ["job_result"]

_APPLICATION_STATUS = {
    JobState.FINISHED: "SUCCEEDED",
    JobState.FAILED: "FAILED",
    JobState.CANCELED: "CANCELED",
}


def job_result(record: JobRecord) -> dict[str, Any]:
    """Flink's JobExecutionResultResponseBody. What a job has collected is not in it."""
    if record.ended_at is None:
        return {"status": {"id": "IN_PROGRESS"}}
    result: dict[str, Any] = {
        "id": record.job_id,
        "application-status": _APPLICATION_STATUS[record.state],
        "accumulator-results": {},
        "net-runtime": record.wall_ms(record.ended_at) - record.wall_ms(record.submitted_at),
    }
    cause = record.execution.cause
    if cause is not None and record.state is JobState.FAILED:
        result["failure-cause"] = failure_cause(cause.error_type, cause.describe())
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}
