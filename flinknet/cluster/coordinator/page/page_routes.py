"""The route of the web page: everything that it shows at a moment, in one answer.

::

    GET  /api/v1/page                the cluster, its workers, its jobs
    GET  /api/v1/page?job=ID         also the job: graph, live rates, diagnosis, failures
         &vertex=ID                  all subtasks of one vertex
         &metrics=A,B                values of these metrics of the vertex
         &show=checkpoints           the checkpoints
         &checkpoint=N               with &show=checkpoints: each subtask's part in one of them
         &show=network               pools, connections, and the channels with the most waiting data

Names and formats are internal to the page and may change with it. Programs should use ``/v1`` or
``/api/v1/jobs``. A job or vertex that does not exist any more is null instead of an error, because
the rest is still worth showing. The data comes from the regular reports of workers. The page may be
open in many browsers, so requests within a while share one diagnosis.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from aiohttp import web

from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.page.job_view import Live, diagnosis_view, job_view
from flinknet.cluster.coordinator.page.network_view import CHANNELS_MAX, network_view
from flinknet.cluster.coordinator.page.vertex_view import vertex_view
from flinknet.cluster.coordinator.rest.checkpoint_details import PARTS, part_rows
from flinknet.cluster.coordinator.rest.checkpoint_routes import (
    checkpoint_statistics,
    find_checkpoint,
)
from flinknet.cluster.coordinator.rest.client_routes import worker_row
from flinknet.cluster.coordinator.rest.diagnosis_routes import (
    diagnosis_of,
    present_tasks,
    topology_of,
)
from flinknet.cluster.coordinator.rest.flink.cluster_view import cluster_overview
from flinknet.cluster.coordinator.rest.flink.exceptions_view import job_exceptions
from flinknet.cluster.coordinator.rest.flink.job_view import job_overview
from flinknet.cluster.coordinator.rest.flink.metrics_view import chosen_names
from flinknet.cluster.coordinator.rest.flink.vertex_view import find_vertex
from flinknet.cluster.coordinator.rest.http_requests import whole_number
from flinknet.cluster.coordinator.rest.metrics_routes import Measured
from flinknet.diagnosis.diagnosis import Diagnosis
from flinknet.diagnosis.history import REFRESHES
from flinknet.metrics.busiest_channels import ChannelRow
from flinknet.version import __version__

__all__ = ["PageRoutes"]

DIAGNOSIS_AGE_S = 1.0
"""Least time for which a diagnosis is reused, in seconds; less than the time between two reports of
a worker."""

LIVE_S = 5.0
"""Seconds over which rates are averaged, unless workers report less often. Shorter times would show
the bursts of buffers and batches."""

DIAGNOSIS_PAUSE = 20
"""Least time for which a diagnosis is reused, as a multiple of the time that it took. With
thousands of waiting subtasks that may be a second, in which it keeps a processor busy."""

CHANNELS_TIMEOUT_S = 1.0
"""Seconds to wait for a worker's channels. After that the page is shown without them."""


class PageRoutes:
    """The route, bound to one coordinator."""

    def __init__(self, coordinator: Measured) -> None:
        self._coordinator = coordinator
        self._dispatcher = coordinator.dispatcher
        self._diagnoses: dict[str, _Diagnosis] = {}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [web.get("/api/v1/page", self._page)]

    async def _page(self, request: web.Request) -> web.Response:
        shown = self._cluster()
        job_id = request.query.get("job")
        if job_id is not None:
            record = self._dispatcher.job(job_id)
            shown["job"] = None
            if record is not None:
                shown |= await self._job(record, request)
        return web.json_response(shown)

    def _cluster(self) -> dict[str, Any]:
        now = self._coordinator.now()
        latest = self._coordinator.metrics.latest()
        workers = []
        for worker in self._dispatcher.workers.workers():
            row = worker_row(worker, now)
            report = latest.get(worker.worker_id)
            if report is not None:
                pool = report.statistics.network_pool
                row |= {
                    "segments": pool.total,
                    "segments_free": pool.free,
                    "loop_lag_ms": report.statistics.event_loop_lag_ms,
                    "collecting": round(report.statistics.garbage.seconds_per_second, 4),
                    "reported_ms_ago": round((now - report.at) * 1000, 1),
                }
            workers.append(row)
        return {
            "version": __version__,
            "at": self._dispatcher.wall_ms(now),
            "report_interval_ms": self._coordinator.config.statistics_interval_ms,
            "cluster": cluster_overview(
                self._dispatcher, self._coordinator.config.rest_flink_version
            ),
            "jobs": [job_overview(job, now) for job in self._dispatcher.jobs()],
            "workers": workers,
        }

    async def _job(self, record: JobRecord, request: web.Request) -> dict[str, Any]:
        now = self._coordinator.now()
        history = self._coordinator.metrics.history
        refreshes = max(1, min(REFRESHES, round(LIVE_S / history.refresh_s)))
        live = present_tasks(record, history, refreshes)
        workers = {worker.worker_id: worker for worker in self._dispatcher.workers.workers()}
        diagnosis = await self._diagnosis(record)
        shown = {
            "job": job_view(record, live, now),
            "diagnosis": diagnosis_view(diagnosis),
            "exceptions": job_exceptions(record, workers)["exceptionHistory"],
        }
        query = request.query
        if "vertex" in query:
            vertex = find_vertex(record, query["vertex"])
            chosen = chosen_names(query.get("metrics")) or []
            shown["vertex"] = None
            if vertex is not None:
                meanings = diagnosis.meanings()
                shown["vertex"] = vertex_view(record, vertex, live, meanings, chosen)
        if query.get("show") == "checkpoints":
            shown["checkpoints"] = checkpoint_statistics(record, now)
            shown["checkpoints"]["parts"] = _parts(record, whole_number(request, "checkpoint"))
        if query.get("show") == "network":
            shown["network"] = await self._network(record, live)
        return shown

    async def _diagnosis(self, record: JobRecord) -> Diagnosis:
        now = self._coordinator.now()
        self._diagnoses = {
            job_id: kept for job_id, kept in self._diagnoses.items() if now < kept.good_until
        }
        kept = self._diagnoses.get(record.job_id)
        if kept is None:
            kept = self._diagnoses[record.job_id] = _Diagnosis(record, self._coordinator)
        # Other requests may still wait for it when this one is cancelled.
        return await asyncio.shield(kept.made)

    async def _network(self, record: JobRecord, live: Live) -> dict[str, Any]:
        latest = self._coordinator.metrics.latest()
        of_job = sorted(set(record.execution.workers) & set(latest))
        asked = await asyncio.gather(*map(self._channels, of_job))
        return network_view(
            topology_of(record.submission.shape),
            live,
            {worker: latest[worker].statistics for worker in of_job},
            dict(zip(of_job, asked, strict=True)),
        )

    async def _channels(self, worker_id: str) -> tuple[ChannelRow, ...]:
        try:
            told = await self._coordinator.metrics.fetch(
                worker_id, channels_max=CHANNELS_MAX, timeout_s=CHANNELS_TIMEOUT_S
            )
        except TimeoutError:
            return ()
        return () if told is None else told.channels


class _Diagnosis:
    """A diagnosis that is being made or reused."""

    def __init__(self, record: JobRecord, coordinator: Measured) -> None:
        self._coordinator = coordinator
        self.good_until = math.inf
        self.made = asyncio.create_task(self._make(record))

    async def _make(self, record: JobRecord) -> Diagnosis:
        begun_at = self._coordinator.now()
        try:
            return await diagnosis_of(record, self._coordinator, begun_at)
        finally:
            now = self._coordinator.now()
            self.good_until = now + max(DIAGNOSIS_AGE_S, DIAGNOSIS_PAUSE * (now - begun_at))


def _parts(record: JobRecord, number: int) -> dict[str, Any] | None:
    """Return each subtask's part in a checkpoint, or None if there is none with that number."""
    checkpoint = find_checkpoint(record, number)
    if checkpoint is None:
        return None
    rows = part_rows(record.submission.shape.vertices, checkpoint)
    return {"id": number, "columns": PARTS, "rows": rows}
