"""How a reader finds the writers of a partition by its name alone.

Theory of operation. Who produces a partition says so, under the name of its job, somewhere that
readers know, too: in a directory of this machine (``partition_directory.py``), or at a coordinator
(``coordinator_names.py``). It says so as long as it produces, and what a process says ends with the
process, however that ends. A reader says how many writers it expects, and waits for them. Both
places tell addresses, not secrets: who may take part, the handshake finds out.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from math import inf

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError, PartitionRequestTimeoutError

__all__ = ["PartitionNames"]

log = logging.getLogger("flinknet.rendezvous")

_LOOK_S = 30.0
"""For which one look may wait; the next one follows it."""


class PartitionNames:
    """The partitions of one job that are known at ``place``, which stands in messages."""

    def __init__(self, job: str, place: str) -> None:
        self._job = job
        self._place = place

    def published(
        self, name: str, worker_id: str, address: str
    ) -> AbstractAsyncContextManager[None]:
        """Say that a worker produces a partition, as long as the block takes.

        Raises ConfigurationError if that cannot be said there, RemoteTransportError if the place is
        not there.
        """
        raise NotImplementedError

    async def look(self, name: str, producers: int, wait_s: float) -> list[str]:
        """Where the partition is produced, in the order of the workers' ids: when that is at
        ``producers`` places, or after ``wait_s``. Raises as ``published``."""
        raise NotImplementedError

    async def find(self, name: str, producers: int, config: NetworkConfig) -> list[str]:
        """Wait until that many workers produce the partition, and return their addresses.

        Raises PartitionRequestTimeoutError after ``rendezvous_timeout_ms``, ConfigurationError
        if there are more of them than that, and as ``published``.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + config.rendezvous_timeout_ms / 1000 if config.rendezvous_timeout_ms else inf
        notice = began + config.rendezvous_notice_ms / 1000 if config.rendezvous_notice_ms else inf
        found = await self.look(name, producers, 0.0)
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
            found = await self.look(name, producers, min(notice - now, until - now, _LOOK_S))
        if len(found) > producers:
            raise ConfigurationError(
                f'{len(found)} writers of "{name}" are in {self._place}: read them all with '
                f"producers={len(found)}, or give those that are not meant another name or job"
            )
        return found
