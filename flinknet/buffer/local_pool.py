"""The local buffer pool: the network memory of one result partition or one input gate.

This is Flink's LocalBufferPool. A pool holds up to ``size`` *ordinary* segments, and *overdraft*
segments beyond that. An ordinary segment is idle here or handed out. The pool keeps one segment
idle in advance when the network pool has one. ``size`` moves between ``required`` and ``maximum``
as other pools come and go. A pool over its size counts its surplus as overdraft, and returns it as
segments are recycled.

A pool with an idle segment is *unavailable* in two cases. First, a subpartition is at its quota:
the writer waits before it *begins* a record, so one slow consumer cannot take all segments, but a
record in progress is still served. Second, overdraft is in use: a record in progress took more than
the size, and the next record waits until the overdraft is returned.

A buffer of a few *large* records costs as much to hand on as a buffer of a thousand small ones.
With the buffer counts for small records, both ends would mostly wait for each other. A pool that
meets large records therefore *widens*: its maximum grows once and stays. The quota is larger while
any subpartition has large records. Neither adds to the requirement, so nothing changes where memory
is short.

Listeners are a gate's channels that wait for a floating buffer. They are served in order, one
segment each.

Invariants: ``idle <= ordinary <= size``; overdraft only while nothing is idle; ``sum(per
subpartition) <= in use``; available iff a segment is idle, there is no overdraft, and every
subpartition is below its quota.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from flinknet.buffer.availability import Availability
from flinknet.buffer.segment import MemorySegment
from flinknet.errors import BufferPoolDestroyedError, LocalProtocolError

__all__ = [
    "NO_LARGE_RECORDS",
    "UNLIMITED",
    "BufferListener",
    "LargeRecordLimits",
    "LocalBufferPool",
    "LocalBufferPoolStatistics",
    "SegmentProvider",
    "SubpartitionRecycler",
]


UNLIMITED = sys.maxsize
"""Quota of a subpartition without a limit."""


class LargeRecordLimits(NamedTuple):
    """Additional limits of a pool while records are large."""

    buffers_per_subpartition_max: int
    """Quota of each subpartition while any of them has large records; the ordinary quota applies if
    it is higher."""
    extra_buffers: int
    """Number of segments by which the pool's maximum grows when it widens."""


NO_LARGE_RECORDS = LargeRecordLimits(0, 0)
"""Limits of a pool that treats all records alike."""


class LocalBufferPoolStatistics(NamedTuple):
    """Segment counts of one pool."""

    owner: str
    required: int
    maximum: int
    size: int
    idle: int
    in_use: int
    overdraft: int
    available: bool
    listeners: int

    @property
    def usage(self) -> float:
        """Segments in use as a fraction of the size; over 1 while overdraft is in use."""
        return self.in_use / self.size if self.size else 0.0


class BufferListener(Protocol):
    """A channel that waits for a floating buffer (Flink's BufferListener)."""

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        """Take the segment and return True, or refuse it and return False.

        The listener is no longer queued in either case.
        """

    def notify_buffer_destroyed(self) -> None:
        """Handle that the pool was destroyed and will offer no segment."""


class SegmentProvider(Protocol):
    """The network pool, as its local pools see it."""

    total: int
    """Number of all segments."""

    def take_segment(self) -> MemorySegment | None:
        """Return one segment, or None if none can be spared now."""

    def wait_for_segment(self, pool: LocalBufferPool) -> None:
        """Queue the pool for the next free segment."""

    def return_segment(self, segment: MemorySegment) -> None:
        """Take a segment back."""

    def release_local_pool(self, pool: LocalBufferPool) -> None:
        """Unregister a pool that is being destroyed."""

    def redistribute(self) -> None:
        """Set the size of every pool again, after the capacity of one has changed."""


class SubpartitionRecycler:
    """Returns segments to a pool and to one subpartition's quota."""

    __slots__ = ("recycle",)

    recycle: Callable[[MemorySegment], None]
    """Return the segment."""

    def __init__(self, pool: LocalBufferPool, subpartition: int) -> None:
        self.recycle = partial(pool.recycle_from, subpartition)


class LocalBufferPool:
    """Pool of ``required`` to ``maximum`` segments, created by the network pool."""

    def __init__(
        self,
        network_pool: SegmentProvider,
        required: int,
        maximum: int | None,
        *,
        owner: str,
        subpartitions: int = 0,
        buffers_per_subpartition_max: int = UNLIMITED,
        overdraft_max: int = 0,
        large: LargeRecordLimits = NO_LARGE_RECORDS,
    ) -> None:
        if maximum is not None and maximum < required:
            raise LocalProtocolError(
                f"the buffer pool of {owner} has a maximum of {maximum}, below the {required} it "
                f"requires"
            )
        self._network_pool = network_pool
        self.owner = owner
        self.required = required
        self.maximum = network_pool.total if maximum is None else maximum
        self.estimated_demand = 2 * required if maximum is None else maximum
        self.size = required
        self.availability = Availability()
        self.recyclers = [SubpartitionRecycler(self, index) for index in range(subpartitions)]
        self._small_quota = buffers_per_subpartition_max
        self._large_quota = max(buffers_per_subpartition_max, large.buffers_per_subpartition_max)
        self._quota = self._small_quota
        self._with_large_records: set[int] = set()
        self._extra = large.extra_buffers
        self._widened = self._extra == 0
        self._per_subpartition = [0] * subpartitions
        self._at_quota = 0
        self._overdraft_max = overdraft_max
        self._idle: deque[MemorySegment] = deque()
        self._ordinary = 0
        self._overdraft = 0
        self._listeners: deque[BufferListener] = deque()
        self._destroyed = False

    @property
    def held(self) -> int:
        """Segments taken from the network pool, whether idle here or handed out."""
        return self._ordinary + self._overdraft

    # -- requesting -------------------------------------------------------------------------------

    def request(self, subpartition: int | None = None) -> MemorySegment | None:
        """Take a segment, counted against a subpartition's quota if given; None if none is left.

        A request is served even while a quota makes the pool unavailable, so that a record in
        progress can be finished. Overdraft is used only when the pool has reached its size.

        Raises:
            BufferPoolDestroyedError: If the pool has been destroyed.
        """
        if self._destroyed:
            raise BufferPoolDestroyedError(f"the buffer pool of {self.owner} has been destroyed")
        idle = self._idle
        if idle:
            segment = idle.pop()  # the last segment returned may still be in the CPU caches
        else:
            overdraft = self._take_overdraft()
            if overdraft is None:
                return None
            segment = overdraft
        if subpartition is not None:
            in_use = self._per_subpartition[subpartition] = self._per_subpartition[subpartition] + 1
            # A record in progress may exceed the quota, which is counted only once.
            if in_use == self._quota:
                self._at_quota += 1
                self._update_availability()
        if not idle:
            # Fetches the next segment in advance.
            self._update_availability()
        return segment

    def add_listener(self, listener: BufferListener) -> bool:
        """Queue a listener for the next recycled segment.

        Returns False if a segment is idle now or the pool has been destroyed.
        """
        if self._idle or self._destroyed:
            return False
        self._listeners.append(listener)
        return True

    def remove_listener(self, listener: BufferListener) -> None:
        """Remove a listener from the queue; do nothing if it is not queued."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    # -- recycling --------------------------------------------------------------------------------

    def recycle_from(self, subpartition: int, segment: MemorySegment) -> None:
        """Take back a segment that counts against a subpartition's quota."""
        in_use = self._per_subpartition[subpartition]
        self._per_subpartition[subpartition] = in_use - 1
        if in_use == self._quota:
            self._at_quota -= 1
        self.recycle(segment)

    def recycle(self, segment: MemorySegment) -> None:
        """Take back a segment that counts against no quota."""
        # Surplus returns to the network pool before the listeners here are served.
        if self._destroyed or self._overdraft or self._ordinary > self.size:
            self._return(segment)
        else:
            while self._listeners:
                if self._listeners.popleft().notify_buffer_available(segment):
                    return
            self._idle.append(segment)
        if not self.availability.available:
            self._update_availability()

    def wake(self) -> None:
        """Wake all waiters of ``availability``, so that they check their conditions again."""
        self.availability.set(True)
        self._update_availability()

    # -- large records ----------------------------------------------------------------------------

    def expect(self, subpartition: int, has_large_records: bool) -> None:
        """Record whether a subpartition's next buffer is expected to hold large records.

        The writer predicts this from its previous buffer. The quota follows, and the pool widens
        for large records.
        """
        large = self._with_large_records
        if has_large_records != (subpartition in large):
            if has_large_records:
                large.add(subpartition)
            else:
                large.remove(subpartition)
            # All subpartitions share one quota. A subpartition with a slow consumer has small
            # buffers (debloating). With a lower quota it would stop the writer before the
            # subpartitions with large records have the buffers that they can use.
            self._set_quota(self._large_quota if large else self._small_quota)
        if has_large_records:
            self.widen()

    def expect_backlog(self, backlog: int) -> None:
        """Widen if a producer's backlog for a channel of this pool exceeds the ordinary quota.

        Only a producer with large records can have such a backlog.
        """
        if backlog > self._small_quota:
            self.widen()

    def widen(self) -> None:
        """Raise the maximum by the segments for large records; later calls do nothing."""
        if not self._widened and not self._destroyed:
            self._widened = True
            self.maximum += self._extra
            self.estimated_demand += self._extra
            self._network_pool.redistribute()

    # -- size -------------------------------------------------------------------------------------

    def resize(self, size: int) -> None:
        """Set the size.

        Surplus idle segments return now, and surplus segments in use when they are recycled.
        """
        if size < self.required:
            raise LocalProtocolError(
                f"the buffer pool of {self.owner} requires {self.required} segments, not {size}"
            )
        self.size = min(size, self.maximum)
        if self._destroyed:
            return
        # A larger pool counts its overdraft as ordinary segments first.
        while self._overdraft and self._ordinary < self.size:
            self._overdraft -= 1
            self._ordinary += 1
        while self._idle and self._ordinary > self.size:
            self._return(self._idle.popleft())
        # The rest of the surplus is in use, and returns when it is recycled.
        while self._ordinary > self.size:
            self._ordinary -= 1
            self._overdraft += 1
        self._offer_idle_to_listeners()
        self._update_availability()

    def on_segment_available(self) -> None:
        """Take the free segment of the network pool that this pool waited for."""
        if not self._destroyed:
            self._offer_idle_to_listeners()
            self._update_availability()

    def destroy(self) -> None:
        """Return idle segments and wake all waiters; their next request raises.

        Segments in use return as they are recycled.
        """
        if self._destroyed:
            return
        self._destroyed = True
        while self._idle:
            self._return(self._idle.popleft())
        listeners, self._listeners = self._listeners, deque()
        for listener in listeners:
            listener.notify_buffer_destroyed()
        self._network_pool.release_local_pool(self)
        self.availability.set(True)

    # -- accounts ---------------------------------------------------------------------------------

    def statistics(self) -> LocalBufferPoolStatistics:
        """Return the pool's limits and its segment counts."""
        return LocalBufferPoolStatistics(
            owner=self.owner,
            required=self.required,
            maximum=self.maximum,
            size=self.size,
            idle=len(self._idle),
            in_use=self.held - len(self._idle),
            overdraft=self._overdraft,
            available=self.availability.available,
            listeners=len(self._listeners),
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        if self._destroyed:
            return
        assert 0 <= len(self._idle) <= self._ordinary <= self.size, (
            "the idle or ordinary segments or the pool size are miscounted"
        )
        assert self._overdraft >= 0, "more overdraft was returned than taken"
        assert not (self._overdraft and self._idle), "overdraft in use while a segment is idle"
        assert not (self._listeners and self._idle), "a listener waits while a segment is idle"
        assert min(self._per_subpartition, default=0) >= 0, "a subpartition returned too much"
        assert sum(self._per_subpartition) <= self.held - len(self._idle), "quotas exceed use"
        assert self._at_quota == self._count_at_quota(), (
            "subpartitions at their quota are miscounted"
        )
        assert self._quota == (
            self._large_quota if self._with_large_records else self._small_quota
        ), "the quota differs from the large-record limits"
        assert self.availability.available == self._should_be_available(), "availability is stale"

    # -- internals --------------------------------------------------------------------------------

    def _set_quota(self, quota: int) -> None:
        if quota != self._quota:
            self._quota = quota
            self._at_quota = self._count_at_quota()
            self._update_availability()

    def _count_at_quota(self) -> int:
        return sum([count >= self._quota for count in self._per_subpartition])

    def _should_be_available(self) -> bool:
        return bool(self._idle) and not self._at_quota and not self._overdraft

    def _update_availability(self) -> None:
        """Fetch a segment in advance if none is idle, and set the availability."""
        if not self._idle and self._ordinary < self.size and not self._destroyed:
            self._fetch()
        available = self._destroyed or self._should_be_available()
        if available != self.availability.available:
            self.availability.set(available)

    def _fetch(self) -> None:
        segment = self._network_pool.take_segment()
        if segment is None:
            self._network_pool.wait_for_segment(self)
        else:
            self._ordinary += 1
            self._idle.append(segment)

    def _offer_idle_to_listeners(self) -> None:
        while self._listeners:
            if not self._idle and self._ordinary < self.size:
                self._fetch()
            if not self._idle:
                return
            segment = self._idle.popleft()
            if not self._listeners.popleft().notify_buffer_available(segment):
                self._idle.append(segment)

    def _take_overdraft(self) -> MemorySegment | None:
        # Below its size, the pool waits for the network pool instead.
        if self._ordinary < self.size or self._overdraft >= self._overdraft_max:
            return None
        segment = self._network_pool.take_segment()
        if segment is not None:
            self._overdraft += 1
        return segment

    def _return(self, segment: MemorySegment) -> None:
        # Overdraft is returned first, because the next record waits for it.
        if self._overdraft:
            self._overdraft -= 1
        else:
            self._ordinary -= 1
        self._network_pool.return_segment(segment)
