"""Summary of a result partition: its pool, sums over its subpartitions, and the longest queues.

The subpartitions of a wide partition are read over several iterations of the event loop, each at
one moment. The sums therefore cover a period. The pool is read after them, and may hold fewer
buffers than were counted as queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from operator import add, attrgetter
from typing import NamedTuple

from flinknet.buffer.local_pool import LocalBufferPoolStatistics
from flinknet.metrics.turns import Reading, Turns
from flinknet.partition.result_partition import ResultPartition
from flinknet.partition.subpartition import SubpartitionStatistics

__all__ = ["PartitionTotals", "QueueRow", "SubpartitionSums", "longest_queues"]


class QueueRow(NamedTuple):
    """Queue length of one subpartition."""

    subpartition: int
    queued_buffers: int


LONGEST_QUEUES = 8
"""Maximum number of subpartitions listed; they include the one that a writer waits for."""


class SubpartitionSums(NamedTuple):
    """Sums over subpartitions: buffers that they hold and have sent."""

    subpartitions: int = 0
    queued_buffers: int = 0
    queued_bytes: int = 0
    blocked: int = 0
    buffers_out: int = 0
    bytes_out: int = 0

    @classmethod
    def of(cls, parts: Sequence[SubpartitionStatistics]) -> SubpartitionSums:
        """Return the sums over these subpartitions."""
        return cls(
            subpartitions=len(parts),
            queued_buffers=sum([part.queued_buffers for part in parts]),
            queued_bytes=sum([part.queued_bytes for part in parts]),
            blocked=sum([part.blocked for part in parts]),
            buffers_out=sum([part.buffers_out for part in parts]),
            bytes_out=sum([part.bytes_out for part in parts]),
        )

    def plus(self, other: SubpartitionSums) -> SubpartitionSums:
        """Return the element-wise sum."""
        return SubpartitionSums(*map(add, self, other))


class PartitionTotals(NamedTuple):
    """A result partition: its pool, sums over its subpartitions, and the longest queues."""

    partition_id: str
    subpartitions: int
    finished: bool
    queued_buffers: int
    queued_bytes: int
    blocked: int
    """Subpartitions that wait for their consumer to resume them."""
    buffers_out: int
    bytes_out: int
    pool: LocalBufferPoolStatistics
    longest_queues: tuple[QueueRow, ...] = ()
    """At most ``LONGEST_QUEUES`` non-empty queues, the longest first."""

    @classmethod
    def of(
        cls,
        partition_id: str,
        finished: bool,
        pool: LocalBufferPoolStatistics,
        sums: SubpartitionSums,
        queues: Iterable[QueueRow],
    ) -> PartitionTotals:
        """Return the totals of a partition from its parts."""
        return cls(
            partition_id=partition_id,
            subpartitions=sums.subpartitions,
            finished=finished,
            queued_buffers=sums.queued_buffers,
            queued_bytes=sums.queued_bytes,
            blocked=sums.blocked,
            buffers_out=sums.buffers_out,
            bytes_out=sums.bytes_out,
            pool=pool,
            longest_queues=tuple(queues),
        )

    @classmethod
    def reading(cls, partition: ResultPartition, turns: Turns) -> Reading[PartitionTotals]:
        """Read a partition in parts."""
        sums = SubpartitionSums()
        queues: list[QueueRow] = []
        for part in turns.parts(partition.subpartitions):
            subpartitions = [subpartition.statistics() for subpartition in part]
            sums = sums.plus(SubpartitionSums.of(subpartitions))
            queues = longest_queues(queues, subpartitions)
            yield
        return cls.of(
            partition.partition_id, partition.finished, partition.pool_statistics(), sums, queues
        )


def longest_queues(
    longest: Iterable[QueueRow], parts: Iterable[SubpartitionStatistics]
) -> list[QueueRow]:
    """Return the longest queues among ``longest`` and ``parts``."""
    queues = [QueueRow(part.subpartition, part.queued_buffers) for part in parts]
    filled = [queue for queue in queues if queue.queued_buffers]
    return nlargest(LONGEST_QUEUES, [*longest, *filled], key=attrgetter("queued_buffers"))
