"""Routes without access control; they reveal neither jobs nor addresses.

::

    GET  /livez                      200 while the event loop runs
    GET  /readyz                     200 once the expected workers have registered, else 503

Every route here is open without the cluster token (``application.py``).
"""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from flinknet.config import ClusterConfig

__all__ = ["PublicRoutes", "Readiness"]


class Readiness(Protocol):
    """The coordinator as these routes use it."""

    config: ClusterConfig

    def registered_workers(self) -> int: ...


class PublicRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Readiness) -> None:
        self._coordinator = coordinator

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [web.get("/livez", self._livez), web.get("/readyz", self._readyz)]

    async def _livez(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        registered = self._coordinator.registered_workers()
        expected = self._coordinator.config.workers
        return web.json_response(
            {"workers": registered, "expected": expected},
            status=200 if registered >= expected else 503,
        )
