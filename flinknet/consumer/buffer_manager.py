"""The buffer manager: the free buffers of a remote input channel, and thus its credit.

This is Flink's BufferManager. A channel has its own *exclusive* buffers, and *floating* ones
borrowed from its gate's pool. Every free buffer here has been, or will soon be, announced to the
producer as one credit. A data frame takes a free buffer, floating buffers first. The operator's
recycle returns it.

The producer's backlog sets the *requirement*: backlog + exclusive. While fewer buffers are
available, the manager requests floating buffers from the pool. If the pool has none, the manager
queues one listener and *waits*; a new backlog then only changes the requirement. A backlog beyond
the quota for ordinary records widens the pool. If a recycled exclusive buffer exceeds the
requirement, a floating buffer returns to the pool for other channels, and no credit is added.

Counters: ``required``, the two free lists, ``waiting``. Invariants: at most ``exclusive_total``
exclusive buffers are free; a released manager has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flinknet.buffer.local_pool import LocalBufferPool
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.segment import MemorySegment
from flinknet.config import FlowControl
from flinknet.consumer.channel_buffers import BufferManagerStatistics, ChannelBuffers

__all__ = ["BufferManager", "GateBuffers", "gate_buffers"]


class GateBuffers(NamedTuple):
    """Numbers of buffers that a gate needs (Flink's GateBuffersSpec)."""

    exclusive_per_channel: int
    floating_min: int
    floating_max: int
    target_total: int


def gate_buffers(
    channels: int,
    per_channel: int,
    floating: int,
    required_max: int | None = None,
    *,
    flow_control: FlowControl = "credit",
) -> GateBuffers:
    """Compute a gate's buffers.

    One floating buffer is required in addition to the exclusive ones, so that a gate cannot
    deadlock. None is required if ``floating`` is 0, which works while each channel has its own
    buffer. If the requirement exceeds ``required_max``, exclusive buffers become floating ones.

    Without credit, all buffers belong to the gate, at least one per channel, as before Flink 1.5.
    """
    target_total = channels * per_channel + floating
    if flow_control == "off":
        least = channels if required_max is None else min(channels, required_max)
        return GateBuffers(0, least, max(least, target_total), max(least, target_total))
    reserve = min(1, floating)
    required = channels * per_channel + reserve
    if required_max is not None:
        required = min(required, required_max)
    exclusive = min(per_channel, (required - reserve) // channels) if channels else 0
    floating_min = required - exclusive * channels
    return GateBuffers(exclusive, floating_min, target_total - exclusive * channels, target_total)


class BufferManager(ChannelBuffers):
    """Free buffers of one channel, and the recycler of its exclusive ones."""

    __slots__ = (
        "_exclusive",
        "_floating",
        "_floating_pool",
        "_network_pool",
        "_on_available",
        "_released",
    )

    def __init__(
        self,
        network_pool: NetworkBufferPool,
        floating_pool: LocalBufferPool,
        on_available: Callable[[int], None],
    ) -> None:
        super().__init__()
        self._network_pool = network_pool
        self._floating_pool = floating_pool
        self._on_available = on_available
        self._exclusive: list[MemorySegment] = []
        self._floating: list[MemorySegment] = []
        self._released = False

    def available(self) -> int:
        """Return the number of free buffers."""
        return len(self._exclusive) + len(self._floating)

    def add_exclusive(self, segments: list[MemorySegment]) -> None:
        """Take ownership of these segments; called once, before the partition is requested."""
        self._exclusive.extend(segments)
        self.exclusive_total = len(self._exclusive)

    def take(self) -> tuple[MemorySegment, BufferManager | LocalBufferPool] | None:
        """Take a free buffer and its recycler for an arriving frame; None if there is none."""
        if self.required:
            self.required -= 1
        # The last buffer returned of either kind may still be in the CPU caches.
        if self._floating:
            return self._floating.pop(), self._floating_pool
        if self._exclusive:
            return self._exclusive.pop(), self
        return None

    def require(self, number: int) -> None:
        """Request floating buffers until ``number`` are available, or wait for them."""
        self.required = number
        self._floating_pool.expect_backlog(number - self.exclusive_total)
        missing = number - len(self._exclusive) - len(self._floating)
        # The listener of a waiting manager follows the new requirement.
        if missing <= 0 or self.waiting or self._released:
            return
        pool = self._floating_pool
        gained = 0
        while gained < missing and not self.waiting:
            segment = pool.request()
            if segment is not None:
                self._floating.append(segment)
                gained += 1
            else:
                self.waiting = pool.add_listener(self)
        if gained:
            self._on_available(gained)

    def recycle(self, segment: MemorySegment) -> None:
        """Take back an exclusive buffer, which adds credit or frees a floating buffer."""
        if self._released:
            self._network_pool.return_exclusive([segment])
            return
        exclusive, floating = self._exclusive, self._floating
        exclusive.append(segment)
        # Beyond the requirement, other channels have more use for a floating buffer.
        if floating and len(exclusive) + len(floating) > self.required:
            self._floating_pool.recycle(floating.pop(0))
        else:
            self._on_available(1)

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        """Take a floating buffer of the pool, unless released or no longer short."""
        self.waiting = False
        if self._released or self.available() >= self.required:
            return False
        self._floating.append(segment)
        if self.available() < self.required and self._floating_pool.add_listener(self):
            self.waiting = True
        self._on_available(1)
        return True

    def release_floating(self) -> None:
        """Return the floating buffers of a blocked channel without exclusive ones."""
        self.required = 0
        while self._floating:
            self._floating_pool.recycle(self._floating.pop(0))

    def release(self) -> None:
        """Return all buffers; those still with the operator return when they are recycled."""
        if self._released:
            return
        self._released = True
        self._floating_pool.remove_listener(self)
        self.waiting = False
        self.release_floating()
        exclusive, self._exclusive = self._exclusive, []
        self._network_pool.return_exclusive(exclusive)

    def statistics(self) -> BufferManagerStatistics:
        """Return the number of free buffers and the requirement."""
        return BufferManagerStatistics(
            exclusive_total=self.exclusive_total,
            exclusive_free=len(self._exclusive),
            floating_free=len(self._floating),
            required=self.required,
            waiting=self.waiting,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        assert len(self._exclusive) <= self.exclusive_total, "an exclusive buffer came back twice"
        assert not (self._released and self.available()), "a released channel holds buffers"
        assert self.required >= 0, "the requirement is negative"
