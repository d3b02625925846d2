"""Channel buffers: the free buffers of a remote input channel for arriving frames.

A channel with credit has a ``BufferManager``, and a channel without credit has ``SharedBuffers``.
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
        """Return the number of free buffers."""
        raise NotImplementedError

    def add_exclusive(self, segments: list[MemorySegment]) -> None:
        """Take ownership of these segments; called once, before the partition is requested."""
        raise NotImplementedError

    def take(self) -> tuple[MemorySegment, BufferRecycler] | None:
        """Take a free buffer and its recycler for an arriving frame; None if there is none."""
        raise NotImplementedError

    def require(self, number: int) -> None:
        """Request ``number`` buffers for the producer's backlog."""
        raise NotImplementedError

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        """Take a buffer that the pool offers; see BufferListener."""
        raise NotImplementedError

    def notify_buffer_destroyed(self) -> None:
        """Handle that the pool was destroyed and will offer no buffer."""
        self.waiting = False

    def release_floating(self) -> None:
        """Return the buffers that belong to the gate's pool."""
        raise NotImplementedError

    def release(self) -> None:
        """Return all buffers; idempotent."""
        raise NotImplementedError

    def statistics(self) -> BufferManagerStatistics:
        """Return the number of free buffers and the requirement."""
        raise NotImplementedError

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        raise NotImplementedError
