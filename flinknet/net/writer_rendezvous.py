"""The writer rendezvous: limits the time that a writer waits for readers that have never come.

Producer and consumer start in any order, so a partition may be written before it has readers. A
writer with free buffers does not wait for them. A writer that waits (for memory, or at its end for
the acknowledgements) while a subpartition has not had a reader runs two timers. The first writes
one log line that names the partition and its missing readers. The second is the deadline: the
partition gives up its readers, and the writer raises. A wait after every subpartition has had a
reader has no deadline and no cost here: it is backpressure.

With a ``heartbeat_timeout_ms`` of 0, which never gives up a silent peer, there is no deadline
either, because the consumer's worker may be held up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial

from flinknet.buffer.availability import Availability, Wait, WaitReason
from flinknet.config import NetworkConfig
from flinknet.net.stall_tolerant_timer import StallTolerantTimer
from flinknet.partition.result_partition import ResultPartition

__all__ = ["WriterRendezvous"]

log = logging.getLogger("flinknet.rendezvous")


class WriterRendezvous:
    """Limits the waits of an environment's writers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: NetworkConfig) -> None:
        self._loop = loop
        gives_up = config.heartbeat_timeout_ms > 0
        self._timeout_s = config.rendezvous_timeout_ms / 1000 if gives_up else 0.0
        self._notice_s = config.rendezvous_notice_ms / 1000
        self._logged: set[ResultPartition] = set()

    def bounded(self, partition: ResultPartition, wait: Wait) -> Wait:
        """Return the wait of a partition's writer; it gives up missing readers at the deadline."""

        def bounded_wait(availability: Availability, reason: WaitReason) -> Awaitable[None]:
            if partition.readers_missing:
                return self._wait_for_readers(partition, wait(availability, reason))
            return wait(availability, reason)

        return bounded_wait

    async def _wait_for_readers(self, partition: ResultPartition, waiting: Awaitable[None]) -> None:
        timers: list[asyncio.TimerHandle | StallTolerantTimer] = []
        if self._notice_s:
            timers.append(self._loop.call_later(self._notice_s, self._log_waiting, partition))
        if self._timeout_s:
            give_up = partial(partition.give_up_readers, self._timeout_s)
            timers.append(
                StallTolerantTimer(self._loop, self._loop.time() + self._timeout_s, give_up)
            )
        try:
            await waiting
        finally:
            for timer in timers:
                timer.cancel()

    def _log_waiting(self, partition: ResultPartition) -> None:
        """Log once for each partition, however often its writer waits."""
        if partition.readers_missing == 0 or partition.released or partition in self._logged:
            return
        self._logged.add(partition)
        partition.when_released(self._logged.discard)
        log.warning(
            "the writer of partition %s waits for its consumer: %s was not requested for %g s",
            partition.partition_id,
            partition.describe_unread(),
            self._notice_s,
        )
