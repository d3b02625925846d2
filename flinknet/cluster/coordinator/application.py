"""The HTTP interface of the control plane: routes, access control and error responses.

``rest/public_routes.py`` and ``page/page_files.py`` serve every client that reaches the port. All
other routes, in ``rest/`` and ``page/``, require the cluster token (``Authorization: Bearer``) or
the token of a sufficient role. The role is checked before a request body is read. READ allows
looking at state, OPERATE allows changing it, SUBMIT allows running new code, and WORKER covers the
routes of the workers.

An error response is ``{"error": {"type": ..., "message": ...}}``: 400 refused, 401 no token, 403
insufficient role, 404 unknown, 408 too slow, 409 wrong state, 413 too large, 507 a result that the
coordinator cannot store. Under ``/v1``, which has the format of Flink's REST API, it is
``{"errors": [message]}`` with the same statuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from flinknet.cluster.control.credentials import Role
from flinknet.cluster.control.http_server import check_role
from flinknet.cluster.coordinator.jobs.result_store import ResultNotStoredError
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

_BRING_CODE = frozenset({("POST", "/api/v1/jobs")})
"""Routes that take code to run."""

_OVERHEAD_BYTES = 1024 * 1024
"""Allowance of an upload beyond collected records or job graph: counters, metrics, shape."""


class Served(Readiness, Jobs, Savepoints, Attempts, Sampling, Outspoken, Protocol):
    """The coordinator as all routes together use it."""


def control_plane(coordinator: Served, token: str) -> web.Application:
    """Return the application with all routes, bound to one coordinator and its token."""
    public = PublicRoutes(coordinator).routes() + PageFiles().routes()
    names = NameRoutes(coordinator.config)
    guarded = [
        *ClientRoutes(coordinator).routes(),
        *DiagnosisRoutes(coordinator).routes(),
        *ClusterRoutes(coordinator).routes(),
        *ProcessRoutes(coordinator).routes(),
        *JobRoutes(coordinator).routes(),
        *VertexRoutes(coordinator).routes(),
        *CheckpointRoutes(coordinator).routes(),
        *SavepointRoutes(coordinator).routes(),
        *PageRoutes(coordinator).routes(),
        *MetricsRoutes(coordinator).routes(),
        *names.routes(),
    ]
    workers = WorkerRoutes(coordinator).routes()
    roles: dict[Any, Role | None] = dict.fromkeys((route.handler for route in public), None)
    roles |= {route.handler: _role_for(route) for route in guarded}
    roles |= dict.fromkeys((route.handler for route in workers), Role.WORKER)
    largest = max(coordinator.config.job_bytes_max, coordinator.config.collect_bytes_max)
    application = web.Application(
        # The first middleware is the outermost, so it also formats the refusals of the second.
        middlewares=[_errors_as_json, _with_token(token, roles)],
        client_max_size=largest + _OVERHEAD_BYTES,
    )
    application.add_routes([*public, *guarded, *workers])
    application.on_shutdown.append(names.close)
    return application


def _role_for(route: web.RouteDef) -> Role:
    if route.method == "GET":
        return Role.READ
    return Role.SUBMIT if (route.method, route.path) in _BRING_CODE else Role.OPERATE


def _with_token(token: str, roles: Mapping[Any, Role | None]) -> Middleware:
    """Return a middleware that requires the token of a role sufficient for the handler."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        # Requests without a route (404, 405) are not in ``roles``. They need a token as well.
        needed = roles.get(request.match_info.handler, Role.READ)
        if needed is not None:
            check_role(request.headers, token, needed)
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
        error = FlinknetError("the body cannot be decoded as its headers say")
        return _error_response(request, 400, error)
    except (ConfigurationError, CheckpointError, RemoteProtocolError) as error:
        return _error_response(request, 400, error)
    except ResultNotStoredError as error:
        return _error_response(request, 507, error)
    except JobError as error:
        return _error_response(request, 413, error)


def _error_response(request: web.Request, status: int, error: FlinknetError) -> web.Response:
    message = text_of(error)
    if request.path.startswith("/v1/"):
        return web.json_response({"errors": [message]}, status=status)
    body = {"error": {"type": type(error).__name__, "message": message}}
    return web.json_response(body, status=status)
