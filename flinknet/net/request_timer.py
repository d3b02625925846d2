"""The request timer: when partition requests that wait in a worker's registry are given up.

One timer serves all requests, local and of peers, and runs only while one waits.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle

from flinknet.partition.registry import PartitionRegistry

__all__ = ["RequestTimer"]


class RequestTimer:
    """Calls ``PartitionRegistry.expire`` at its next deadline, if one waits."""

    def __init__(self, loop: AbstractEventLoop, registry: PartitionRegistry) -> None:
        self._loop = loop
        self._registry = registry
        self._timer: TimerHandle | None = None
        registry.on_waiting = self._arm

    def _arm(self) -> None:
        if self._timer is not None:
            return
        deadline = self._registry.next_deadline()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._registry.expire(self._loop.time())
        self._arm()

    def cancel(self) -> None:
        """Stop, whatever waits; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
