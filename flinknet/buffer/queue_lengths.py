"""Summary of the queue lengths of a gate or a partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

__all__ = ["QueueLengths"]


class QueueLengths(NamedTuple):
    """Buffers queued over all channels of a gate or all subpartitions of a partition.

    These are Flink's totalQueueLen, minQueueLen, maxQueueLen and avgQueueLen.
    """

    total: int
    minimum: int
    maximum: int
    average: float

    @classmethod
    def of(cls, lengths: Sequence[int]) -> Self:
        """Summarise the lengths of at least one queue."""
        total = sum(lengths)
        return cls(total, min(lengths), max(lengths), total / len(lengths))
