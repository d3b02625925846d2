"""The network buffer pool: all network memory of a worker, and its distribution.

All segments are allocated in the constructor. Afterwards each one is in exactly one place: the free
queue here, a local pool (idle or handed out), or a channel that took it as exclusive. Local pools
register with a *required* number and a *maximum*. The sum of the requirements, including exclusive
segments, never exceeds the total, so every requirement can be met in the end. The excess is
distributed by capacity: each pool's size is its requirement plus a share of the excess, in
proportion to the number it could use. Running-sum rounding makes equal pools differ by at most one
and loses no segment (Flink's NetworkBufferPool.redistributeBuffers).

A pool over its size returns segments as they are recycled. A requester that finds no free segment
subscribes and is served in order. Batches of exclusive segments come before local pools, because a
channel cannot request its partition without them.

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
"""Number of owners named in an error about too few segments. The owners with the most segments are
the likely cause."""


class NetworkBufferPoolStatistics(NamedTuple):
    """Segment counts; multiply by ``segment_bytes`` for bytes."""

    total: int
    free: int
    required: int
    exclusive: int
    requested: int
    """Segments that all local pools and exclusive buffers would use if they could; may exceed
    ``total``. A pool counts with its maximum, or with twice its requirement if it has none."""
    local_pools: int
    segment_bytes: int

    @property
    def used(self) -> int:
        """Segments that are not free, including idle segments of local pools."""
        return self.total - self.free

    @property
    def total_memory_bytes(self) -> int:
        """All network memory in bytes (Flink's TotalMemory)."""
        return self.total * self.segment_bytes

    @property
    def available_memory_bytes(self) -> int:
        """Free network memory in bytes (AvailableMemory)."""
        return self.free * self.segment_bytes

    @property
    def used_memory_bytes(self) -> int:
        """Network memory in use, in bytes (UsedMemory)."""
        return self.used * self.segment_bytes

    @property
    def requested_memory_usage_percent(self) -> float:
        """Estimated demand in percent of the total (RequestedMemoryUsage); may exceed 100."""
        return 100 * self.requested / self.total if self.total else 0.0


class SegmentRequest:
    """A batch of exclusive segments that is being gathered; ``cancel`` returns them."""

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
        """Take one more segment, and return True once the batch is complete."""
        self.segments.append(segment)
        return len(self.segments) == self.number

    def hand_over(self) -> None:
        """Pass the complete batch to the requester."""
        self._on_complete(self.segments)

    def cancel(self) -> None:
        """Cancel the request; do nothing if the batch was completed."""
        self._pool.cancel_request(self)

    def time_out(self, waited_ms: float) -> InsufficientNetworkBuffersError:
        """Cancel an incomplete batch, and return the error for the requester that waited."""
        error = InsufficientNetworkBuffersError(
            f"insufficient number of network buffers: {self.owner} got {len(self.segments)} of its "
            f"{self.number} exclusive buffers within {waited_ms:g} ms; the others are held by "
            f"{self._pool.describe_holders()}: read the data that those hold, or raise "
            "network_memory_bytes, or buffers_request_timeout_ms if they will be free later"
        )
        self.cancel()
        return error


class NetworkBufferPool:
    """Owner of all segments; creates local pools and hands out exclusive segments."""

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
        """Register a pool that is guaranteed ``required`` segments and holds at most ``maximum``.

        With large records, ``large`` adds to the maximum. ``owner`` names the gate or partition in
        messages.

        Raises:
            InsufficientNetworkBuffersError: If the requirement does not fit; the message has the
                numbers.
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
        """Unregister a pool that is being destroyed; its segments in use return one by one."""
        self._pools.remove(pool)
        self._required -= pool.required
        if pool in self._waiting_pools:
            self._waiting_pools.remove(pool)
        self.redistribute()

    def redistribute(self) -> None:
        """Distribute the segments that are not required, in proportion to each pool's capacity."""
        excess = self.total - self._required - self._exclusive
        capacities = [min(excess, pool.maximum - pool.required) for pool in self._pools]
        total_capacity = sum(capacities)
        to_distribute = min(excess, total_capacity)
        cumulative = given = 0
        # Rounding the running sum makes equal pools differ by at most one, and loses no segment.
        for pool, capacity in zip(tuple(self._pools), capacities, strict=True):
            cumulative += capacity
            share = to_distribute * cumulative // total_capacity - given if total_capacity else 0
            given += share
            pool.resize(pool.required + share)

    def take_segment(self) -> MemorySegment | None:
        """Return one free segment to a local pool; None if none is free or a batch waits."""
        return self._free.popleft() if self._free and not self._requests else None

    def wait_for_segment(self, pool: LocalBufferPool) -> None:
        """Queue a pool for the next free segment; a pool waits at most once at a time."""
        if pool not in self._waiting_pools:
            self._waiting_pools.append(pool)

    def return_segment(self, segment: MemorySegment) -> None:
        """Take a segment back from a local pool, and serve waiting requests."""
        if self._destroyed:
            return
        self._free.append(segment)
        self._serve()

    # -- exclusive segments -----------------------------------------------------------------------

    def request_exclusive(
        self, number: int, on_complete: Callable[[list[MemorySegment]], None], *, owner: str
    ) -> SegmentRequest:
        """Gather ``number`` segments outside any pool, and pass them to ``on_complete``.

        ``on_complete`` may be called inside this call. The segments count as required, so the local
        pools shrink first.

        Raises:
            InsufficientNetworkBuffersError: If the request can never be met.
        """
        self._check_alive()
        self._check_fits(number, owner, "buffers_per_channel, segment_bytes or the parallelism")
        # They count before they are gathered, so that the local pools shrink for them.
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
        """Take exclusive segments back, and distribute them again."""
        if self._destroyed or not segments:
            return
        self._exclusive -= len(segments)
        self._free.extend(segments)
        self.redistribute()
        self._serve()

    def cancel_request(self, request: SegmentRequest) -> None:
        """Cancel an incomplete batch, and take back its segments."""
        if request in self._requests:
            self._requests.remove(request)
            # Only the missing segments: ``return_exclusive`` subtracts the others.
            self._exclusive -= request.number - len(request.segments)
            segments, request.segments = request.segments, []
            self.return_exclusive(segments)
            self.redistribute()
            self._serve()

    # -- life cycle -------------------------------------------------------------------------------

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
        """Name the owners with the most segments in use, for messages.

        Exclusive segments are listed together.
        """
        held = {pool.owner: pool.statistics().in_use for pool in self._pools}
        largest = sorted(held.items(), key=lambda item: item[1], reverse=True)[:_HOLDERS_NAMED_MAX]
        named = [f"{owner} ({number})" for owner, number in largest if number]
        exclusive = self._exclusive - sum(request.number for request in self._requests)
        if exclusive:
            named.append(f"gates as exclusive buffers ({exclusive})")
        return ", ".join(named) or "owners that have been closed"

    def statistics(self) -> NetworkBufferPoolStatistics:
        """Return the segment counts of the whole pool."""
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
        """Raise AssertionError if the accounts are inconsistent.

        Pools that are being destroyed are no longer listed, so their segments in use are not
        counted.
        """
        if self._destroyed:
            return
        held = sum(pool.held for pool in self._pools)
        missing = sum(request.number - len(request.segments) for request in self._requests)
        assert self._required == sum(pool.required for pool in self._pools), (
            "required segments are miscounted"
        )
        assert self._required + self._exclusive <= self.total, (
            "more segments are required than exist"
        )
        assert len(self._free) + held + self._exclusive - missing <= self.total, (
            "more segments exist than were allocated"
        )
        for pool in self._pools:
            pool.check_invariants()

    # -- internals --------------------------------------------------------------------------------

    def _check_alive(self) -> None:
        if self._destroyed:
            raise BufferPoolDestroyedError("the network buffer pool has been destroyed")

    def _check_fits(self, number: int, owner: str, levers: str) -> None:
        """Raise if ``number`` segments cannot be required; ``levers`` names settings to lower."""
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
        # Batches first, because a channel cannot request its partition without them.
        while self._free and self._requests:
            if self._requests[0].offer(self._free.popleft()):
                self._requests.popleft().hand_over()  # last: it may return segments immediately
        while self._free and self._waiting_pools:
            self._waiting_pools.popleft().on_segment_available()
