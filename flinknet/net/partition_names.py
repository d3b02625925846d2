"""How a reader finds the writers of a partition by its name alone.

Theory of operation. Who produces a partition says so, under the name of its job, somewhere that
readers know, too: in a directory of this machine (``partition_directory.py``), or at a coordinator
(``coordinator_names.py``). It says so as long as it produces, and what a process says ends with the
process, however that ends. A reader says how many writers it expects, and waits for them. Both
places tell addresses, not secrets: who may take part, the handshake finds out.

A writer that fails before its reader has come is gone, with its socket, when that reader looks for
it. So it leaves its error at that place (``FailedProducer``), once for each subpartition without a
reader so far, and the reader of that hears it at once. A reader that finds all its writers takes
away what earlier ones have left for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import NamedTuple

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError, KeptError, PartitionRequestTimeoutError

__all__ = ["FailedProducer", "PartitionNames"]

log = logging.getLogger("flinknet.rendezvous")

_LOOK_S = 30.0
"""For which one look may wait; the next one follows it."""


class FailedProducer(NamedTuple):
    """With what a producer has failed, and the subpartitions whose readers have not heard that;
    None if any reader may come."""

    failure: KeptError
    unread: Collection[int] | None

    def as_json(self) -> dict[str, object]:
        """Return what places keep of it: code, text and subpartitions."""
        unread = None if self.unread is None else sorted(self.unread)
        return {"code": self.failure.kind.code, "text": self.failure.text, "unread": unread}


class PartitionNames:
    """The partitions of one job that are known at ``place``, which stands in messages."""

    def __init__(self, job: str, place: str) -> None:
        self._job = job
        self._place = place

    def published(
        self,
        name: str,
        worker_id: str,
        address: str,
        failure: Callable[[], FailedProducer | None] = lambda: None,
    ) -> AbstractAsyncContextManager[None]:
        """Say that a worker produces a partition, as long as the block takes, and leave what
        ``failure`` returns at its end.

        Raises ConfigurationError if that cannot be said there, RemoteTransportError if the place is
        not there.
        """
        raise NotImplementedError

    async def look(
        self, name: str, producers: int, wait_s: float, subpartition: int = 0
    ) -> list[str]:
        """Where the partition is produced, in the order of the workers' ids: when that is at
        ``producers`` places, or after ``wait_s``.

        Raises the error that a producer has left for the reader of ``subpartition``, if there are
        fewer, and as ``published``.
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
