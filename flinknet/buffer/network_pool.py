"""The network buffer pool: all network memory of a worker, and how it is shared out.

Theory of operation. Every segment is allocated in the constructor and is afterwards in exactly one
of: the free queue here, a local pool (idle or handed out), or a channel that took it as exclusive.
Local pools register with a *required* number and a *maximum*; the sum of what is required,
exclusive segments included, never exceeds the total, so the required number of each can always be
met in the end. What is not required is shared out by capacity: each pool's size is its requirement
plus a share of the excess in proportion to how much it could use, with running-sum rounding, so
that equal pools differ by at most one and nothing is lost (Flink's
NetworkBufferPool.redistributeBuffers).

A pool over its size gives segments back as they are recycled. Whoever finds no free segment
subscribes: first come, first served, batches (exclusive segments) before local pools, because a
channel cannot even ask for its partition without them.

Invariants: ``free + sum(held by pools) + exclusive == total``; ``sum(required) + exclusive <=
total``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from flinknet.buffer.local_pool import (
    NO_LARGE_RECORDS,
    UNLIMITED,
    LargeRecordLimits,
    LocalBufferPool,
)
from flinknet.buffer.segment import MemorySegment, allocate_segments
from flinknet.errors import (
    BufferPoolDestroyedError,
    InsufficientNetworkBuffersError,
    LocalProtocolError,
)

__all__ = ["NetworkBufferPool", "NetworkBufferPoolStatistics", "SegmentRequest"]

_HOLDERS_NAMED_MAX = 3
"""Owners in a message about too few segments: whoever has most is to be looked at first."""


class NetworkBufferPoolStatistics(NamedTuple):
    """Counts of segments; times ``segment_bytes`` they are the network memory."""

    total: int
    free: int
    required: int
    exclusive: int
    requested: int
    """What all local pools and exclusive buffers would take if they could, more than ``total``
    perhaps: the maximum of a pool, or twice what it requires if it has none."""
    local_pools: int
    segment_bytes: int

    @property
    def used(self) -> int:
        """Segments that are not free, idle ones of local pools included."""
        return self.total - self.free

    @property
    def total_memory_bytes(self) -> int:
        """All network memory (Flink's TotalMemory)."""
        return self.total * self.segment_bytes

    @property
    def available_memory_bytes(self) -> int:
        """Network memory that nobody holds (AvailableMemory)."""
        return self.free * self.segment_bytes

    @property
    def used_memory_bytes(self) -> int:
        """Network memory that somebody holds (UsedMemory)."""
        return self.used * self.segment_bytes

    @property
    def requested_memory_usage_percent(self) -> float:
        """Estimated demand in percent of the total; more than 100 is possible
        (RequestedMemoryUsage)."""
        return 100 * self.requested / self.total if self.total else 0.0


class SegmentRequest:
    """A batch of exclusive segments that is being gathered; ``cancel`` returns what it has."""

    __slots__ = ("_on_complete", "_pool", "number", "owner", "segments")

    def __init__(
        self,
        pool: NetworkBufferPool,
        number: int,
        on_complete: Callable[[list[MemorySegment]], None],
        owner: str,
    ) -> None:
        self._pool = pool
        self._on_complete = on_complete
        self.number = number
        self.owner = owner
        self.segments: list[MemorySegment] = []

    def offer(self, segment: MemorySegment) -> bool:
        """Take one more segment; True once the batch is complete."""
        self.segments.append(segment)
        return len(self.segments) == self.number

    def hand_over(self) -> None:
        """Give the complete batch to whoever asked for it."""
        self._on_complete(self.segments)

    def cancel(self) -> None:
        """Give up: harmless if the batch was completed."""
        self._pool.cancel_request(self)

    def time_out(self, waited_ms: float) -> InsufficientNetworkBuffersError:
        """Give up an incomplete batch; return the error for who has waited for it so long."""
        error = InsufficientNetworkBuffersError(
            f"insufficient number of network buffers: {self.owner} got {len(self.segments)} of its "
            f"{self.number} exclusive buffers within {waited_ms:g} ms; the others are held by "
            f"{self._pool.describe_holders()}: have somebody read what those hold, or raise "
            f"network_memory_bytes, or buffers_request_timeout_ms if they will be free later"
        )
        self.cancel()
        return error


class NetworkBufferPool:
    """Owner of all segments; makes local pools and hands out exclusive segments."""

    def __init__(self, segments: int, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self.total = segments
        self._free: deque[MemorySegment] = deque(allocate_segments(segments, segment_bytes))
        self._pools: list[LocalBufferPool] = []
        self._required = 0
        self._exclusive = 0
        self._requests: deque[SegmentRequest] = deque()
        self._waiting_pools: deque[LocalBufferPool] = deque()
        self._destroyed = False

    # -- local pools ------------------------------------------------------------------------------

    def create_local_pool(
        self,
        required: int,
        maximum: int | None = None,
        *,
        owner: str,
        subpartitions: int = 0,
        buffers_per_subpartition_max: int = UNLIMITED,
        overdraft_max: int = 0,
        large: LargeRecordLimits = NO_LARGE_RECORDS,
    ) -> LocalBufferPool:
        """Register a pool that always gets ``required`` segments and never holds over ``maximum``,
        or, of large records, over that and what ``large`` adds.

        ``owner`` names the gate or partition in messages. Raises InsufficientNetworkBuffersError
        with the numbers if the requirement does not fit.
        """
        self._check_alive()
        self._check_fits(required, owner, "segment_bytes or the parallelism")
        pool = LocalBufferPool(
            self,
            required,
            maximum,
            owner=owner,
            subpartitions=subpartitions,
            buffers_per_subpartition_max=buffers_per_subpartition_max,
            overdraft_max=overdraft_max,
            large=large,
        )
        self._required += required
        self._pools.append(pool)
        self.redistribute()
        return pool

    def release_local_pool(self, pool: LocalBufferPool) -> None:
        """Forget a pool that is being destroyed; its segments in use come back one by one."""
        self._pools.remove(pool)
        self._required -= pool.required
        if pool in self._waiting_pools:
            self._waiting_pools.remove(pool)
        self.redistribute()

    def redistribute(self) -> None:
        """Share out anew what is not required, to every pool as much as it can use."""
        excess = self.total - self._required - self._exclusive
        capacities = [min(excess, pool.maximum - pool.required) for pool in self._pools]
        total_capacity = sum(capacities)
        to_distribute = min(excess, total_capacity)
        cumulative = given = 0
        for pool, capacity in zip(tuple(self._pools), capacities, strict=True):
            cumulative += capacity
            share = to_distribute * cumulative // total_capacity - given if total_capacity else 0
            given += share
            pool.resize(pool.required + share)

    def take_segment(self) -> MemorySegment | None:
        """Give a local pool one segment, if one is free and no batch waits for it."""
        return self._free.popleft() if self._free and not self._requests else None

    def wait_for_segment(self, pool: LocalBufferPool) -> None:
        """Offer the pool the next free segment; a pool waits at most once at a time."""
        if pool not in self._waiting_pools:
            self._waiting_pools.append(pool)

    def return_segment(self, segment: MemorySegment) -> None:
        """Take back a segment of a local pool, and serve whoever waits."""
        if self._destroyed:
            return
        self._free.append(segment)
        self._serve()

    # -- exclusive segments -----------------------------------------------------------------------

    def request_exclusive(
        self, number: int, on_complete: Callable[[list[MemorySegment]], None], *, owner: str
    ) -> SegmentRequest:
        """Gather ``number`` segments that belong to no pool; ``on_complete`` gets them, perhaps at
        once.

        They count as required, so other pools shrink first. Raises InsufficientNetworkBuffersError
        if they can never be met.
        """
        self._check_alive()
        self._check_fits(number, owner, "buffers_per_channel, segment_bytes or the parallelism")
        self._exclusive += number
        request = SegmentRequest(self, number, on_complete, owner)
        if number == 0:
            request.hand_over()
            return request
        self._requests.append(request)
        self.redistribute()
        self._serve()
        return request

    def return_exclusive(self, segments: list[MemorySegment]) -> None:
        """Take back exclusive segments, and share them out again."""
        if self._destroyed or not segments:
            return
        self._exclusive -= len(segments)
        self._free.extend(segments)
        self.redistribute()
        self._serve()

    def cancel_request(self, request: SegmentRequest) -> None:
        """Return what an unfinished batch has gathered."""
        if request in self._requests:
            self._requests.remove(request)
            self._exclusive -= request.number - len(request.segments)
            segments, request.segments = request.segments, []
            self.return_exclusive(segments)
            self.redistribute()
            self._serve()

    # -- life -------------------------------------------------------------------------------------

    def destroy(self) -> None:
        """Free the memory; every local pool must be destroyed first."""
        if self._pools:
            raise LocalProtocolError(
                f"the network buffer pool was destroyed while {len(self._pools)} local pools are "
                f"in use, the first by {self._pools[0].owner}: close partitions and gates first"
            )
        self._destroyed = True
        self._free.clear()

    def describe_holders(self) -> str:
        """Name who has most segments in use, for messages: pools, and exclusive ones together."""
        held = {pool.owner: pool.statistics().in_use for pool in self._pools}
        largest = sorted(held.items(), key=lambda item: item[1], reverse=True)[:_HOLDERS_NAMED_MAX]
        named = [f"{owner} ({number})" for owner, number in largest if number]
        exclusive = self._exclusive - sum(request.number for request in self._requests)
        if exclusive:
            named.append(f"gates as exclusive buffers ({exclusive})")
        return ", ".join(named) or "owners that have been closed"

    def statistics(self) -> NetworkBufferPoolStatistics:
        """Count segments: all, free ones, and those that somebody requires or would take."""
        return NetworkBufferPoolStatistics(
            total=self.total,
            free=len(self._free),
            required=self._required,
            exclusive=self._exclusive,
            requested=self._exclusive + sum(pool.estimated_demand for pool in self._pools),
            local_pools=len(self._pools),
            segment_bytes=self.segment_bytes,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up. Pools being destroyed count as in
        use."""
        if self._destroyed:
            return
        held = sum(pool.held for pool in self._pools)
        missing = sum(request.number - len(request.segments) for request in self._requests)
        assert self._required == sum(pool.required for pool in self._pools), (
            "required is miscounted"
        )
        assert self._required + self._exclusive <= self.total, "more is required than there is"
        assert len(self._free) + held + self._exclusive - missing <= self.total, (
            "there are more segments than were allocated"
        )
        for pool in self._pools:
            pool.check_invariants()

    # -- inside -----------------------------------------------------------------------------------

    def _check_alive(self) -> None:
        if self._destroyed:
            raise BufferPoolDestroyedError("the network buffer pool has been destroyed")

    def _check_fits(self, number: int, owner: str, levers: str) -> None:
        """``levers`` are what the number depends on, besides the memory that there is."""
        if number < 0:
            raise LocalProtocolError(f"{owner} asked for {number} network buffers")
        available = self.total - self._required - self._exclusive
        if number > available:
            raise InsufficientNetworkBuffersError(
                f"insufficient number of network buffers: {owner} needs {number}, but only "
                f"{available} of {self.total} (of {self.segment_bytes} bytes each) are not yet "
                "required by others; raise network_memory_bytes to at least "
                f"{(self.total - available + number) * self.segment_bytes}, or lower {levers}"
            )

    def _serve(self) -> None:
        while self._free and self._requests:
            if self._requests[0].offer(self._free.popleft()):
                self._requests.popleft().hand_over()  # last: it may give them back at once
        while self._free and self._waiting_pools:
            self._waiting_pools.popleft().on_segment_available()
