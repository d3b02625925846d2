"""Shared buffers: a remote input channel's memory when there is no credit.

Theory of operation (Flink before 1.5, and its ``credit-model: false``). A channel has no buffers of
its own: for each frame that arrives it takes one from its gate's pool. If the pool is empty it
waits for one, first come, first served, and as the frame stands in the way of everything behind it,
the connection reads nothing more until the buffer is there. ``on_available`` tells the channel.

Invariant: at most one buffer is kept, between its coming and the frame that waits for it.
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
        """Buffers kept for a frame that waits."""
        return int(self._kept is not None)

    def add_exclusive(self, segments: list[MemorySegment]) -> None:
        """There are none to own."""
        assert not segments, "without credit a channel has no buffers of its own"

    def take(self) -> tuple[MemorySegment, LocalBufferPool] | None:
        """Take a buffer with its recycler; None if there is none, and ``on_available`` follows."""
        segment, self._kept = self._kept, None
        if segment is None and not self.waiting:
            segment = self._pool.request()
            if segment is None:
                self.waiting = self._pool.add_listener(self)
        return None if segment is None else (segment, self._pool)

    def require(self, number: int) -> None:
        """A backlog asks for nothing: there is no credit to give."""

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        """The pool offers the buffer that a frame waits for."""
        self.waiting = False
        if self._released:
            return False
        self._kept = segment
        self._on_available(1)
        return True

    def release_floating(self) -> None:
        """Nothing is held that a blocked channel could give back."""

    def release(self) -> None:
        """Stop waiting and give back what is kept; idempotent."""
        if self._released:
            return
        self._released = True
        self._pool.remove_listener(self)
        self.waiting = False
        segment, self._kept = self._kept, None
        if segment is not None:
            self._pool.recycle(segment)

    def statistics(self) -> BufferManagerStatistics:
        """Count free buffers; all of them are floating ones."""
        return BufferManagerStatistics(
            exclusive_total=0,
            exclusive_free=0,
            floating_free=self.available(),
            required=0,
            waiting=self.waiting,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        assert not (self._kept and self.waiting), "a channel waits for a buffer that it has"
        assert not (self._released and self._kept), "a released channel holds a buffer"
