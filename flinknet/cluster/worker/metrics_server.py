"""A worker's /metrics, for Prometheus.

::

    GET /metrics                     takes the cluster token (``Authorization: Bearer``)

The worker's event loop serves it, which the subtasks share: what is read lets the loop turn
(``worker_metrics.py``), and so does what makes text of it (``metrics/exporter.py``). One scrape is
served after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from flinknet.cluster.control.credentials import is_authorized
from flinknet.cluster.control.http_server import HttpServer
from flinknet.cluster.worker.worker_metrics import WorkerMetrics
from flinknet.config import ClusterConfig
from flinknet.metrics.build_info import build_info
from flinknet.metrics.exporter import CONTENT_TYPE, render
from flinknet.metrics.families import Labels
from flinknet.metrics.network_families import worker_families

__all__ = ["serve_metrics"]


@asynccontextmanager
async def serve_metrics(
    metrics: WorkerMetrics, labels: Labels, port: int, config: ClusterConfig, token: str
) -> AsyncIterator[str]:
    """Serve a worker's metrics in this block, and yield where; nowhere, an empty string, if
    ``metrics`` is off. ConfigurationError if the port is taken."""
    if not config.metrics:
        yield ""
        return
    one_at_a_time = asyncio.Lock()

    async def scrape(request: web.Request) -> web.Response:
        if not is_authorized(request.headers, token):
            raise web.HTTPUnauthorized(text="the cluster token is missing or wrong\n")
        async with one_at_a_time:
            statistics = await metrics.statistics()
            families = worker_families(labels, statistics)
            text = await render([build_info(labels), *families])
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    application = web.Application()
    application.router.add_get("/metrics", scrape)
    server = HttpServer(application, config)
    try:
        yield await server.start(config.host, port, "cluster.metrics_port")
    finally:
        await server.close()
