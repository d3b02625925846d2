"""Channel buffers: what a remote input channel has free for the frames that arrive.

With credit they are a ``BufferManager``, without it ``SharedBuffers``.
"""

from __future__ import annotations

from typing import NamedTuple

from flinknet.buffer.buffer import BufferRecycler
from flinknet.buffer.segment import MemorySegment

__all__ = ["BufferManagerStatistics", "ChannelBuffers"]


class BufferManagerStatistics(NamedTuple):
    """Free buffers and the requirement of one channel."""

    exclusive_total: int
    exclusive_free: int
    floating_free: int
    required: int
    waiting: bool


class ChannelBuffers:
    """Free buffers of one channel: the base of both kinds."""

    __slots__ = ("exclusive_total", "required", "waiting")

    def __init__(self) -> None:
        self.exclusive_total = 0
        self.required = 0
        self.waiting = False

    def available(self) -> int:
        """Free buffers."""
        raise NotImplementedError

    def add_exclusive(self, segments: list[MemorySegment]) -> None:
        """Own these segments; done once, before the partition is requested."""
        raise NotImplementedError

    def take(self) -> tuple[MemorySegment, BufferRecycler] | None:
        """Take a free buffer with its recycler for an arriving frame, None if there is none."""
        raise NotImplementedError

    def require(self, number: int) -> None:
        """The producer's backlog asks for so many buffers."""
        raise NotImplementedError

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        """The pool offers a buffer; see BufferListener."""
        raise NotImplementedError

    def notify_buffer_destroyed(self) -> None:
        """The pool is gone; nothing will come."""
        self.waiting = False

    def release_floating(self) -> None:
        """Give back what belongs to the gate's pool."""
        raise NotImplementedError

    def release(self) -> None:
        """Give everything back; idempotent."""
        raise NotImplementedError

    def statistics(self) -> BufferManagerStatistics:
        """Count free buffers, and what the backlog requires."""
        raise NotImplementedError

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        raise NotImplementedError
