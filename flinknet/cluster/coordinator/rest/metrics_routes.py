"""The routes for Prometheus.

::

    GET  /metrics                    the coordinator's own metrics; workers serve theirs
    GET  /metrics/targets            all addresses to scrape: HTTP service discovery

Both require the cluster token, as each worker's /metrics does, because they contain names of jobs
and workers. Prometheus sends it with ``authorization: credentials_file``, see
``deploy/prometheus.yml``.
"""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from flinknet import machine
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.metrics.coordinator_catalogue import coordinator_families
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.config import ClusterConfig
from flinknet.metrics.build_info import build_info
from flinknet.metrics.exporter import CONTENT_TYPE, render
from flinknet.metrics.process_totals import ProcessMeter
from flinknet.metrics.turns import Turns
from flinknet.metrics.worker_catalogue import COORDINATOR_PROCESS_SCOPE, PROCESS
from flinknet.net.address import join_address
from flinknet.net.refusal_log import RefusalLog

__all__ = ["Measured", "MetricsRoutes"]


class Measured(Protocol):
    """The coordinator as these routes use it."""

    config: ClusterConfig
    dispatcher: Dispatcher
    metrics: MetricStore
    http_refusals: RefusalLog

    def now(self) -> float: ...


class MetricsRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Measured) -> None:
        self._coordinator = coordinator
        self._process = ProcessMeter(coordinator.now, machine.process_time_ns)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application: none if metrics are disabled."""
        if not self._coordinator.config.metrics:
            return []
        return [
            web.get("/metrics", self._metrics),
            web.get("/metrics/targets", self._targets),
        ]

    async def _metrics(self, request: web.Request) -> web.Response:
        coordinator = self._coordinator
        labels = {"host": coordinator.config.host}
        families = coordinator_families(
            labels,
            coordinator.dispatcher,
            coordinator.metrics,
            coordinator.http_refusals.counts,
            coordinator.now(),
        )
        process = PROCESS.families([(labels, self._process.totals())], COORDINATOR_PROCESS_SCOPE)
        everything = [build_info(labels), *process, *families]
        text = render(everything, Turns())
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    async def _targets(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        mine = join_address(*request.transport.get_extra_info("sockname")[:2])
        workers = self._coordinator.dispatcher.workers.registered()
        addresses = {"coordinator": mine} | {
            worker.worker_id: worker.metrics_address for worker in workers if worker.metrics_address
        }
        return web.json_response(
            [
                {"targets": [address], "labels": {"process": process}}
                for process, address in addresses.items()
            ]
        )
