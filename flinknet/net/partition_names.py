"""Names of partitions, by which readers find the writers.

The producer of a partition publishes its address, under its job's name, at a place known to
readers: a directory of this machine (``partition_directory.py``) or a coordinator
(``coordinator_names.py``). The address stays there while the partition is produced, and goes with
the process, however that ends. A reader gives the expected number of writers and waits for them.
Both places hold addresses and no secrets, because the handshake decides which peers may take part.

A writer that fails before its reader comes is gone, with its socket, when the reader looks for it.
The writer therefore leaves its error at the place (``FailedProducer``), once for each subpartition
without a reader so far. The reader of that subpartition gets the error immediately. A reader that
finds all its writers removes the errors that earlier writers have left for it.
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
"""Maximum time in seconds of one look; the next one follows it."""


class FailedProducer(NamedTuple):
    """Error of a producer, for readers that have not received it yet."""

    failure: KeptError
    unread: Collection[int] | None
    """Subpartitions of these readers; None for any reader."""

    def as_json(self) -> dict[str, object]:
        """Return the fields kept at the place: code, text and subpartitions."""
        unread = None if self.unread is None else sorted(self.unread)
        return {"code": self.failure.kind.code, "text": self.failure.text, "unread": unread}


Withdraw: TypeAlias = Callable[[FailedProducer | None], Awaitable[None]]
"""Withdraws an address, and leaves its producer's error if there is one."""


class PartitionNames:
    """Published partitions of one job; messages use ``place`` as the name of their place."""

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
        """Publish a worker's address as a producer for the duration of the block.

        ``failure`` is called at the end of the block, and its error is left at the place.

        Raises:
            ConfigurationError: If the place does not accept the address.
            RemoteTransportError: If the place cannot be reached.
        """
        withdraw = await self._publish(name, worker_id, address)
        try:
            yield
        finally:
            await withdraw(failure())

    async def _publish(self, name: str, worker_id: str, address: str) -> Withdraw:
        """Publish an address, and return the function that withdraws it; see ``published``."""
        raise NotImplementedError

    async def look_up(
        self, name: str, producers: int, wait_s: float, subpartition: int = 0
    ) -> list[str]:
        """Return the producers' addresses, ordered by worker id.

        Returns when there are ``producers`` of them, or after ``wait_s``. If there are fewer,
        raises the error that a producer has left for the reader of ``subpartition``. Also raises
        the errors of ``published``.
        """
        raise NotImplementedError

    async def find(
        self, name: str, producers: int, config: NetworkConfig, subpartition: int = 0
    ) -> list[str]:
        """Wait until ``producers`` workers produce the partition, and return their addresses.

        Raises:
            PartitionRequestTimeoutError: After ``rendezvous_timeout_ms``.
            ConfigurationError: If there are more producers than that.

        Also raises the errors of ``look``.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + config.rendezvous_timeout_ms / 1000 if config.rendezvous_timeout_ms else inf
        notice = began + config.rendezvous_notice_ms / 1000 if config.rendezvous_notice_ms else inf
        found = await self.look_up(name, producers, 0.0, subpartition)
        while len(found) < producers:
            now = loop.time()
            if now >= notice:
                notice = inf
                log.warning(
                    'waiting for %d writers of "%s" in %s, which has %d',
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
            found = await self.look_up(name, producers, wait_s, subpartition)
        if len(found) > producers:
            raise ConfigurationError(
                f'{len(found)} writers of "{name}" are in {self._place}: read them all with '
                f"producers={len(found)}, or give the other ones another name or job"
            )
        return found
