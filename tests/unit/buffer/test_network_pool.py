from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flinknet.buffer.local_pool import LocalBufferPool
from flinknet.buffer.network_pool import NetworkBufferPool, SegmentRequest
from flinknet.buffer.segment import MemorySegment
from flinknet.errors import (
    BufferPoolDestroyedError,
    InsufficientNetworkBuffersError,
    LocalProtocolError,
)
from tests.unit.arrangements import assert_everything_returned


def exclusive(pool: NetworkBufferPool, number: int) -> list[MemorySegment]:
    """Take exclusive segments and expect them at once."""
    taken: list[list[MemorySegment]] = []
    pool.request_exclusive(number, taken.append, owner="test")
    assert len(taken) == 1
    assert len(taken[0]) == number
    return taken[0]


def drained(pool: LocalBufferPool) -> list[MemorySegment]:
    """Take every segment that the pool gives."""
    taken = []
    while (segment := pool.request()) is not None:
        taken.append(segment)
    return taken


# -- local pools -----------------------------------------------------------------------------------


def test_a_requirement_over_the_total_is_refused_with_the_numbers() -> None:
    """B1."""
    pool = NetworkBufferPool(10, 64)
    with pytest.raises(InsufficientNetworkBuffersError) as refused:
        pool.create_local_pool(11, owner="gate of join")
    for part in ("gate of join needs 11", "only 10 of 10", "64 bytes", "at least 704"):
        assert part in str(refused.value)
    assert str(refused.value).endswith("704, or lower segment_bytes or the parallelism")
    assert_everything_returned(pool)


def test_the_second_requirement_that_does_not_fit_leaves_the_first_alone() -> None:
    """B1."""
    pool = NetworkBufferPool(10, 64)
    first = pool.create_local_pool(6, owner="first")
    with pytest.raises(InsufficientNetworkBuffersError, match="needs 5, but only 4 of 10"):
        pool.create_local_pool(5, owner="second")
    assert len(drained(first)) == 10


def test_a_pool_that_fits_is_made_though_all_segments_are_in_use() -> None:
    """B2: it gets its required segments as the other pools recycle theirs."""
    pool = NetworkBufferPool(10, 64)
    first = pool.create_local_pool(2, owner="first")
    taken = drained(first)
    assert len(taken) == 10
    second = pool.create_local_pool(5, 5, owner="second")
    assert (first.size, second.size) == (5, 5)
    assert second.request() is None
    for _ in range(5):
        first.recycle(taken.pop())
    assert len(drained(second)) == 5
    first.recycle(taken.pop())
    assert second.request() is None
    assert first.request() is not None


def test_unbounded_pools_share_what_bounded_ones_leave() -> None:
    """B3."""
    pool = NetworkBufferPool(10, 64)
    fixed = pool.create_local_pool(2, 2, owner="fixed")
    unbounded = pool.create_local_pool(1, owner="unbounded")
    bounded = pool.create_local_pool(1, 3, owner="bounded")
    assert fixed.size == 2
    assert bounded.size <= 3
    assert fixed.size + unbounded.size + bounded.size == 10
    bounded.destroy()
    assert (fixed.size, unbounded.size) == (2, 8)


def test_pools_make_room_for_exclusive_segments_and_take_it_back() -> None:
    """B4."""
    pool = NetworkBufferPool(10, 64)
    first = pool.create_local_pool(1, 10, owner="first")
    assert first.size == 10
    batches = [exclusive(pool, 2)]
    assert first.size == 8
    second = pool.create_local_pool(1, 10, owner="second")
    assert (first.size, second.size) == (4, 4)
    for size in (3, 2):
        batches.append(exclusive(pool, 2))
        assert (first.size, second.size) == (size, size)
    for size in (3, 4, 5):
        pool.return_exclusive(batches.pop())
        assert (first.size, second.size) == (size, size)
    first.destroy()
    assert second.size == 10
    second.destroy()
    assert_everything_returned(pool)


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40) | st.none()), max_size=12),
)
def test_sharing_loses_nothing(total: int, shapes: list[tuple[int, int | None]]) -> None:
    """B5: no pool is below its requirement or above its maximum; the sizes add up to all segments,
    or to all that the pools can use; equal pools differ by at most one."""
    network = NetworkBufferPool(total, 1)
    pools: dict[tuple[int, int | None], list[LocalBufferPool]] = {}
    required = 0
    for needs, more in shapes:
        if required + needs > total:
            continue
        required += needs
        maximum = None if more is None else needs + more
        made = network.create_local_pool(needs, maximum, owner="test")
        pools.setdefault((needs, more), []).append(made)
    everyone = [pool for equal in pools.values() for pool in equal]
    assert all(pool.required <= pool.size <= max(pool.maximum, 0) for pool in everyone)
    usable = sum(max(pool.maximum, pool.required) for pool in everyone)
    assert sum(pool.size for pool in everyone) == min(total, usable)
    for equal in pools.values():
        sizes = {pool.size for pool in equal}
        assert max(sizes) - min(sizes) <= 1


def test_creating_and_destroying_returns_everything() -> None:
    """B6."""
    network = NetworkBufferPool(10, 64)
    for _ in range(20):
        first = network.create_local_pool(1, owner="first")
        taken = drained(first)
        second = network.create_local_pool(3, owner="second")
        for segment in taken:
            first.recycle(segment)
        of_second = drained(second)
        first.destroy()
        second.destroy()
        for segment in of_second:
            second.recycle(segment)
        assert_everything_returned(network)


def test_segments_recycled_by_a_third_pool_serve_two_waiting_pools() -> None:
    """B12."""
    network = NetworkBufferPool(10, 64)
    third = network.create_local_pool(1, owner="third")
    taken = drained(third)
    waiting = [network.create_local_pool(1, owner=name) for name in ("first", "second")]
    woken: list[str] = []
    for pool in waiting:
        pool.availability.subscribe(lambda pool=pool: woken.append(pool.owner))  # type: ignore[misc]
    third.recycle(taken.pop())
    assert woken == ["first"]
    third.recycle(taken.pop())
    assert woken == ["first", "second"]
    assert all(pool.request() is not None for pool in waiting)


def test_a_destroyed_pool_that_waited_leaves_the_queue() -> None:
    network = NetworkBufferPool(2, 64)
    first = network.create_local_pool(1, owner="first")
    taken = drained(first)
    second = network.create_local_pool(1, owner="second")
    second.destroy()
    for segment in taken:
        first.recycle(segment)
    first.destroy()
    assert_everything_returned(network)


# -- exclusive segments ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 9, 10])
def test_exclusive_segments_are_given_up_to_the_total(number: int) -> None:
    """B8."""
    pool = NetworkBufferPool(10, 64)
    taken = exclusive(pool, number)
    assert len(set(map(id, taken))) == number
    counts = pool.statistics()
    assert (counts.free, counts.exclusive) == (10 - number, number)
    pool.return_exclusive(taken)
    assert_everything_returned(pool)


@pytest.mark.parametrize("number", [11, 1000])
def test_exclusive_segments_over_the_total_are_refused(number: int) -> None:
    """B8, B10: a request that can never be met fails at once instead of after a time-out."""
    pool = NetworkBufferPool(10, 64)
    with pytest.raises(
        InsufficientNetworkBuffersError,
        match=f"needs {number}, but only 10 .* or lower buffers_per_channel, segment_bytes or",
    ):
        exclusive(pool, number)
    assert_everything_returned(pool)


def test_the_last_of_several_that_is_over_the_total_is_refused() -> None:
    """B8."""
    pool = NetworkBufferPool(10, 64)
    first, second = exclusive(pool, 4), exclusive(pool, 4)
    with pytest.raises(InsufficientNetworkBuffersError, match="needs 3, but only 2"):
        exclusive(pool, 3)
    pool.return_exclusive(first + second)
    assert_everything_returned(pool)


def test_a_negative_number_is_refused() -> None:
    """B8."""
    pool = NetworkBufferPool(10, 64)
    with pytest.raises(LocalProtocolError, match="asked for -1"):
        exclusive(pool, -1)
    with pytest.raises(LocalProtocolError, match="asked for -1"):
        pool.create_local_pool(-1, owner="test")
    assert_everything_returned(pool)


@pytest.mark.parametrize("order", ["cancel first", "destroy first"])
def test_a_batch_given_up_while_pools_are_destroyed_leaks_nothing(order: str) -> None:
    """B27, by meaning: in either order of the two calls, and with segments in use returned last."""
    network = NetworkBufferPool(6, 64)
    pools = [network.create_local_pool(1, owner=name) for name in ("one", "other")]
    in_use = [(pool, drained(pool)) for pool in pools]
    batches: list[list[MemorySegment]] = []
    request = network.request_exclusive(4, batches.append, owner="gate")
    pool, segments = in_use[0]
    pool.recycle(segments.pop())
    ways = [request.cancel, pools[0].destroy, pools[1].destroy]
    for way in ways if order == "cancel first" else reversed(ways):
        way()
        network.check_invariants()
    for pool, segments in in_use:
        for segment in segments:
            pool.recycle(segment)
    assert batches == []
    assert_everything_returned(network)


def test_a_batch_waits_for_what_pools_have_in_use() -> None:
    """B2, B12, for exclusive segments: they are gathered one by one, before any pool gets more."""
    network = NetworkBufferPool(6, 64)
    pool = network.create_local_pool(1, owner="test")
    in_use = drained(pool)
    batches: list[list[MemorySegment]] = []
    network.request_exclusive(3, batches.append, owner="first gate")
    network.request_exclusive(2, batches.append, owner="second gate")
    assert pool.size == 1
    for number in range(5):
        pool.recycle(in_use.pop())
        assert [len(batch) for batch in batches] == [[], [], [3], [3], [3, 2]][number]
    assert pool.request() is None
    pool.recycle(in_use.pop())
    assert pool.request() is not None


def test_returned_segments_go_to_an_exclusive_request_before_any_pool() -> None:
    """A channel cannot request its partition without its exclusive segments."""
    network = NetworkBufferPool(6, 64)
    first = exclusive(network, 2)
    greedy = network.create_local_pool(0, owner="greedy")
    in_use = drained(greedy)
    hungry = network.create_local_pool(1, owner="hungry")
    batches: list[list[MemorySegment]] = []
    network.request_exclusive(2, batches.append, owner="gate")
    network.return_exclusive(first)
    assert [len(batch) for batch in batches] == [2]
    assert hungry.request() is None
    greedy.recycle(in_use.pop())
    assert hungry.request() is not None


def test_a_segment_that_one_pool_no_longer_wants_goes_to_the_next() -> None:
    """B12, B25."""
    network = NetworkBufferPool(3, 64)
    third = network.create_local_pool(0, owner="third")
    in_use = drained(third)
    first, second = (network.create_local_pool(0, owner=name) for name in ("first", "second"))
    first.resize(0)
    third.recycle(in_use.pop())
    assert first.request() is None
    assert second.request() is not None


def test_a_cancelled_batch_returns_what_it_has_gathered() -> None:
    """B9."""
    network = NetworkBufferPool(4, 64)
    pool = network.create_local_pool(1, owner="test")
    in_use = drained(pool)
    batches: list[list[MemorySegment]] = []
    request = network.request_exclusive(3, batches.append, owner="gate")
    pool.recycle(in_use.pop())
    pool.recycle(in_use.pop())
    assert not pool.availability.available
    request.cancel()
    request.cancel()
    assert batches == []
    assert pool.size == 4
    assert len(drained(pool)) == 2
    assert network.statistics().exclusive == 0


def test_a_timed_out_request_names_the_holders_and_returns_its_segments() -> None:
    """B10, and FLINK-12852: the pools that hold more than they require are named, largest first."""
    network = NetworkBufferPool(10, 64)
    few = network.create_local_pool(0, 2, owner="few")
    many = network.create_local_pool(0, 5, owner="many")
    in_use = [few.request(), *(many.request() for _ in range(4))]
    assert all(in_use)
    network.create_local_pool(0, 1, owner="idle")
    kept = exclusive(network, 2)
    batches: list[list[MemorySegment]] = []
    request = network.request_exclusive(5, batches.append, owner="gate of join")

    error = request.time_out(30_000.0)

    for part in (
        "gate of join got 2 of its 5 exclusive buffers within 30000 ms",
        "held by many (4), few (1), gates as exclusive buffers (2): ",
        "network_memory_bytes",
        "buffers_request_timeout_ms",
    ):
        assert part in str(error)
    assert network.statistics().exclusive == 2
    network.return_exclusive(kept)
    assert not batches


def test_where_gates_took_nothing_only_pools_are_named_as_holders() -> None:
    network = NetworkBufferPool(2, 64)
    assert network.describe_holders() == "owners that have been closed"
    pool = network.create_local_pool(0, owner="sort")
    assert len(drained(pool)) == 2
    assert network.describe_holders() == "sort (2)"


def test_cancelling_a_complete_batch_is_harmless() -> None:
    network = NetworkBufferPool(4, 64)
    batches: list[list[MemorySegment]] = []
    request = network.request_exclusive(3, batches.append, owner="gate")
    request.cancel()
    assert network.statistics().exclusive == 3
    network.return_exclusive(batches[0])
    assert_everything_returned(network)


def test_a_batch_that_is_given_back_from_its_own_callback_serves_the_next() -> None:
    """A gate that fails while it requests its partitions releases itself at once."""
    network = NetworkBufferPool(4, 64)
    pool = network.create_local_pool(0, owner="test")
    in_use = drained(pool)
    served: list[str] = []

    def give_back(segments: list[MemorySegment]) -> None:
        served.append(f"first {len(segments)}")
        network.return_exclusive(segments)

    def keep(segments: list[MemorySegment]) -> None:
        served.append(f"second {len(set(map(id, segments)))}")

    network.request_exclusive(2, give_back, owner="first gate")
    network.request_exclusive(2, keep, owner="second gate")
    pool.recycle(in_use.pop())
    pool.recycle(in_use.pop())
    assert served == ["first 2", "second 2"]
    counts = network.statistics()
    assert (counts.free, counts.exclusive, pool.held) == (0, 2, 2)


def test_an_error_in_a_callback_leaves_the_accounts_right() -> None:
    network = NetworkBufferPool(4, 64)

    def fail(segments: list[MemorySegment]) -> None:
        raise RuntimeError(f"no use for {len(segments)}")

    with pytest.raises(RuntimeError, match="no use for 2"):
        network.request_exclusive(2, fail, owner="gate")
    assert len(exclusive(network, 2)) == 2
    counts = network.statistics()
    assert (counts.free, counts.exclusive) == (0, 4)


# -- life ------------------------------------------------------------------------------------------


def test_statistics_follow_what_happens() -> None:
    """B7."""
    network = NetworkBufferPool(10, 64)
    assert network.statistics() == (10, 10, 0, 0, 0, 0, 64)
    pool = network.create_local_pool(3, owner="test")
    assert network.statistics() == (10, 9, 3, 0, 6, 1, 64)
    (segment, *_) = drained(pool)
    assert network.statistics() == (10, 0, 3, 0, 6, 1, 64)
    pool.recycle(segment)
    pool.destroy()
    assert network.statistics() == (10, 1, 0, 0, 0, 0, 64)


def test_memory_in_segments_and_in_bytes() -> None:
    """B7, section 5: total, available and used."""
    network = NetworkBufferPool(10, 64)
    assert len(exclusive(network, 4)) == 4
    counts = network.statistics()
    assert (counts.total, counts.free, counts.used) == (10, 6, 4)
    memory = (
        counts.total_memory_bytes, counts.available_memory_bytes, counts.used_memory_bytes
    )  # fmt: skip
    assert memory == (640, 384, 256)


def test_the_demand_may_exceed_what_there_is() -> None:
    """Section 5, RequestedMemoryUsage: a pool's maximum, or twice its requirement if it has
    none."""
    network = NetworkBufferPool(10, 64)
    pool = network.create_local_pool(2, 7, owner="bounded")
    assert network.statistics().requested_memory_usage_percent == 70
    network.create_local_pool(1, owner="unbounded")
    assert network.statistics().requested_memory_usage_percent == 90
    exclusive(network, 2)
    assert network.statistics().requested_memory_usage_percent == 110
    pool.destroy()
    assert network.statistics().requested_memory_usage_percent == 40


def test_an_empty_pool_reports_nothing() -> None:
    """B7."""
    network = NetworkBufferPool(0, 64)
    assert network.statistics() == (0, 0, 0, 0, 0, 0, 64)
    assert network.statistics().requested_memory_usage_percent == 0
    with pytest.raises(InsufficientNetworkBuffersError):
        network.create_local_pool(1, owner="test")
    assert network.create_local_pool(0, owner="test").request() is None


def test_a_destroyed_pool_makes_nothing_more() -> None:
    """B7, B28."""
    network = NetworkBufferPool(10, 64)
    network.destroy()
    with pytest.raises(BufferPoolDestroyedError):
        network.create_local_pool(1, owner="test")
    with pytest.raises(BufferPoolDestroyedError):
        exclusive(network, 1)


def test_segments_returned_after_the_end_are_dropped() -> None:
    network = NetworkBufferPool(4, 64)
    taken = exclusive(network, 2)
    pool = network.create_local_pool(1, owner="test")
    (segment, *_) = drained(pool)
    pool.destroy()
    network.destroy()
    network.return_exclusive(taken)
    pool.recycle(segment)
    assert network.statistics().free == 0


def test_a_pool_in_use_is_not_destroyed() -> None:
    network = NetworkBufferPool(10, 64)
    pool = network.create_local_pool(1, owner="partition p")
    with pytest.raises(
        LocalProtocolError, match="1 local pools are in use, the first by partition"
    ):
        network.destroy()
    pool.destroy()
    network.destroy()


def test_memory_is_allocated_once_and_in_full() -> None:
    network = NetworkBufferPool(3, 48)
    taken = exclusive(network, 3)
    assert [segment.capacity for segment in taken] == [48, 48, 48]
    network.return_exclusive(taken)
    assert {id(segment) for segment in exclusive(network, 3)} == {id(segment) for segment in taken}


# -- any history -----------------------------------------------------------------------------------


@dataclass(eq=False)
class Customer:
    """A listener of one pool that takes or refuses the segments it is offered."""

    willing: bool
    segments: list[MemorySegment] = field(default_factory=list)
    destroyed: bool = False

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        if self.willing:
            self.segments.append(segment)
        return self.willing

    def notify_buffer_destroyed(self) -> None:
        self.destroyed = True


@dataclass(eq=False)
class Batch:
    """A request for exclusive segments, and the segments that it got."""

    number: int
    request: SegmentRequest | None = None
    segments: list[MemorySegment] | None = None

    def complete(self, segments: list[MemorySegment]) -> None:
        assert self.segments is None, "handed over twice"
        self.segments = segments


SUBPARTITIONS = 2

NUMBERS = st.integers(0, 5)
CHOICES = st.integers(0, 1_000)


class PoolHistories(RuleBasedStateMachine):
    """B22, invariant I3: after any order of calls every segment is in exactly one place, and no
    request waits while a segment is free. When everything is returned, everything is free."""

    @initialize(total=st.integers(0, 24))
    def make(self, total: int) -> None:
        self.network = NetworkBufferPool(total, 1)
        self.pools: list[LocalBufferPool] = []
        self.destroyed: list[LocalBufferPool] = []
        self.held: list[tuple[LocalBufferPool, int | None, MemorySegment]] = []
        self.customers: list[tuple[LocalBufferPool, Customer]] = []
        self.batches: list[Batch] = []

    # requests

    @rule(
        required=NUMBERS,
        more=st.integers(0, 8) | st.none(),
        quota=st.integers(1, 4),
        overdraft_max=st.integers(0, 3),
    )
    def create_pool(self, required: int, more: int | None, quota: int, overdraft_max: int) -> None:
        counts = self.network.statistics()
        fits = counts.required + counts.exclusive + required <= counts.total
        try:
            pool = self.network.create_local_pool(
                required,
                None if more is None else required + more,
                owner="test",
                subpartitions=SUBPARTITIONS,
                buffers_per_subpartition_max=quota,
                overdraft_max=overdraft_max,
            )
        except InsufficientNetworkBuffersError:
            assert not fits
        else:
            assert fits
            self.pools.append(pool)

    @precondition(lambda self: self.pools)
    @rule(choice=CHOICES, subpartition=st.sampled_from([None, 0, 1]))
    def take(self, choice: int, subpartition: int | None) -> None:
        pool = self.pools[choice % len(self.pools)]
        idle = pool.statistics().idle
        segment = pool.request(subpartition)
        if segment is not None:
            self.held.append((pool, subpartition, segment))
        assert segment is not None or not idle

    @precondition(lambda self: self.pools)
    @rule(choice=CHOICES, willing=st.booleans())
    def listen(self, choice: int, willing: bool) -> None:
        pool = self.pools[choice % len(self.pools)]
        idle = pool.statistics().idle
        customer = Customer(willing)
        assert pool.add_listener(customer) == (not idle)
        if not idle:
            self.customers.append((pool, customer))

    @precondition(lambda self: self.customers)
    @rule(choice=CHOICES)
    def stop_listening(self, choice: int) -> None:
        pool, customer = self.customers[choice % len(self.customers)]
        pool.remove_listener(customer)

    @rule(number=NUMBERS)
    def ask_for_exclusive(self, number: int) -> None:
        counts = self.network.statistics()
        fits = counts.required + counts.exclusive + number <= counts.total
        batch = Batch(number)
        try:
            batch.request = self.network.request_exclusive(number, batch.complete, owner="test")
        except InsufficientNetworkBuffersError:
            assert not fits
        else:
            assert fits
            self.batches.append(batch)

    @precondition(lambda self: self.pools)
    @rule(choice=CHOICES, more=NUMBERS)
    def resize(self, choice: int, more: int) -> None:
        pool = self.pools[choice % len(self.pools)]
        pool.resize(pool.required + more)

    # returns

    @precondition(lambda self: self.held)
    @rule(choice=CHOICES)
    def give_back(self, choice: int) -> None:
        pool, subpartition, segment = self.held.pop(choice % len(self.held))
        if subpartition is None:
            pool.recycle(segment)
        else:
            pool.recyclers[subpartition].recycle(segment)

    @precondition(lambda self: any(customer.segments for _, customer in self.customers))
    @rule()
    def customers_give_back(self) -> None:
        for pool, customer in self.customers:
            while customer.segments:
                pool.recycle(customer.segments.pop())

    @precondition(lambda self: self.batches)
    @rule(choice=CHOICES)
    def give_up_exclusive(self, choice: int) -> None:
        batch = self.batches.pop(choice % len(self.batches))
        assert batch.request is not None
        batch.request.cancel()
        if batch.segments is not None:
            self.network.return_exclusive(batch.segments)

    @precondition(lambda self: self.pools)
    @rule(choice=CHOICES)
    def destroy_pool(self, choice: int) -> None:
        pool = self.pools.pop(choice % len(self.pools))
        waiting = pool.statistics().listeners
        pool.destroy()
        self.destroyed.append(pool)
        told = [customer for of, customer in self.customers if of is pool and customer.destroyed]
        assert len(told) == waiting

    # invariants

    def everywhere(self) -> list[MemorySegment]:
        """Return the segments outside of the pools."""
        segments = [segment for _, _, segment in self.held]
        for _, customer in self.customers:
            segments += customer.segments
        for batch in self.batches:
            assert batch.request is not None
            segments += batch.segments if batch.segments is not None else batch.request.segments
        return segments

    @invariant()
    def every_segment_is_in_one_place(self) -> None:
        outside = self.everywhere()
        assert len(set(map(id, outside))) == len(outside), "a segment has two owners"
        idle = sum(pool.statistics().idle for pool in self.pools)
        counts = self.network.statistics()
        assert counts.free + idle + len(outside) == counts.total

    @invariant()
    def batches_are_whole_or_wait_for_what_is_not_there(self) -> None:
        waiting = [batch for batch in self.batches if batch.segments is None]
        assert all(
            len(batch.segments) == batch.number
            for batch in self.batches
            if batch.segments is not None
        )
        assert not waiting or self.network.statistics().free == 0

    @invariant()
    def nobody_waits_for_what_is_free(self) -> None:
        free = self.network.statistics().free
        for pool in self.pools:
            counts = pool.statistics()
            if not counts.idle and pool.held < counts.size:
                assert free == 0, "a pool below its size has none though some are free"

    def teardown(self) -> None:
        if not hasattr(self, "network"):
            return
        while self.batches:
            self.give_up_exclusive(0)
        while self.pools:
            self.destroy_pool(0)
        while self.held:
            self.give_back(0)
        self.customers_give_back()
        assert all(pool.held == 0 for pool in self.destroyed)
        assert_everything_returned(self.network)
        self.network.destroy()


PoolHistories.TestCase.settings = settings(max_examples=150, stateful_step_count=50)
TestPoolHistories = PoolHistories.TestCase
