"""The writer rendezvous: for how long a writer waits for readers that have never come.

Theory of operation. Producer and consumer start in any order, so a partition may be written before
anybody asks for it. A writer that goes on, because there is room, waits for nobody. Once it does
wait (for memory, or at its end for the consumers to have processed everything) while a subpartition
has not had a reader, two timers run until that wait is over: one line in the log says who waits for
whom, and at the deadline the partition's readers are given up, which the writer raises. A wait
while every subpartition has, or has had, its reader costs nothing here and has no deadline: that is
backpressure. With a ``heartbeat_timeout_ms`` of 0, which never gives a silent peer up, there is no
deadline either: the consumer's worker may be held up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial

from flinknet.buffer.availability import Availability, Wait, WaitReason
from flinknet.config import NetworkConfig
from flinknet.net.patience import PatientTimer
from flinknet.partition.result_partition import ResultPartition

__all__ = ["WriterRendezvous"]

log = logging.getLogger("flinknet.rendezvous")


class WriterRendezvous:
    """Bounds the waits of an environment's writers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: NetworkConfig) -> None:
        self._loop = loop
        gives_up = config.heartbeat_timeout_ms > 0
        self._timeout_s = config.rendezvous_timeout_ms / 1000 if gives_up else 0.0
        self._notice_s = config.rendezvous_notice_ms / 1000
        self._told: set[ResultPartition] = set()

    def bounded(self, partition: ResultPartition, wait: Wait) -> Wait:
        """Make the wait of a partition's writer, which gives missing readers up in the end."""

        def bounded_wait(availability: Availability, reason: WaitReason) -> Awaitable[None]:
            if partition.readers_missing:
                return self._wait_for_readers(partition, wait(availability, reason))
            return wait(availability, reason)

        return bounded_wait

    async def _wait_for_readers(self, partition: ResultPartition, waiting: Awaitable[None]) -> None:
        timers: list[asyncio.TimerHandle | PatientTimer] = []
        if self._notice_s:
            timers.append(self._loop.call_later(self._notice_s, self._tell, partition))
        if self._timeout_s:
            give_up = partial(partition.give_up_readers, self._timeout_s)
            timers.append(PatientTimer(self._loop, self._loop.time() + self._timeout_s, give_up))
        try:
            await waiting
        finally:
            for timer in timers:
                timer.cancel()

    def _tell(self, partition: ResultPartition) -> None:
        """Say it once for each partition, however often its writer waits."""
        if partition.readers_missing == 0 or partition.released or partition in self._told:
            return
        self._told.add(partition)
        partition.when_released(self._told.discard)
        log.warning(
            "the writer of partition %s waits for its consumer: nobody has asked for %s for %g s",
            partition.partition_id,
            partition.describe_unread(),
            self._notice_s,
        )
