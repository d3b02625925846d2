"""The diagnosis of a job's bottleneck, for programs and people.

::

    GET  /api/v1/jobs/{job}/diagnosis    a sentence, the findings, the wait-for graph, all subtasks

``diagnosis/diagnosis.py`` defines the JSON. Additional fields are ``job_id``, ``name``, ``state``,
``attempt``, and ``at`` in milliseconds since 1970. The input is the statistics that workers report
every ``cluster.statistics_interval_ms``. More frequent requests thus cost workers nothing, and
return nothing new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from aiohttp import web

from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.rest.flink.job_view import vertex_id
from flinknet.cluster.coordinator.rest.http_requests import named_job
from flinknet.cluster.coordinator.rest.metrics_routes import Measured
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.diagnosis.checkpoint_reading import CheckpointReading
from flinknet.diagnosis.diagnosis import Diagnosis, diagnose
from flinknet.diagnosis.history import REFRESHES, History
from flinknet.diagnosis.reading import FailureReading, Readings, TaskReading, WorkerReading
from flinknet.diagnosis.topology import Exchange, TaskKey, Topology, Vertex
from flinknet.graph.deployment import consumers_of
from flinknet.graph.graph import JobGraph

__all__ = ["DiagnosisRoutes", "diagnosis_of", "failure_readings", "present_tasks", "topology_of"]

MISSED_HEARTBEATS = 3
"""Missed heartbeats after which a worker counts as silent here; it counts as lost much later."""

REASON_MAX = 300
"""Characters kept of a failure's reason; the job's exceptions have all of it."""


class DiagnosisRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Measured) -> None:
        self._coordinator = coordinator

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [web.get("/api/v1/jobs/{job}/diagnosis", self._diagnosis)]

    async def _diagnosis(self, request: web.Request) -> web.Response:
        record = named_job(request, self._coordinator.dispatcher)
        now = self._coordinator.now()
        diagnosis = await diagnosis_of(record, self._coordinator, now)
        return web.json_response(
            {
                "job_id": record.job_id,
                "name": record.submission.name,
                "state": record.state.value,
                "attempt": record.present.number,
                "at": record.wall_ms(now),
                **diagnosis.to_json(),
            }
        )


async def diagnosis_of(record: JobRecord, coordinator: Measured, now: float) -> Diagnosis:
    """Diagnose the present attempt of a job from the reported statistics.

    Runs in a thread: for thousands of subtasks that all wait for each other it takes a second,
    during which the coordinator must handle messages of workers.
    """
    history = coordinator.metrics.history
    tasks = present_tasks(record, history)
    ids = {one.worker_id for one in tasks.values()}
    patience_s = MISSED_HEARTBEATS * coordinator.config.heartbeat_interval_ms / 1000
    seconds = max((one.seconds for one in tasks.values()), default=0.0)
    workers = {
        worker.worker_id: _worker_reading(worker, coordinator, now, patience_s, seconds)
        for worker in coordinator.dispatcher.workers.workers()
        if worker.worker_id in ids and not worker.is_lost
    }
    checkpoints = tuple(_checkpoint_readings(record, now, seconds))
    failures = tuple(failure_readings(record, now))
    readings = Readings(tasks, workers, history.refresh_s, checkpoints, failures)
    return await asyncio.to_thread(diagnose, topology_of(record.submission.shape), readings)


def present_tasks(
    record: JobRecord, history: History, refreshes: int = REFRESHES
) -> dict[TaskKey, TaskReading]:
    """Return the reports of the present attempt's subtasks, each since its deployment."""
    execution = record.execution
    return {
        subtask: reading
        for number in sorted({number for _, number in execution.parts})
        for subtask, reading in history.tasks(record.job_id, number, refreshes).items()
        if execution.number_of(subtask) == number
    }


def _worker_reading(
    worker: WorkerRecord, coordinator: Measured, now: float, patience_s: float, seconds: float
) -> WorkerReading:
    report = coordinator.metrics.latest()[worker.worker_id].statistics
    silent_s = now - worker.heard_at
    return WorkerReading(
        worker_id=worker.worker_id,
        address=worker.address,
        silent_s=silent_s if silent_s > patience_s else 0.0,
        held_up=coordinator.metrics.history.held_up(worker.worker_id, seconds),
        segments_free=report.network_pool.free,
        segments=report.network_pool.total,
        connections=report.connections,
        garbage=coordinator.metrics.history.garbage(worker.worker_id, seconds),
        is_alive=now - worker.lives_at <= patience_s,
    )


def _checkpoint_readings(
    record: JobRecord, now: float, seconds: float
) -> Iterator[CheckpointReading]:
    """Yield the checkpoints under way, and those that ended within the last ``seconds``."""
    for pending in record.checkpoints.pending:
        yield CheckpointReading(
            pending.checkpoint_id,
            now - pending.triggered_at,
            is_under_way=True,
            has_expired=False,
            reports=pending.reports,
            finished=pending.finished,
        )
    for stats in record.checkpoints.history.checkpoints:
        is_late = stats.reason is CheckpointFailureReason.EXPIRED
        is_recent = stats.triggered_at + stats.seconds >= now - seconds
        if is_recent and (is_late or stats.reason is None):
            yield CheckpointReading(
                stats.checkpoint_id,
                stats.seconds,
                is_under_way=False,
                has_expired=is_late,
                reports=stats.reports,
                finished=stats.finished,
            )


def failure_readings(record: JobRecord, now: float) -> Iterator[FailureReading]:
    """Yield the failures that led to a restart, past or pending, latest first."""
    if record.ended_at is None:
        for attempt in reversed(record.attempts):
            for cause, at in attempt.all_failures():
                said, _, _ = cause.describe().partition("\n")
                subtask = cause.subtask or ""
                yield FailureReading(now - at, subtask, cause.worker_id, said[:REASON_MAX])


def topology_of(graph: JobGraph) -> Topology:
    """Return the shape of a job without its functions."""
    vertices = [Vertex(one.id, one.name, one.parallelism, vertex_id(one)) for one in graph.vertices]
    exchanges = []
    for edge in graph.edges:
        sources, targets = (graph.vertices[end].parallelism for end in (edge.source, edge.target))
        consumers = tuple(
            consumers_of(producer, sources, targets, pointwise=edge.pointwise)
            for producer in range(sources)
        )
        exchanges.append(Exchange(edge.source, edge.target, edge.name, consumers))
    return Topology(vertices, exchanges)
