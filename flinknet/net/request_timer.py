"""The request timer: logs and expires partition requests that wait in a worker's registry.

One timer serves all requests, local and remote, and runs only while one waits.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections.abc import Sequence

from flinknet.net.stall_tolerant_timer import StallTolerantTimer
from flinknet.partition.registry import PartitionRegistry, PartitionRequester

__all__ = ["RequestTimer"]

log = logging.getLogger("flinknet.rendezvous")

_EXPIRED_PER_TURN = 250
"""Requests that expire in one turn of the event loop, which takes about two milliseconds."""

_NAMED_MAX = 3
"""Number of requests and partitions that a log line names."""


class RequestTimer:
    """Serves the registry at its next deadline, if a request waits."""

    def __init__(self, loop: AbstractEventLoop, registry: PartitionRegistry) -> None:
        self._loop = loop
        self._registry = registry
        self._timer: StallTolerantTimer | None = None
        registry.on_waiting = self._arm
        registry.clock = loop.time

    def _arm(self) -> None:
        if self._timer is not None:
            return
        deadline = self._registry.next_deadline()
        if deadline is not None:
            # Requests left over from the last turn are past their deadline, but the loop was not
            # held up, as a ``StallTolerantTimer`` would conclude.
            when = max(deadline, self._loop.time())
            self._timer = StallTolerantTimer(self._loop, when, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._log_waiting(self._registry.take_overdue(now))
        self._registry.expire(now, _EXPIRED_PER_TURN)
        self._arm()

    def _log_waiting(self, overdue: Sequence[PartitionRequester]) -> None:
        if overdue:
            names = [partition.partition_id for partition in self._registry.partitions()]
            log.warning(
                "waiting for a partition that is not registered in this worker: %s; registered: %s",
                _first_of(overdue),
                _first_of(names) or "none",
            )

    def cancel(self) -> None:
        """Stop the timer, even if requests wait; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _first_of(named: Sequence[object]) -> str:
    more = f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
    return ", ".join(map(str, named[:_NAMED_MAX])) + more
