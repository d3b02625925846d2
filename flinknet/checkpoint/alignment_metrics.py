"""Metrics of the barrier alignment of a checkpoint in one subtask, in Flink's terms.

Theory of operation. An account begins when a subtask first learns of a checkpoint, by a barrier or
an announcement. It ends when every channel has delivered its barrier. The alignment lasts from the
first barrier to the last one, regardless of announcements; the end of a partition counts as a
barrier. The account counts the stored bytes in flight (``persisted_bytes``). The processed bytes
are the difference between two counts of the reader.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AlignmentAccount", "AlignmentMetrics"]


class AlignmentMetrics(NamedTuple):
    """A subtask's report on the barriers of one checkpoint."""

    start_delay_ms: int = 0
    """From the creation of the barrier until the subtask first learned of it."""
    alignment_ms: int = 0
    """From the first barrier of any channel to the last."""
    processed_bytes: int = 0
    """Data polled during the alignment (Flink's bytesProcessedDuringAlignment)."""
    persisted_bytes: int = 0
    """Data in flight that is part of the checkpoint (Flink's bytesPersistedDuringAlignment)."""


class AlignmentAccount:
    """The metrics of one pending checkpoint. All times are milliseconds since 1970."""

    __slots__ = ("_bytes_in", "_first_barrier_ms", "_start_delay_ms", "persisted_bytes")

    def __init__(self, created_ms: int, now_ms: int) -> None:
        # Both times are of the coordinator's clock, which each machine knows approximately.
        self._start_delay_ms = max(0, now_ms - created_ms)
        self._first_barrier_ms: int | None = None
        self._bytes_in = 0
        self.persisted_bytes = 0

    def barrier(self, now_ms: int, bytes_in: int) -> None:
        """Count the barrier or the end of a channel; ``bytes_in`` is the reader's count."""
        if self._first_barrier_ms is None:
            self._first_barrier_ms = now_ms
            self._bytes_in = bytes_in

    def ended(self, now_ms: int, bytes_in: int) -> AlignmentMetrics:
        """Return the metrics after the last barrier."""
        first_ms = self._first_barrier_ms
        if first_ms is None:
            return AlignmentMetrics(start_delay_ms=self._start_delay_ms)
        return AlignmentMetrics(
            start_delay_ms=self._start_delay_ms,
            alignment_ms=max(0, now_ms - first_ms),
            processed_bytes=bytes_in - self._bytes_in,
            persisted_bytes=self.persisted_bytes,
        )
