"""The routes of Flink's clients for jobs.

::

    GET   /v1/jobs                   their ids and states
    GET   /v1/jobs/overview          a row for each: ``flink list``
    GET   /v1/jobs/{job}             details: vertices, counts, plan
    GET   /v1/jobs/{job}/plan
    GET   /v1/jobs/{job}/status
    GET   /v1/jobs/{job}/execution-result    the result, once the job has ended
    GET   /v1/jobs/{job}/config
    GET   /v1/jobs/{job}/exceptions  with ?maxExceptions=N at most N failures
    GET   /v1/jobs/{job}/accumulators    always empty: flinknet has no accumulators
    GET   /v1/jobs/{job}/metrics     with ?get=numRestarts,uptime the values; includes latencies
    PATCH /v1/jobs/{job}?mode=cancel 202, or 409 if the job has ended otherwise: ``flink cancel``

``savepoint_routes.py``, ``checkpoint_routes.py`` and ``vertex_routes.py`` have the savepoints,
checkpoints and vertices of jobs.
"""

from __future__ import annotations

from typing import Any, Protocol

from aiohttp import web

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.serialized_throwable import failure_cause
from flinknet.cluster.coordinator.metrics.coordinator_catalogue import job_values
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.cluster.coordinator.rest.flink.environment_view import job_configuration
from flinknet.cluster.coordinator.rest.flink.exceptions_view import (
    EXCEPTIONS_DEFAULT,
    job_exceptions,
)
from flinknet.cluster.coordinator.rest.flink.job_view import job_details, job_overview, job_plan
from flinknet.cluster.coordinator.rest.flink.metrics_view import chosen_names, metric_list
from flinknet.cluster.coordinator.rest.flink.states import job_status
from flinknet.cluster.coordinator.rest.http_requests import named_job, whole_number
from flinknet.errors import ConfigurationError
from flinknet.metrics.latency_catalogue import latency_values
from flinknet.texts import printable

__all__ = ["JobRoutes", "Ruled", "job_result"]


_APPLICATION_STATUS = {
    JobState.FINISHED: "SUCCEEDED",
    JobState.FAILED: "FAILED",
    JobState.CANCELED: "CANCELED",
}


def job_result(record: JobRecord) -> dict[str, Any]:
    """Return Flink's JobExecutionResultResponseBody, without the job's collected records."""
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


class Ruled(Protocol):
    """The coordinator as these routes use it."""

    dispatcher: Dispatcher
    metrics: MetricStore

    def now(self) -> float: ...
    def cancel(self, record: JobRecord) -> None: ...


class JobRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Ruled) -> None:
        self._coordinator = coordinator
        self._dispatcher = coordinator.dispatcher

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [
            web.get("/v1/jobs", self._jobs),
            web.get("/v1/jobs/overview", self._overview),
            web.get("/v1/jobs/{job}", self._job),
            web.get("/v1/jobs/{job}/plan", self._plan),
            web.get("/v1/jobs/{job}/status", self._status),
            web.get("/v1/jobs/{job}/execution-result", self._result),
            web.get("/v1/jobs/{job}/config", self._config),
            web.get("/v1/jobs/{job}/exceptions", self._exceptions),
            web.get("/v1/jobs/{job}/accumulators", self._accumulators),
            web.get("/v1/jobs/{job}/metrics", self._metrics),
            web.patch("/v1/jobs/{job}", self._cancel),
        ]

    async def _jobs(self, request: web.Request) -> web.Response:
        rows = [
            {"id": job.job_id, "status": job_status(job.state)} for job in self._dispatcher.jobs()
        ]
        return web.json_response({"jobs": rows})

    async def _overview(self, request: web.Request) -> web.Response:
        now = self._coordinator.now()
        return web.json_response(
            {"jobs": [job_overview(job, now) for job in self._dispatcher.jobs()]}
        )

    async def _job(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        return web.json_response(job_details(record, self._coordinator.now()))

    async def _plan(self, request: web.Request) -> web.Response:
        return web.json_response({"plan": job_plan(named_job(request, self._dispatcher))})

    async def _status(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        return web.json_response({"status": job_status(record.state)})

    async def _result(self, request: web.Request) -> web.Response:
        return web.json_response(job_result(named_job(request, self._dispatcher)))

    async def _config(self, request: web.Request) -> web.Response:
        return web.json_response(job_configuration(named_job(request, self._dispatcher)))

    async def _exceptions(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        workers = {worker.worker_id: worker for worker in self._dispatcher.workers.workers()}
        limit = whole_number(request, "maxExceptions") or EXCEPTIONS_DEFAULT
        return web.json_response(job_exceptions(record, workers, limit))

    async def _accumulators(self, request: web.Request) -> web.Response:
        named_job(request, self._dispatcher)
        return web.json_response(
            {
                "job-accumulators": [],
                "user-task-accumulators": [],
                "serialized-user-task-accumulators": {},
            }
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        reports = self._coordinator.metrics.of_job(record.job_id).values()
        reported = [one for report in reports for one in report]
        values = job_values(record, self._coordinator.now()) | latency_values(reported)
        return web.json_response(metric_list(values, chosen_names(request.query.get("get"))))

    async def _cancel(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        mode = request.query.get("mode", "cancel")
        if mode != "cancel":
            raise ConfigurationError(f"mode is {mode[:20]!r}: the only mode is cancel")
        self._coordinator.cancel(record)
        if record.state in (JobState.FINISHED, JobState.FAILED):
            raise web.HTTPConflict(
                text=printable(f'job "{record.submission.name}" is {record.state.value} already')
            )
        return web.json_response({}, status=202)
