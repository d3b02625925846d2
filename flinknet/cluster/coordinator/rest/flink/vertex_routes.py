"""The routes of Flink's clients and its dashboard for the vertices of a job.

::

    GET  /v1/jobs/{job}/vertices/{vertex}                     its subtasks
    GET  /v1/jobs/{job}/vertices/{vertex}/taskmanagers        its subtasks by worker
    GET  /v1/jobs/{job}/vertices/{vertex}/subtasktimes        time at which each entered each state
    GET  /v1/jobs/{job}/vertices/{vertex}/backpressure        by time, as since Flink 1.13
    GET  /v1/jobs/{job}/vertices/{vertex}/backpressure?by=samples    as before Flink 1.13
    GET  /v1/jobs/{job}/vertices/{vertex}/flamegraph          ?type=FULL|ON_CPU|OFF_CPU
         &subtaskindex=N                                      of one subtask
    GET  /v1/jobs/{job}/vertices/{vertex}/watermarks          event time at each subtask's inputs
    GET  /v1/jobs/{job}/vertices/{vertex}/metrics             with ?get=0.numRecordsIn the values
    GET  /v1/jobs/{job}/vertices/{vertex}/subtasks/metrics    with ?get=numRecordsIn aggregates

Samples take some seconds if there were no recent requests. As in Flink, the answer then says that
there are none yet. ``wait_ms`` waits for them at most that long, and ``again=1`` takes new samples
in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler

from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.metrics.stack_sample_store import SampledVertex, StackSampleStore
from flinknet.cluster.coordinator.rest.flink.metrics_view import (
    aggregated_metrics,
    chosen_names,
    metric_list,
    subtask_values,
    watermark_list,
)
from flinknet.cluster.coordinator.rest.flink.stacks_view import (
    FlameGraphType,
    flame_graph,
    sampled_backpressure,
)
from flinknet.cluster.coordinator.rest.flink.vertex_view import (
    find_vertex,
    subtasks_of,
    vertex_backpressure,
    vertex_details,
    vertex_task_managers,
    vertex_times,
)
from flinknet.cluster.coordinator.rest.http_requests import (
    WAIT_MS_MAX,
    chosen,
    named_job,
    whole_number,
)
from flinknet.cluster.coordinator.rest.metrics_routes import Measured
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.graph.graph import JobVertex
from flinknet.metrics.worker_statistics import SubtaskTotals
from flinknet.texts import printable

__all__ = ["Sampling", "VertexRoutes"]

View: TypeAlias = Callable[
    [JobRecord, JobVertex, Mapping[str, WorkerRecord], float], dict[str, Any]
]


class Sampling(Measured, Protocol):
    """The coordinator as these routes use it."""

    stacks: StackSampleStore


class VertexRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Sampling) -> None:
        self._coordinator = coordinator
        self._dispatcher: Dispatcher = coordinator.dispatcher

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        vertex = "/v1/jobs/{job}/vertices/{vertex}"
        return [
            web.get(vertex, self._viewed(vertex_details)),
            web.get(f"{vertex}/taskmanagers", self._viewed(vertex_task_managers)),
            web.get(f"{vertex}/subtasktimes", self._viewed(vertex_times)),
            web.get(f"{vertex}/backpressure", self._backpressure),
            web.get(f"{vertex}/flamegraph", self._flame_graph),
            web.get(f"{vertex}/watermarks", self._watermarks),
            web.get(f"{vertex}/metrics", self._metrics),
            web.get(f"{vertex}/subtasks/metrics", self._aggregated),
        ]

    def _viewed(self, view: View) -> Handler:
        """Return a handler that answers with a view of the vertex and its workers."""

        async def answer(request: web.Request) -> web.Response:
            record, vertex = self._named(request)
            workers = {worker.worker_id: worker for worker in self._dispatcher.workers.workers()}
            return web.json_response(view(record, vertex, workers, self._coordinator.now()))

        return answer

    async def _backpressure(self, request: web.Request) -> web.Response:
        record, vertex = self._named(request)
        if chosen(request, "by", ("time", "samples"), "time") == "samples":
            sampled = await self._sampled(request, record, vertex)
            return web.json_response(sampled_backpressure(record, sampled))
        subtasks = self._reported(record, vertex)
        return web.json_response(vertex_backpressure(record, subtasks, self._coordinator.now()))

    async def _flame_graph(self, request: web.Request) -> web.Response:
        record, vertex = self._named(request)
        # Flink accepts the types in lower case as well.
        kinds = [spelled for kind in FlameGraphType for spelled in (kind.name, kind.name.lower())]
        kind = FlameGraphType[chosen(request, "type", kinds, FlameGraphType.FULL.name).upper()]
        index = whole_number(request, "subtaskindex") if "subtaskindex" in request.query else None
        sampled = await self._sampled(request, record, vertex)
        return web.json_response(flame_graph(record, sampled, kind, index))

    async def _sampled(
        self, request: web.Request, record: JobRecord, vertex: JobVertex
    ) -> SampledVertex | None:
        wait_ms = min(whole_number(request, "wait_ms"), WAIT_MS_MAX)
        store = self._coordinator.stacks
        if record.state.is_terminal:
            return None
        sampled = store.latest(record, vertex)
        if wait_ms and (sampled is None or whole_number(request, "again")):
            await asyncio.wait([store.sample(record, vertex)], timeout=wait_ms / 1000)
            sampled = store.latest(record, vertex)
        return sampled

    async def _watermarks(self, request: web.Request) -> web.Response:
        return web.json_response(watermark_list(self._reported(*self._named(request))))

    async def _metrics(self, request: web.Request) -> web.Response:
        values = subtask_values(self._reported(*self._named(request)))
        return web.json_response(metric_list(values, chosen_names(request.query.get("get"))))

    async def _aggregated(self, request: web.Request) -> web.Response:
        query = request.query
        rows = aggregated_metrics(
            self._reported(*self._named(request)),
            chosen_names(query.get("get")),
            chosen_names(query.get("agg")),
            query.get("subtasks"),
        )
        return web.json_response(rows)

    def _named(self, request: web.Request) -> tuple[JobRecord, JobVertex]:
        record = named_job(request, self._dispatcher)
        vertex = find_vertex(record, request.match_info["vertex"])
        if vertex is None:
            name, vid = record.submission.name, request.match_info["vertex"]
            raise web.HTTPNotFound(text=printable(f'job "{name}" has no vertex {vid}'))
        return record, vertex

    def _reported(self, record: JobRecord, vertex: JobVertex) -> list[SubtaskTotals]:
        reports = self._coordinator.metrics.of_job(record.job_id).values()
        return subtasks_of(record, vertex, [one for report in reports for one in report])
