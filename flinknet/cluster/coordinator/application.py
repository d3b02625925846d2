"""The HTTP interface of the control plane: its routes, its token and its error answers.

``rest/public_routes.py`` and ``page/page_files.py`` answer every client that reaches the port. All
other routes, in ``rest/`` and ``page/``, take the cluster token (``Authorization: Bearer``), which
is checked before a body is read.

An error is ``{"error": {"type": ..., "message": ...}}``: 400 refused, 401 no token, 404 unknown,
408 too slow, 409 not in this state, 413 too large. Under ``/v1``, where everything has the shape of
Flink's REST, it is ``{"errors": [message]}``, with the same statuses.
"""

from __future__ import annotations

from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from flinknet.cluster.control.credentials import is_authorized
from flinknet.cluster.coordinator.page.page_files import PageFiles
from flinknet.cluster.coordinator.page.page_routes import PageRoutes
from flinknet.cluster.coordinator.rest.checkpoint_routes import CheckpointRoutes
from flinknet.cluster.coordinator.rest.client_routes import ClientRoutes, Jobs
from flinknet.cluster.coordinator.rest.diagnosis_routes import DiagnosisRoutes
from flinknet.cluster.coordinator.rest.flink.cluster_routes import ClusterRoutes
from flinknet.cluster.coordinator.rest.flink.job_routes import JobRoutes
from flinknet.cluster.coordinator.rest.flink.process_routes import Outspoken, ProcessRoutes
from flinknet.cluster.coordinator.rest.flink.vertex_routes import Sampling, VertexRoutes
from flinknet.cluster.coordinator.rest.metrics_routes import MetricsRoutes
from flinknet.cluster.coordinator.rest.name_routes import NameRoutes
from flinknet.cluster.coordinator.rest.public_routes import PublicRoutes, Readiness
from flinknet.cluster.coordinator.rest.savepoint_routes import SavepointRoutes, Savepoints
from flinknet.cluster.coordinator.rest.worker_requests import Attempts
from flinknet.cluster.coordinator.rest.worker_routes import WorkerRoutes
from flinknet.errors import (
    CheckpointError,
    ConfigurationError,
    FlinknetError,
    JobError,
    RemoteProtocolError,
)
from flinknet.texts import text_of

__all__ = ["Served", "control_plane"]

_OVERHEAD_BYTES = 1024 * 1024
"""What an upload may have beside collected records or a job graph: counters, metrics, the shape."""


class Served(Readiness, Jobs, Savepoints, Attempts, Sampling, Outspoken, Protocol):
    """What all routes together need of the coordinator."""


def control_plane(coordinator: Served, token: str) -> web.Application:
    """The application to serve: all routes, bound to one coordinator and its token."""
    public = PublicRoutes(coordinator).routes() + PageFiles().routes()
    largest = max(coordinator.config.job_bytes_max, coordinator.config.collect_bytes_max)
    application = web.Application(
        middlewares=[
            _errors_as_json,
            _with_token(token, frozenset(route.path for route in public)),
        ],
        client_max_size=largest + _OVERHEAD_BYTES,
    )
    application.add_routes(public)
    application.add_routes(ClientRoutes(coordinator).routes())
    application.add_routes(DiagnosisRoutes(coordinator).routes())
    application.add_routes(ClusterRoutes(coordinator).routes())
    application.add_routes(ProcessRoutes(coordinator).routes())
    application.add_routes(JobRoutes(coordinator).routes())
    application.add_routes(VertexRoutes(coordinator).routes())
    application.add_routes(CheckpointRoutes(coordinator).routes())
    application.add_routes(SavepointRoutes(coordinator).routes())
    application.add_routes(PageRoutes(coordinator).routes())
    application.add_routes(MetricsRoutes(coordinator).routes())
    application.add_routes(WorkerRoutes(coordinator).routes())
    names = NameRoutes(coordinator.config)
    application.add_routes(names.routes())
    application.on_shutdown.append(names.close)
    return application


def _with_token(token: str, open_paths: frozenset[str]) -> Middleware:
    """Let nobody in without the token but to what is open to everyone."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in open_paths and not is_authorized(request.headers, token):
            raise web.HTTPUnauthorized(text="the cluster token is missing or wrong")
        return await handler(request)

    return guarded


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        error = FlinknetError(refusal.text or refusal.reason)
        return _error_response(request, refusal.status, error)
    except web.RequestPayloadError:
        error = FlinknetError("the body is not what its headers say: it cannot be decoded")
        return _error_response(request, 400, error)
    except (ConfigurationError, CheckpointError, RemoteProtocolError) as error:
        return _error_response(request, 400, error)
    except JobError as error:
        return _error_response(request, 413, error)


def _error_response(request: web.Request, status: int, error: FlinknetError) -> web.Response:
    message = text_of(error)
    if request.path.startswith("/v1/"):
        return web.json_response({"errors": [message]}, status=status)
    body = {"error": {"type": type(error).__name__, "message": message}}
    return web.json_response(body, status=status)
