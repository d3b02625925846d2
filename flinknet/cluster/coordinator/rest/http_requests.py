"""Helpers for requests of clients and workers: the job in the path, parameters and the body."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web

from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.errors import ConfigurationError
from flinknet.net.stall_tolerant_timer import stall_tolerant_timeout
from flinknet.texts import printable

__all__ = ["WAIT_MS_MAX", "chosen", "named_job", "read_body", "whole_number"]

WAIT_MS_MAX = 60_000
"""Longest time for which a request may wait for its answer, in milliseconds."""


def named_job(request: web.Request, dispatcher: Dispatcher) -> JobRecord:
    """Return the job that the path names; 404 if it is unknown or forgotten."""
    record = dispatcher.job(request.match_info["job"])
    if record is None:
        raise web.HTTPNotFound(text=printable(f"no job {request.match_info['job']}"))
    return record


async def read_body(
    request: web.Request, timeout_ms: float, unless: Callable[[], bool] = lambda: False
) -> bytes:
    """Return the whole body; 408 if it takes longer than ``timeout_ms``.

    Counts only time in which this process was able to read it, and no time in which ``unless`` is
    true.
    """
    try:
        async with stall_tolerant_timeout(timeout_ms / 1000, unless):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(
            text=f"the body did not arrive within {timeout_ms:.0f} ms "
            "(cluster.http_request_timeout_ms)"
        ) from None


def chosen(request: web.Request, name: str, choices: Sequence[str], otherwise: str) -> str:
    """Return a query parameter that is one of ``choices``, or ``otherwise`` without it."""
    text = request.query.get(name, otherwise)
    if text not in choices:
        raise ConfigurationError(f"{name} is {text[:20]!r}: choose {', '.join(choices)}")
    return text


def whole_number(request: web.Request, name: str) -> int:
    """Return a query parameter that is a whole number, or 0 without it."""
    text = request.query.get(name, "0")
    if not text.isdecimal() or len(text) > 9:
        raise ConfigurationError(f"{name} is {text[:20]!r}: write a whole number")
    return int(text)
