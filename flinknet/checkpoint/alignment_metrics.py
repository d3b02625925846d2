"""How the barriers of a checkpoint met in a subtask: its metrics of alignment, by Flink's terms.

Theory of operation. An account is *begun* when a subtask first hears of a checkpoint, by a barrier
or an announcement, and *ended* when it has had the barrier of every channel. The alignment lasts
from the first barrier to the last one, whatever was announced before; the end of a partition counts
as a barrier. An account that is dropped leaves nothing behind.

Owned counter: the bytes of data in flight that the checkpoint stores (``persisted_bytes``). Those
that were processed in the meantime are the difference of what the reader has counted.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AlignmentAccount", "AlignmentMetrics"]


class AlignmentMetrics(NamedTuple):
    """What a subtask reports of the barriers of one checkpoint."""

    start_delay_ms: int = 0
    """From the barrier's creation until the subtask first heard of it."""
    alignment_ms: int = 0
    """From the first channel's barrier to the last one's."""
    processed_bytes: int = 0
    """Data polled in that time (Flink's bytesProcessedDuringAlignment)."""
    persisted_bytes: int = 0
    """Data in flight that is part of the checkpoint (Flink's bytesPersistedDuringAlignment)."""


class AlignmentAccount:
    """The metrics of one checkpoint in the making. All times are milliseconds since 1970."""

    __slots__ = ("_bytes_in", "_first_barrier_ms", "_start_delay_ms", "persisted_bytes")

    def __init__(self, created_ms: int, now_ms: int) -> None:
        self._start_delay_ms = max(0, now_ms - created_ms)
        self._first_barrier_ms: int | None = None
        self._bytes_in = 0
        self.persisted_bytes = 0

    def barrier(self, now_ms: int, bytes_in: int) -> None:
        """A channel has had its barrier, or has ended; so many bytes were read until now."""
        if self._first_barrier_ms is None:
            self._first_barrier_ms = now_ms
            self._bytes_in = bytes_in

    def ended(self, now_ms: int, bytes_in: int) -> AlignmentMetrics:
        """The last barrier has come."""
        first_ms = self._first_barrier_ms
        if first_ms is None:
            return AlignmentMetrics(start_delay_ms=self._start_delay_ms)
        return AlignmentMetrics(
            start_delay_ms=self._start_delay_ms,
            alignment_ms=max(0, now_ms - first_ms),
            processed_bytes=bytes_in - self._bytes_in,
            persisted_bytes=self.persisted_bytes,
        )
