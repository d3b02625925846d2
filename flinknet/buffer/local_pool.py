"""The local buffer pool: the network memory of one result partition or one input gate.

Theory of operation (Flink's LocalBufferPool). A pool holds *ordinary* segments, at most ``size``
of them, and *overdraft* segments beyond. An ordinary one is idle here or handed out; one is kept
idle ahead whenever the network pool has it, and having one idle is what *available* means.
``size`` moves between ``required`` and ``maximum`` as pools come and go; a pool over its size
re-labels the surplus as overdraft and returns it as it is recycled.

Two limits make the pool unavailable although it could still serve. A subpartition at its quota: a
writer then waits before it *begins* a record, so that one slow consumer cannot take everything,
yet a record in progress is still served. Overdraft in use: a record in progress took more than the
size, so the next one waits until that is paid back.

A buffer that holds a few *large* records costs as much to hand on as one of a thousand small ones,
so with as many buffers as those have, both ends mostly wait for each other. A pool that meets large
records therefore *widens*: its maximum grows once, and stays; the quota is larger for as long as
the records of any subpartition are. It is the same for all of them: one with small buffers, whose
consumer is slow (debloating), would else be at its quota, and stop the writer, before others with
large records have what they can use. Neither adds to what the pool requires, so where memory is
short nothing changes.

Listeners are gates' channels waiting for a floating buffer: first come, first served, one segment
each.

Invariants: ``ordinary <= size`` unless shrunk below what is in use; ``idle <= ordinary``;
overdraft only while nothing is idle; ``sum(per subpartition) <= in use``; available iff idle, no
overdraft and no subpartition at its quota or over it.
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
"""The quota of a subpartition that has none."""


class LargeRecordLimits(NamedTuple):
    """What a pool may use beyond its other limits while records are large."""

    buffers_per_subpartition_max: int
    """Quota of each subpartition while the records of one are large, if that is more than the
    ordinary one."""
    extra_buffers: int
    """By how many segments the pool's maximum grows when it widens."""


NO_LARGE_RECORDS = LargeRecordLimits(0, 0)
"""For a pool that has the same limits for all records."""


class LocalBufferPoolStatistics(NamedTuple):
    """Counts of segments of one pool."""

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
        """Segments in use for each one of the size; over 1 while overdraft is in use."""
        return self.in_use / self.size if self.size else 0.0


class BufferListener(Protocol):
    """A channel that waits for a floating buffer (Flink's BufferListener)."""

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        """Take the segment and return True, or refuse it with False."""

    def notify_buffer_destroyed(self) -> None:
        """The pool is gone; nothing will come."""


class SegmentProvider(Protocol):
    """The network pool, as a local pool of it sees it."""

    total: int
    """Segments that there are."""

    def take_segment(self) -> MemorySegment | None:
        """Give one segment, None if there is none to spare now."""

    def wait_for_segment(self, pool: LocalBufferPool) -> None:
        """Offer the pool the next free segment."""

    def return_segment(self, segment: MemorySegment) -> None:
        """Take back a segment."""

    def release_local_pool(self, pool: LocalBufferPool) -> None:
        """Forget a pool that is being destroyed."""

    def redistribute(self) -> None:
        """Set every pool's size anew: what one of them could use has changed."""


class SubpartitionRecycler:
    """Returns segments to a pool and to the quota of one subpartition."""

    __slots__ = ("recycle",)

    recycle: Callable[[MemorySegment], None]
    """Return the segment."""

    def __init__(self, pool: LocalBufferPool, subpartition: int) -> None:
        self.recycle = partial(pool.recycle_from, subpartition)


class LocalBufferPool:
    """Between ``required`` and ``maximum`` segments of the network pool, made by it."""

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
        """Segments of the network pool that are here or handed out from here."""
        return self._ordinary + self._overdraft

    # -- taking -----------------------------------------------------------------------------------

    def request(self, subpartition: int | None = None) -> MemorySegment | None:
        """Take a segment, on the account of a subpartition if given; None if there is none now.

        Served even while the pool is not ``available`` because of a quota, so that a record in
        progress can be finished; overdraft is used only when the pool has reached its size.
        """
        if self._destroyed:
            raise BufferPoolDestroyedError(f"the buffer pool of {self.owner} has been destroyed")
        idle = self._idle
        if idle:
            segment = idle.pop()  # the last one back: the caches may still have it
        else:
            overdraft = self._take_overdraft()
            if overdraft is None:
                return None
            segment = overdraft
        if subpartition is not None:
            in_use = self._per_subpartition[subpartition] = self._per_subpartition[subpartition] + 1
            if in_use == self._quota:
                self._at_quota += 1
                self._update_availability()
        if not idle:
            self._update_availability()
        return segment

    def add_listener(self, listener: BufferListener) -> bool:
        """Queue for the next recycled segment; False if one is idle now or the pool is
        destroyed."""
        if self._idle or self._destroyed:
            return False
        self._listeners.append(listener)
        return True

    def remove_listener(self, listener: BufferListener) -> None:
        """Leave the queue; harmless if not in it."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    # -- giving back ------------------------------------------------------------------------------

    def recycle_from(self, subpartition: int, segment: MemorySegment) -> None:
        """Take back a segment that a subpartition accounts for."""
        in_use = self._per_subpartition[subpartition]
        self._per_subpartition[subpartition] = in_use - 1
        if in_use == self._quota:
            self._at_quota -= 1
        self.recycle(segment)

    def recycle(self, segment: MemorySegment) -> None:
        """Take back a segment that no subpartition accounts for."""
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
        """Have everybody who waits for availability look again at what it waits for."""
        self.availability.set(True)
        self._update_availability()

    # -- large records ----------------------------------------------------------------------------

    def expect(self, subpartition: int, has_large_records: bool) -> None:
        """What a subpartition is about to be given will hold large records, or small ones, as what
        it was given before did: the quota follows, and the pool widens for large ones."""
        large = self._with_large_records
        if has_large_records != (subpartition in large):
            if has_large_records:
                large.add(subpartition)
            else:
                large.remove(subpartition)
            self._set_quota(self._large_quota if large else self._small_quota)
        if has_large_records:
            self.widen()

    def expect_backlog(self, backlog: int) -> None:
        """A producer has so many buffers queued for a channel of this pool: widen if that is more
        than an ordinary quota lets it have."""
        if backlog > self._small_quota:
            self.widen()

    def widen(self) -> None:
        """Let the pool grow by what large records may use; once, and for good."""
        if not self._widened and not self._destroyed:
            self._widened = True
            self.maximum += self._extra
            self.estimated_demand += self._extra
            self._network_pool.redistribute()

    # -- size -------------------------------------------------------------------------------------

    def resize(self, size: int) -> None:
        """Set the size; surplus idle segments go back now, surplus in use as they are recycled."""
        if size < self.required:
            raise LocalProtocolError(
                f"the buffer pool of {self.owner} requires {self.required} segments, not {size}"
            )
        self.size = min(size, self.maximum)
        if self._destroyed:
            return
        while self._overdraft and self._ordinary < self.size:
            self._overdraft -= 1
            self._ordinary += 1
        while self._idle and self._ordinary > self.size:
            self._return(self._idle.popleft())
        while self._ordinary > self.size:
            self._ordinary -= 1
            self._overdraft += 1
        self._offer_idle_to_listeners()
        self._update_availability()

    def on_segment_available(self) -> None:
        """The network pool has a free segment that this pool waited for."""
        if not self._destroyed:
            self._offer_idle_to_listeners()
            self._update_availability()

    def destroy(self) -> None:
        """Return what is idle, wake everybody; what is in use is returned as it is recycled."""
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
        """Count segments: what the pool may have, and what of it is in use."""
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
        """Raise AssertionError if the accounts do not add up."""
        if self._destroyed:
            return
        assert 0 <= len(self._idle) <= self._ordinary <= self.size, (
            "idle, ordinary or size is wrong"
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
        ), "the quota is not that of the records"
        assert self.availability.available == self._should_be_available(), "availability is stale"

    # -- inside -----------------------------------------------------------------------------------

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
        if self._ordinary < self.size or self._overdraft >= self._overdraft_max:
            return None
        segment = self._network_pool.take_segment()
        if segment is not None:
            self._overdraft += 1
        return segment

    def _return(self, segment: MemorySegment) -> None:
        if self._overdraft:
            self._overdraft -= 1
        else:
            self._ordinary -= 1
        self._network_pool.return_segment(segment)
