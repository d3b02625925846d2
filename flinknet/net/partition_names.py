"""How a reader finds the writers of a partition by its name alone.

Theory of operation. The producer of a partition publishes its address, under the name of its job,
at a place that readers know, too: in a directory of this machine (``partition_directory.py``), or
at a coordinator (``coordinator_names.py``). The address stays there as long as the partition is
produced, and goes with the process, however that ends. A reader says how many writers it expects,
and waits for them. Both places have addresses and no secrets: the handshake finds out which peers
may take part.

A writer that fails before its reader has come is gone, with its socket, when that reader looks for
it. So the writer leaves its error at that place (``FailedProducer``), once for each subpartition
without a reader so far, and the reader of that subpartition gets the error at once. A reader that
finds all its writers removes the errors that earlier ones have left for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from math import inf
from typing import NamedTuple, TypeAlias

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError, KeptError, PartitionRequestTimeoutError

__all__ = ["FailedProducer", "PartitionNames"]

log = logging.getLogger("flinknet.rendezvous")

_LOOK_S = 30.0
"""For which one look may wait; the next one follows it."""


class FailedProducer(NamedTuple):
    """The error of a producer, for the readers that have not got it yet."""

    failure: KeptError
    unread: Collection[int] | None
    """The subpartitions of these readers; None if any reader may come."""

    def as_json(self) -> dict[str, object]:
        """Return the fields that a place keeps: code, text and subpartitions."""
        unread = None if self.unread is None else sorted(self.unread)
        return {"code": self.failure.kind.code, "text": self.failure.text, "unread": unread}


Withdraw: TypeAlias = Callable[[FailedProducer | None], Awaitable[None]]
"""Takes an address back, and leaves the error of its producer if there is one."""


class PartitionNames:
    """The partitions of one job that are known at ``place``, which stands in messages."""

    def __init__(self, job: str, place: str, config: NetworkConfig | None = None) -> None:
        self._job = job
        self._place = place
        self._config = config if config is not None else NetworkConfig()

    @asynccontextmanager
    async def published(
        self,
        name: str,
        worker_id: str,
        address: str,
        failure: Callable[[], FailedProducer | None] = lambda: None,
    ) -> AsyncIterator[None]:
        """Publish the address of a worker as a producer's, as long as the block takes.

        ``failure`` is called when the block ends, and the error that it returns is left there.

        Raises ConfigurationError if the place does not take the address, RemoteTransportError if
        the place is not there.
        """
        withdraw = await self._publish(name, worker_id, address)
        try:
            yield
        finally:
            await withdraw(failure())

    async def _publish(self, name: str, worker_id: str, address: str) -> Withdraw:
        """Publish an address, and return the function that takes it back; see ``published``."""
        raise NotImplementedError

    async def look(
        self, name: str, producers: int, wait_s: float, subpartition: int = 0
    ) -> list[str]:
        """Return the addresses of the producers, in the order of the workers' ids: when there are
        ``producers`` of them, or after ``wait_s``.

        If there are fewer, raises the error that a producer has left for the reader of
        ``subpartition``; and raises as ``published``.
        """
        raise NotImplementedError

    async def find(
        self, name: str, producers: int, config: NetworkConfig, subpartition: int = 0
    ) -> list[str]:
        """Wait until that many workers produce the partition, and return their addresses.

        Raises PartitionRequestTimeoutError after ``rendezvous_timeout_ms``, ConfigurationError
        if there are more of them than that, and as ``look``.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + config.rendezvous_timeout_ms / 1000 if config.rendezvous_timeout_ms else inf
        notice = began + config.rendezvous_notice_ms / 1000 if config.rendezvous_notice_ms else inf
        found = await self.look(name, producers, 0.0, subpartition)
        while len(found) < producers:
            now = loop.time()
            if now >= notice:
                notice = inf
                log.warning(
                    'waiting for %d writers of "%s" to be in %s, where there are %d',
                    producers,
                    name,
                    self._place,
                    len(found),
                )
            if now >= until:
                raise PartitionRequestTimeoutError(
                    f'{len(found)} of {producers} writers of "{name}" are in {self._place} after '
                    f"{config.rendezvous_timeout_ms:.0f} ms (rendezvous_timeout_ms): start them "
                    f'with this directory and the job "{self._job}"'
                )
            wait_s = min(notice - now, until - now, _LOOK_S)
            found = await self.look(name, producers, wait_s, subpartition)
        if len(found) > producers:
            raise ConfigurationError(
                f'{len(found)} writers of "{name}" are in {self._place}: read them all with '
                f"producers={len(found)}, or give those that are not meant another name or job"
            )
        return found
