"""Shared buffers: the memory of a remote input channel without credit.

This is the mode of Flink before 1.5, and of its ``credit-model: false``. A channel has no buffers
of its own and takes one from its gate's pool for each arriving frame. If the pool is empty, the
channel waits for a buffer in order. The frame blocks everything behind it, so the connection reads
nothing more until the buffer comes. ``on_available`` tells the channel.

Invariant: at most one buffer is kept, from its arrival until the waiting frame takes it.
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.buffer.local_pool import LocalBufferPool
from flinknet.buffer.segment import MemorySegment
from flinknet.consumer.channel_buffers import BufferManagerStatistics, ChannelBuffers

__all__ = ["SharedBuffers"]


class SharedBuffers(ChannelBuffers):
    """Buffers of one channel, taken from its gate's pool one frame at a time."""

    __slots__ = ("_kept", "_on_available", "_pool", "_released")

    def __init__(self, pool: LocalBufferPool, on_available: Callable[[int], None]) -> None:
        super().__init__()
        self._pool = pool
        self._on_available = on_available
        self._kept: MemorySegment | None = None
        self._released = False

    def available(self) -> int:
        """Return the number of buffers kept for a waiting frame, 0 or 1."""
        return int(self._kept is not None)

    def add_exclusive(self, segments: list[MemorySegment]) -> None:
        """Check that there are no exclusive segments."""
        assert not segments, "without credit a channel has no buffers of its own"

    def take(self) -> tuple[MemorySegment, LocalBufferPool] | None:
        """Take a buffer and its recycler; if it is None, ``on_available`` is called later."""
        segment, self._kept = self._kept, None
        if segment is None and not self.waiting:
            segment = self._pool.request()
            if segment is None:
                self.waiting = self._pool.add_listener(self)
        return None if segment is None else (segment, self._pool)

    def require(self, number: int) -> None:
        """Do nothing: without credit, a backlog requires no buffers."""

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        """Keep the pool's buffer for the waiting frame."""
        self.waiting = False
        if self._released:
            return False
        self._kept = segment
        self._on_available(1)
        return True

    def release_floating(self) -> None:
        """Do nothing: a blocked channel holds no buffers that it could return."""

    def release(self) -> None:
        """Stop waiting and return the kept buffer; idempotent."""
        if self._released:
            return
        self._released = True
        self._pool.remove_listener(self)
        self.waiting = False
        segment, self._kept = self._kept, None
        if segment is not None:
            self._pool.recycle(segment)

    def statistics(self) -> BufferManagerStatistics:
        """Return the number of free buffers, which count as floating."""
        return BufferManagerStatistics(
            exclusive_total=0,
            exclusive_free=0,
            floating_free=self.available(),
            required=0,
            waiting=self.waiting,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        assert not (self._kept and self.waiting), "a channel waits although it has a buffer"
        assert not (self._released and self._kept), "a released channel holds a buffer"
