from __future__ import annotations

from typing import Any

import pytest

from flinknet.buffer.local_pool import LargeRecordLimits, LocalBufferPool
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.segment import MemorySegment
from flinknet.errors import BufferPoolDestroyedError, LocalProtocolError
from tests.unit.arrangements import assert_everything_returned

TOTAL = 32


def pool_of(
    size: int, *, required: int = 1, total: int = TOTAL, **options: Any
) -> tuple[LocalBufferPool, NetworkBufferPool]:
    """Make a pool whose size the test sets, in a network pool with more segments than it needs."""
    network = NetworkBufferPool(total, 64)
    pool = network.create_local_pool(required, total, owner="test", **options)
    pool.resize(size)
    return pool, network


def take(
    pool: LocalBufferPool, number: int, subpartition: int | None = None
) -> list[MemorySegment]:
    """Request segments and expect to get each of them."""
    taken = []
    for _ in range(number):
        segment = pool.request(subpartition)
        assert segment is not None
        taken.append(segment)
    return taken


def wakes(pool: LocalBufferPool) -> list[bool]:
    """Subscribe to the pool's availability; the returned list is filled by the call."""
    woken: list[bool] = []
    pool.availability.subscribe(lambda: woken.append(True))
    return woken


class Listener:
    """A BufferListener that takes ``wanted`` segments, one at a time, and registers again after
    each."""

    def __init__(self, pool: LocalBufferPool, *, wanted: int = 1) -> None:
        self._pool = pool
        self.wanted = wanted
        self.segments: list[MemorySegment] = []
        self.offers = 0
        self.destroyed = 0

    def notify_buffer_available(self, segment: MemorySegment) -> bool:
        self.offers += 1
        if len(self.segments) >= self.wanted:
            return False
        self.segments.append(segment)
        if len(self.segments) < self.wanted:
            self._pool.add_listener(self)
        return True

    def notify_buffer_destroyed(self) -> None:
        self.destroyed += 1


# -- taking and giving back ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_pool_keeps_one_segment_ahead(size: int) -> None:
    """B13: after i of n requests it holds min(i + 1, n) segments; the request after the nth gets
    none."""
    pool, network = pool_of(size, required=1)
    assert pool.held == 1
    for taken in range(1, size + 1):
        assert pool.request() is not None
        assert pool.held == min(taken + 1, size)
        assert pool.statistics().in_use == taken
        assert network.statistics().free == TOTAL - pool.held
    assert pool.request() is None


def test_a_recycled_segment_can_be_taken_again() -> None:
    pool, _ = pool_of(2)
    first, second = take(pool, 2)
    pool.recycle(first)
    assert pool.request() is first
    pool.recycle(second)
    assert pool.request() is second
    assert pool.request() is None


def test_a_pool_is_never_over_its_maximum() -> None:
    """B3, B23: with a maximum of 2, a size of 3 is capped at 2, and the size can go back to 1."""
    network = NetworkBufferPool(10, 64)
    pool = network.create_local_pool(1, 2, owner="test")
    assert pool.size == 2
    pool.resize(3)
    assert pool.size == 2
    taken = take(pool, 2)
    assert pool.request() is None
    pool.resize(1)
    pool.recycle(taken.pop())
    assert (pool.size, pool.held, network.statistics().free) == (1, 1, 9)
    pool.recycle(taken.pop())
    assert (pool.held, pool.statistics().idle) == (1, 1)


def test_a_maximum_below_the_requirement_is_refused() -> None:
    network = NetworkBufferPool(10, 64)
    with pytest.raises(LocalProtocolError, match="maximum of 2, below the 3"):
        network.create_local_pool(3, 2, owner="test")
    assert_everything_returned(network)


# -- size ------------------------------------------------------------------------------------------


def test_a_pool_never_shrinks_below_its_requirement() -> None:
    """B14."""
    pool, _ = pool_of(5, required=4)
    with pytest.raises(LocalProtocolError, match="requires 4 segments, not 3"):
        pool.resize(3)
    assert pool.size == 5


def test_a_destroyed_pool_changes_its_size_without_fetching() -> None:
    """B14."""
    pool, network = pool_of(2)
    pool.destroy()
    pool.resize(5)
    assert (pool.size, pool.held, network.statistics().free) == (5, 0, TOTAL)


@pytest.mark.parametrize(
    ("large", "small", "overdraft_max", "requested", "overdraft", "ordinary", "idle"),
    [
        (7, 5, 2, 5, 0, 5, 0),
        (6, 4, 2, 2, 0, 3, 1),
        (7, 5, 2, 7, 2, 5, 0),
        (9, 5, 3, 9, 4, 5, 0),
        (7, 5, 4, 7, 2, 5, 0),
        (7, 5, 6, 9, 4, 5, 0),
    ],
)
def test_a_shrinking_pool_owes_what_is_in_use(
    large: int,
    small: int,
    overdraft_max: int,
    requested: int,
    overdraft: int,
    ordinary: int,
    idle: int,
) -> None:
    """B15: idle segments go back at once, segments in use count as overdraft."""
    pool, _ = pool_of(large, overdraft_max=overdraft_max)
    taken = take(pool, requested)
    pool.resize(small)
    counts = pool.statistics()
    assert (counts.overdraft, pool.held - counts.overdraft, counts.idle) == (
        overdraft,
        ordinary,
        idle,
    )
    assert counts.available == (idle > 0)
    for segment in taken:
        pool.recycle(segment)
    counts = pool.statistics()
    assert (counts.overdraft, counts.in_use, counts.available) == (0, 0, True)
    assert pool.held <= small


@pytest.mark.parametrize(
    ("small", "large", "overdraft_max", "requested", "overdraft"),
    [(5, 7, 2, 6, 0), (5, 7, 2, 7, 0), (5, 6, 2, 7, 1), (5, 8, 4, 9, 1)],
)
def test_a_growing_pool_makes_overdraft_ordinary(
    small: int, large: int, overdraft_max: int, requested: int, overdraft: int
) -> None:
    """The converse of B15: the new size covers the overdraft first."""
    pool, _ = pool_of(small, overdraft_max=overdraft_max)
    taken = take(pool, requested)
    assert pool.statistics().overdraft == requested - small
    pool.resize(large)
    counts = pool.statistics()
    assert counts.overdraft == overdraft
    assert counts.available == (requested < large)
    for segment in taken:
        pool.recycle(segment)


def test_shrinking_with_all_in_use_returns_segments_one_by_one() -> None:
    """B19."""
    pool, network = pool_of(10)
    taken = take(pool, 10)
    pool.resize(5)
    free = network.statistics().free
    for returned in range(1, 6):
        pool.recycle(taken.pop())
        assert network.statistics().free == free + returned
        assert not pool.availability.available
    pool.recycle(taken.pop())
    assert network.statistics().free == free + 5
    assert pool.availability.available
    for segment in taken:
        pool.recycle(segment)
    assert (pool.held, pool.statistics().idle) == (5, 5)


def test_shrinking_with_all_idle_returns_them_at_once() -> None:
    """B19."""
    pool, network = pool_of(10)
    for segment in take(pool, 10):
        pool.recycle(segment)
    assert pool.statistics().idle == 10
    pool.resize(5)
    assert pool.statistics().idle == 5
    assert network.statistics().free == TOTAL - 5


# -- availability ----------------------------------------------------------------------------------


def test_a_pool_is_available_while_a_segment_is_idle() -> None:
    """A19, B11: it changes when the last segment is taken and when the first one comes back."""
    pool, _ = pool_of(2)
    first, second = take(pool, 2)
    assert not pool.availability.available
    pool.recycle(first)
    assert pool.availability.available
    pool.recycle(second)
    assert pool.availability.available


def test_resizing_wakes_earlier_waiters() -> None:
    """B24: the earlier waiter is called; scaling down keeps or ends the availability."""
    pool, _ = pool_of(1)
    (taken,) = take(pool, 1)
    woken = wakes(pool)
    assert not pool.availability.available
    pool.resize(5)
    assert woken
    assert pool.availability.available
    pool.resize(2)
    assert pool.availability.available
    pool.resize(1)
    assert not pool.availability.available
    woken = wakes(pool)
    assert not woken
    pool.recycle(taken)
    assert woken


def test_a_pool_waits_for_the_network_pool_when_that_is_empty() -> None:
    """B25 (FLINK-20547): a segment that another pool recycles makes this pool available again."""
    network = NetworkBufferPool(2, 64)
    first = network.create_local_pool(1, owner="first")
    (of_first,) = take(first, 1)
    second_of_first = first.request()
    assert second_of_first is not None
    second = network.create_local_pool(1, owner="second")
    assert not second.availability.available
    woken = wakes(second)
    first.recycle(of_first)  # over its size of 1 now: it goes to the network pool
    assert woken
    assert second.availability.available
    taken = take(second, 1)
    assert not second.availability.available
    second.recycle(taken.pop())
    first.recycle(second_of_first)
    assert first.availability.available


@pytest.mark.parametrize("size", [4, 8, 12])
@pytest.mark.parametrize("quota", [3, 5, 10])
@pytest.mark.parametrize("overdraft_max", [0, 1, 2])
def test_quota_and_overdraft_make_a_pool_unavailable(
    size: int, quota: int, overdraft_max: int
) -> None:
    """B17: the pool serves a record in progress beyond both limits, but no new record may begin."""
    pool, _ = pool_of(
        size, subpartitions=4, buffers_per_subpartition_max=quota, overdraft_max=overdraft_max
    )
    taken: list[tuple[int, MemorySegment]] = []
    held = [0, 0, 0, 0]
    for number in range(size):
        subpartition = 0 if number < quota else 1 + number % 3
        (segment,) = take(pool, 1, subpartition)
        taken.append((subpartition, segment))
        held[subpartition] += 1
        assert pool.availability.available == (len(taken) < size and max(held) < quota)
    overdraft = [(1, take(pool, 1, 1)[0]) for _ in range(overdraft_max)]
    assert not pool.availability.available
    assert pool.statistics().overdraft == overdraft_max
    for subpartition in range(4):
        assert pool.request(subpartition) is None
    for borrower, borrowed in overdraft:
        pool.recycle_from(borrower, borrowed)
        assert not pool.availability.available
    assert pool.statistics().overdraft == 0
    for subpartition, segment in taken:
        pool.recycle_from(subpartition, segment)
        held[subpartition] -= 1
        assert pool.availability.available == (max(held) < quota)


def test_a_quota_is_soft() -> None:
    """B17 (FLINK-27522): a subpartition at its quota still gets an idle segment."""
    pool, _ = pool_of(4, subpartitions=2, buffers_per_subpartition_max=2)
    taken = take(pool, 2, 0)
    assert not pool.availability.available
    taken += take(pool, 2, 0)
    assert pool.request(0) is None
    woken = wakes(pool)
    for _ in range(2):
        pool.recycle_from(0, taken.pop())
        assert not woken, "still at its quota"
    pool.recycle_from(0, taken.pop())
    assert woken
    pool.recycle_from(0, taken.pop())


def test_a_recycler_returns_to_the_quota_of_its_subpartition() -> None:
    pool, _ = pool_of(4, subpartitions=2, buffers_per_subpartition_max=1)
    (segment,) = take(pool, 1, 1)
    assert not pool.availability.available
    pool.recyclers[1].recycle(segment)
    assert pool.availability.available
    (segment,) = take(pool, 1)
    assert pool.availability.available, "nobody's quota"
    pool.recycle(segment)


# -- large records ---------------------------------------------------------------------------------


def test_the_quota_is_larger_while_the_records_of_a_subpartition_are_large() -> None:
    pool, _ = pool_of(
        8, subpartitions=2, buffers_per_subpartition_max=2, large=LargeRecordLimits(4, 0)
    )
    pool.expect(0, has_large_records=True)
    taken = take(pool, 3, 0)
    assert pool.availability.available
    taken += take(pool, 1, 0)
    assert not pool.availability.available, "at the larger quota"
    pool.recycle_from(0, taken.pop())
    pool.expect(1, has_large_records=True)
    pool.expect(0, has_large_records=False)
    assert pool.availability.available, "the records of the other one are large"

    woken = wakes(pool)
    pool.expect(1, has_large_records=False)
    assert not pool.availability.available, "over the smaller quota now"
    pool.recycle_from(0, taken.pop())
    assert not pool.availability.available, "still at it"
    pool.recycle_from(0, taken.pop())
    assert pool.availability.available
    assert len(woken) == 1
    pool.recycle_from(0, taken.pop())


def test_a_subpartition_with_small_buffers_stops_no_other_with_large_records() -> None:
    """Debloating keeps the buffers of a slow consumer small.

    The other subpartition may use its whole larger quota meanwhile.
    """
    pool, _ = pool_of(
        8, subpartitions=2, buffers_per_subpartition_max=2, large=LargeRecordLimits(4, 0)
    )
    slow = take(pool, 2, 0)
    assert not pool.availability.available
    pool.expect(1, has_large_records=True)
    fast = take(pool, 3, 1)
    assert pool.availability.available
    for subpartition, segments in enumerate((slow, fast)):
        for segment in segments:
            pool.recycle_from(subpartition, segment)


def test_a_subpartition_over_its_quota_may_continue_with_large_records() -> None:
    pool, _ = pool_of(
        8, subpartitions=1, buffers_per_subpartition_max=2, large=LargeRecordLimits(4, 0)
    )
    taken = take(pool, 3, 0)
    woken = wakes(pool)
    pool.expect(0, has_large_records=True)
    assert woken
    assert pool.availability.available
    for segment in taken:
        pool.recycle_from(0, segment)


def test_a_pool_widens_once_for_large_records() -> None:
    network = NetworkBufferPool(32, 64)
    pool = network.create_local_pool(
        2,
        4,
        owner="test",
        subpartitions=2,
        buffers_per_subpartition_max=2,
        large=LargeRecordLimits(5, 3),
    )
    assert (pool.size, pool.statistics().maximum) == (4, 4)
    pool.expect(0, has_large_records=False)
    assert pool.size == 4
    for subpartition in (0, 1, 0):
        pool.expect(subpartition, has_large_records=True)
        assert (pool.size, pool.statistics().maximum) == (7, 7)
        assert network.statistics().requested == 7
    pool.expect(0, has_large_records=False)
    pool.expect(1, has_large_records=False)
    assert pool.size == 7, "what is in use would only become overdraft"


def test_without_limits_for_large_records_they_change_nothing() -> None:
    network = NetworkBufferPool(32, 64)
    pool = network.create_local_pool(
        2, 4, owner="test", subpartitions=1, buffers_per_subpartition_max=2
    )
    pool.expect(0, has_large_records=True)
    pool.widen()
    assert (pool.size, pool.statistics().maximum, network.statistics().requested) == (4, 4, 4)
    taken = take(pool, 2, 0)
    assert not pool.availability.available, "at the ordinary quota"
    for segment in taken:
        pool.recycle_from(0, segment)


def test_a_pool_that_has_widened_takes_nothing_that_others_require() -> None:
    network = NetworkBufferPool(6, 64)
    first, second = (
        network.create_local_pool(
            1, 2, owner=name, buffers_per_subpartition_max=2, large=LargeRecordLimits(8, 8)
        )
        for name in ("first", "second")
    )
    first.widen()
    assert (first.size, second.size) == (4, 2)
    second.widen()
    assert (first.size, second.size) == (3, 3)
    third = network.create_local_pool(4, 4, owner="third")
    assert (first.size, second.size, third.size) == (1, 1, 4)
    network.check_invariants()


@pytest.mark.parametrize(("backlog", "size"), [(0, 2), (3, 2), (4, 6)])
def test_a_backlog_over_the_quota_means_large_records(backlog: int, size: int) -> None:
    network = NetworkBufferPool(32, 64)
    pool = network.create_local_pool(
        1, 2, owner="gate", buffers_per_subpartition_max=3, large=LargeRecordLimits(0, 4)
    )
    pool.expect_backlog(backlog)
    assert pool.size == size


def test_widening_serves_listeners() -> None:
    network = NetworkBufferPool(32, 64)
    pool = network.create_local_pool(
        1, 1, owner="gate", buffers_per_subpartition_max=3, large=LargeRecordLimits(0, 4)
    )
    taken = take(pool, 1)
    listener = Listener(pool)
    pool.add_listener(listener)
    pool.widen()
    assert listener.offers == 1
    for segment in taken + listener.segments:
        pool.recycle(segment)


def test_without_an_allowance_a_pool_makes_no_difference() -> None:
    """A backlog makes no difference either, if the pool has no quota."""
    pool, network = pool_of(4, required=4, total=4, subpartitions=1)
    pool.expect(0, has_large_records=True)
    pool.expect_backlog(1_000_000)
    pool.widen()
    assert pool.size == 4
    pool.destroy()
    assert_everything_returned(network)


def test_a_destroyed_pool_does_not_widen() -> None:
    network = NetworkBufferPool(8, 64)
    pool = network.create_local_pool(
        1, 1, owner="gate", buffers_per_subpartition_max=3, large=LargeRecordLimits(0, 4)
    )
    pool.destroy()
    pool.widen()
    assert pool.statistics().maximum == 1
    assert_everything_returned(network)


# -- overdraft -------------------------------------------------------------------------------------


def test_overdraft_comes_only_when_the_pool_has_reached_its_size() -> None:
    network = NetworkBufferPool(4, 64)
    greedy = network.create_local_pool(1, owner="greedy")
    of_greedy = take(greedy, 4)
    pool = network.create_local_pool(1, 2, owner="test", overdraft_max=2)
    assert pool.request() is None, "below its size it waits"
    for segment in of_greedy[:2]:
        greedy.recycle(segment)
    taken = take(pool, 2)
    assert pool.request() is None, "the network pool has none for it"
    greedy.recycle(of_greedy[2])
    greedy.recycle(of_greedy[3])
    assert pool.statistics().overdraft == 0
    greedy.destroy()
    taken += take(pool, 2)
    assert pool.statistics().overdraft == 2
    assert pool.request() is None
    for segment in taken:
        pool.recycle(segment)


def test_usage_is_over_one_while_overdraft_is_in_use() -> None:
    pool, network = pool_of(2, overdraft_max=1)
    taken = take(pool, 1)
    assert pool.statistics().usage == 0.5
    taken += take(pool, 2)
    assert pool.statistics().usage == 1.5
    for segment in taken:
        pool.recycle(segment)
    empty = network.create_local_pool(0, 0, owner="empty")
    assert (empty.size, empty.statistics().usage) == (0, 0.0)


def test_waking_has_a_waiter_look_again_and_changes_nothing() -> None:
    pool, _ = pool_of(1)
    (taken,) = take(pool, 1)
    woken = wakes(pool)
    pool.wake()
    assert woken
    assert not pool.availability.available
    pool.recycle(taken)
    pool.wake()
    assert pool.availability.available


# -- listeners -------------------------------------------------------------------------------------


def test_a_listener_is_refused_while_a_segment_is_idle() -> None:
    """B20."""
    pool, _ = pool_of(1)
    listener = Listener(pool)
    assert not pool.add_listener(listener)
    (taken,) = take(pool, 1)
    assert pool.add_listener(listener)
    pool.recycle(taken)
    assert listener.segments == [taken]
    pool.recycle(taken)


def test_each_recycled_segment_serves_one_listener_in_order() -> None:
    """B20: first come, first served, each once."""
    pool, _ = pool_of(2)
    taken = take(pool, 2)
    listeners = [Listener(pool) for _ in range(3)]
    for listener in listeners:
        assert pool.add_listener(listener)
    pool.recycle(taken[0])
    assert [len(listener.segments) for listener in listeners] == [1, 0, 0]
    pool.recycle(taken[1])
    assert [len(listener.segments) for listener in listeners] == [1, 1, 0]
    assert pool.statistics().listeners == 1
    assert not pool.availability.available


def test_a_listener_that_needs_none_lets_the_segment_pass() -> None:
    """B20: one recycled buffer is offered once to each of two listeners."""
    pool, _ = pool_of(1)
    (taken,) = take(pool, 1)
    content, needy = Listener(pool, wanted=0), Listener(pool)
    pool.add_listener(content)
    pool.add_listener(needy)
    pool.recycle(taken)
    assert (content.offers, needy.offers, needy.segments) == (1, 1, [taken])
    assert pool.statistics().listeners == 0


def test_a_segment_that_no_listener_needs_stays_in_the_pool() -> None:
    pool, _ = pool_of(1)
    (taken,) = take(pool, 1)
    pool.add_listener(Listener(pool, wanted=0))
    pool.recycle(taken)
    assert pool.availability.available
    assert pool.statistics().idle == 1


def test_a_listener_that_left_is_not_asked() -> None:
    pool, _ = pool_of(1)
    (taken,) = take(pool, 1)
    listener = Listener(pool)
    pool.add_listener(listener)
    pool.remove_listener(listener)
    pool.remove_listener(listener)  # harmless a second time
    pool.recycle(taken)
    assert listener.offers == 0


def test_a_growing_pool_serves_its_listeners() -> None:
    pool, _ = pool_of(1)
    taken = take(pool, 1)
    listeners = [Listener(pool) for _ in range(3)]
    for listener in listeners:
        pool.add_listener(listener)
    pool.resize(3)
    assert [len(listener.segments) for listener in listeners] == [1, 1, 0]
    pool.resize(5)
    assert [len(listener.segments) for listener in listeners] == [1, 1, 1]
    assert pool.availability.available
    for segment in taken + [listener.segments[0] for listener in listeners]:
        pool.recycle(segment)


def test_a_listener_that_wants_more_stands_in_line_again() -> None:
    """B20: every listener gets one segment before any gets its second, also from the network
    pool."""
    pool, _ = pool_of(1)
    taken = take(pool, 1)
    greedy, modest = Listener(pool, wanted=3), Listener(pool)
    pool.add_listener(greedy)
    pool.add_listener(modest)
    pool.resize(2)
    assert (len(greedy.segments), len(modest.segments)) == (1, 0)
    pool.resize(3)
    assert (len(greedy.segments), len(modest.segments)) == (1, 1)
    pool.resize(5)
    assert (len(greedy.segments), len(modest.segments)) == (3, 1)
    assert pool.statistics().listeners == 0
    for segment in taken + greedy.segments + modest.segments:
        pool.recycle(segment)


def test_the_last_segment_that_one_listener_refuses_goes_to_the_next() -> None:
    """B20, for a segment from the network pool that is the last one up to the pool's size."""
    pool, _ = pool_of(1)
    taken = take(pool, 1)
    content, needy = Listener(pool, wanted=0), Listener(pool)
    pool.add_listener(content)
    pool.add_listener(needy)
    pool.resize(2)
    assert (content.offers, len(needy.segments)) == (1, 1)
    pool.recycle(taken[0])
    pool.recycle(needy.segments[0])


def test_a_segment_freed_elsewhere_serves_listeners() -> None:
    network = NetworkBufferPool(2, 64)
    other = network.create_local_pool(1, owner="other")
    of_other = take(other, 2)
    pool = network.create_local_pool(1, owner="test")
    content, needy = Listener(pool, wanted=0), Listener(pool)
    assert pool.add_listener(content)
    assert pool.add_listener(needy)
    other.recycle(of_other.pop())
    assert (content.offers, len(needy.segments)) == (1, 1)
    other.recycle(of_other.pop())
    pool.recycle(needy.segments[0])


@pytest.mark.parametrize("overdraft_max", [0, 10])
def test_segments_returned_by_one_pool_satisfy_many_listeners_of_another(
    overdraft_max: int,
) -> None:
    """B26: 512 requests are met by recycling half of the segments and destroying the pool."""
    network = NetworkBufferPool(512, 16)
    first = network.create_local_pool(1, owner="first", overdraft_max=overdraft_max)
    taken = take(first, 512)
    second = network.create_local_pool(1, owner="second", overdraft_max=overdraft_max)
    listeners = [Listener(second) for _ in range(512)]
    for listener in listeners:
        assert second.add_listener(listener)
    for segment in taken[:256]:
        first.recycle(segment)
    first.destroy()
    for segment in taken[256:]:
        first.recycle(segment)
    assert {len(listener.segments) for listener in listeners} == {1}
    assert len({id(listener.segments[0]) for listener in listeners}) == 512
    assert second.statistics().in_use == 512


# -- the end ---------------------------------------------------------------------------------------


def test_destroying_wakes_everybody_and_returns_what_is_idle() -> None:
    """B21, B28: each listener is told once; a waiter for availability is called and gets the
    error."""
    pool, network = pool_of(3)
    taken = take(pool, 3)
    listener = Listener(pool)
    pool.add_listener(listener)
    woken = wakes(pool)
    pool.destroy()
    pool.destroy()
    assert listener.destroyed == 1
    assert woken
    with pytest.raises(BufferPoolDestroyedError, match="test"):
        pool.request()
    assert not pool.add_listener(listener)
    assert network.statistics().local_pools == 0
    for returned, segment in enumerate(taken, start=1):
        pool.recycle(segment)
        assert network.statistics().free == TOTAL - 3 + returned
    assert listener.offers == 0
    assert_everything_returned(network)


def test_a_destroyed_pool_is_not_offered_what_it_returns() -> None:
    """The pool waits for more segments when it is destroyed and returns some of its own."""
    network = NetworkBufferPool(3, 64)
    greedy = network.create_local_pool(0, owner="greedy")
    of_greedy = take(greedy, 2)
    pool = network.create_local_pool(1, owner="test")
    of_pool = take(pool, 1)
    assert pool.request() is None
    pool.recycle(of_pool.pop())
    pool.destroy()
    assert pool.held == 0
    assert greedy.held == 3
    for segment in of_greedy:
        greedy.recycle(segment)
    greedy.destroy()
    assert_everything_returned(network)
