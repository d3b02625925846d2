"""A worker's /metrics, for Prometheus.

::

    GET /metrics?channels=N          takes the cluster token (``Authorization: Bearer``)

With ``channels``, the response also has samples of that many input channels, the ones with the
largest backlog, up to ``statistics_channels_max``.

The worker's event loop, which the subtasks share, serves the request. Reading the metrics
(``worker_metrics.py``) and rendering them (``metrics/exporter.py``) both yield to the loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain

from aiohttp import web

from flinknet import machine
from flinknet.cluster.control.credentials import Role
from flinknet.cluster.control.http_server import HttpServer, check_role
from flinknet.cluster.worker.worker_metrics import WorkerMetrics
from flinknet.config import ClusterConfig
from flinknet.metrics.build_info import build_info
from flinknet.metrics.catalogue import worker_families
from flinknet.metrics.exporter import CONTENT_TYPE, render
from flinknet.metrics.process_totals import ProcessMeter
from flinknet.metrics.registry import Labels
from flinknet.metrics.worker_catalogue import PROCESS
from flinknet.net.address import host_of

__all__ = ["serve_metrics"]

DIGITS_MAX = 9
"""Maximum number of digits in a request; a longer number cannot be a number of channels."""


@asynccontextmanager
async def serve_metrics(
    metrics: WorkerMetrics,
    labels: Labels,
    port: int,
    config: ClusterConfig,
    token: str,
    advertised: str = "",
) -> AsyncIterator[str]:
    """Serve a worker's metrics in this block, and yield their address.

    Yields an empty string if ``config.metrics`` is off. ``advertised`` is the address at which
    others reach the worker; a port in it is ignored. Raises ConfigurationError if the port is
    taken.
    """
    if not config.metrics:
        yield ""
        return
    process = ProcessMeter(metrics.clock, machine.process_time_ns)

    async def scrape(request: web.Request) -> web.Response:
        check_role(request.headers, token, Role.READ)
        channels = request.query.get("channels", "0")
        if not channels.isdecimal() or len(channels) > DIGITS_MAX:
            raise web.HTTPBadRequest(text=f"channels is {channels[:20]!r}: write a whole number\n")
        channels_max = min(int(channels), config.statistics_channels_max)
        statistics = await metrics.statistics(channels_max)
        families = chain(
            [build_info(labels)],
            PROCESS.families([(labels, process.totals())]),
            worker_families(labels, statistics),
        )
        body = render(families, metrics.turns())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    application = web.Application()
    application.router.add_get("/metrics", scrape)
    server = HttpServer(application, config)
    try:
        yield await server.start(config.host, port, "cluster.metrics_port", host_of(advertised))
    finally:
        await server.close()
