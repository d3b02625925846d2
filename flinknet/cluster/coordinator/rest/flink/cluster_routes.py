"""The routes of Flink's clients for the cluster.

::

    GET  /v1/config                  the announced version, features of the dashboard
    GET  /v1/overview                counts of workers, slots and jobs
    GET  /v1/taskmanagers            the present workers
    GET  /v1/taskmanagers/{worker}   one worker, with its slots and its network memory
    GET  /v1/jobmanager/config       the options of the cluster
    GET  /v1/jobmanager/environment  the interpreter
    GET  /v1/jobmanager/metrics      with ?get=taskSlotsTotal,numRunningJobs the values
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from aiohttp import web

from flinknet.buffer.network_pool import NetworkBufferPoolStatistics
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.metrics.coordinator_catalogue import cluster_values
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.cluster.coordinator.rest.flink.cluster_view import (
    cluster_overview,
    dashboard_configuration,
    task_manager,
    task_manager_details,
)
from flinknet.cluster.coordinator.rest.flink.environment_view import (
    coordinator_configuration,
    coordinator_environment,
)
from flinknet.cluster.coordinator.rest.flink.metrics_view import chosen_names, metric_list
from flinknet.config import ClusterConfig
from flinknet.metrics.worker_statistics import WorkerStatistics
from flinknet.texts import printable

__all__ = ["ClusterRoutes", "Seen"]


class Seen(Protocol):
    """The coordinator as these routes use it."""

    config: ClusterConfig
    dispatcher: Dispatcher
    metrics: MetricStore


class ClusterRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Seen) -> None:
        self._coordinator = coordinator
        self._dispatcher = coordinator.dispatcher
        self._flink_version = coordinator.config.rest_flink_version

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [
            web.get("/v1/config", self._config),
            web.get("/v1/overview", self._overview),
            web.get("/v1/taskmanagers", self._task_managers),
            web.get("/v1/taskmanagers/{worker}", self._task_manager),
            web.get("/v1/jobmanager/config", self._coordinator_config),
            web.get("/v1/jobmanager/environment", self._environment),
            web.get("/v1/jobmanager/metrics", self._metrics),
        ]

    async def _config(self, request: web.Request) -> web.Response:
        now = datetime.now().astimezone()
        return web.json_response(dashboard_configuration(self._flink_version, now))

    async def _overview(self, request: web.Request) -> web.Response:
        return web.json_response(cluster_overview(self._dispatcher, self._flink_version))

    async def _task_managers(self, request: web.Request) -> web.Response:
        rows = [
            task_manager(
                worker, self._dispatcher.wall_ms(worker.heard_at), self._pool(worker.worker_id)
            )
            for worker in self._dispatcher.workers.registered()
        ]
        return web.json_response({"taskmanagers": rows})

    async def _task_manager(self, request: web.Request) -> web.Response:
        worker_id = request.match_info["worker"]
        worker = self._dispatcher.workers.get(worker_id)
        if worker is None or worker.is_lost:
            raise web.HTTPNotFound(text=printable(f"no worker {worker_id}"))
        heard_ms = self._dispatcher.wall_ms(worker.heard_at)
        return web.json_response(task_manager_details(worker, heard_ms, self._reported(worker_id)))

    async def _coordinator_config(self, request: web.Request) -> web.Response:
        return web.json_response(coordinator_configuration(self._coordinator.config))

    async def _environment(self, request: web.Request) -> web.Response:
        return web.json_response(coordinator_environment())

    async def _metrics(self, request: web.Request) -> web.Response:
        values = cluster_values(self._dispatcher)
        return web.json_response(metric_list(values, chosen_names(request.query.get("get"))))

    def _pool(self, worker_id: str) -> NetworkBufferPoolStatistics | None:
        reported = self._reported(worker_id)
        return None if reported is None else reported.network_pool

    def _reported(self, worker_id: str) -> WorkerStatistics | None:
        report = self._coordinator.metrics.latest().get(worker_id)
        return None if report is None else report.statistics
