from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.buffer import BufferRecycler
from flinknet.buffer.local_pool import NO_LARGE_RECORDS, LargeRecordLimits, LocalBufferPool
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.segment import MemorySegment
from flinknet.consumer.buffer_manager import BufferManager, GateBuffers, gate_buffers
from tests.unit.arrangements import assert_everything_returned

Taken = tuple[MemorySegment, BufferRecycler]


class Arranged:
    """Managers over one floating pool; ``credits`` counts the free buffers told to each."""

    def __init__(
        self,
        managers: int,
        *,
        exclusive: int,
        floating: int,
        quota: int = 1000,
        large: LargeRecordLimits = NO_LARGE_RECORDS,
    ) -> None:
        self.network = NetworkBufferPool(managers * exclusive + floating + large.extra_buffers, 64)
        self.pool = self.network.create_local_pool(
            floating, floating, owner="gate", buffers_per_subpartition_max=quota, large=large
        )
        self.credits = [0] * managers
        self.managers = [
            BufferManager(self.network, self.pool, partial(self._on_available, index))
            for index in range(managers)
        ]
        for manager in self.managers:
            self.network.request_exclusive(exclusive, manager.add_exclusive, owner="gate")

    def _on_available(self, index: int, number: int) -> None:
        self.credits[index] += number

    def drain_pool(self) -> list[MemorySegment]:
        taken = []
        while (segment := self.pool.request()) is not None:
            taken.append(segment)
        return taken


def taken_from(manager: BufferManager) -> Taken:
    taken = manager.take()
    assert taken is not None
    return taken


def requested(pool: LocalBufferPool) -> MemorySegment:
    segment = pool.request()
    assert segment is not None
    return segment


# -- how many --------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2, 499, 500, 999, 1000, 5000])
def test_a_streaming_gate(channels: int) -> None:
    """B30: 2 exclusive buffers for each channel, and 1 to 8 floating ones."""
    assert gate_buffers(channels, 2, 8) == (2, 1, 8, 2 * channels + 8)


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (499, (2, 1, 8, 1006)),
        (500, (1, 500, 508, 1008)),
        (999, (1, 1, 1007, 2006)),
        (1000, (0, 1000, 2008, 2008)),
    ],
)
def test_a_gate_with_a_limit(channels: int, expected: tuple[int, int, int, int]) -> None:
    """B30: at most 1000 are required; beyond that, exclusive buffers become floating ones."""
    exclusive, floating_min, floating_max, total = expected
    assert gate_buffers(channels, 2, 8, 1000) == (exclusive, floating_min, floating_max, total)


@pytest.mark.parametrize(
    ("channels", "limit", "expected"),
    [
        (1, None, GateBuffers(0, 1, 10, 10)),
        (4, None, GateBuffers(0, 4, 16, 16)),
        (100, 3, GateBuffers(0, 3, 208, 208)),
    ],
)
def test_a_gate_without_credit_has_one_buffer_per_channel_at_least(
    channels: int, limit: int | None, expected: GateBuffers
) -> None:
    """At most 2n + 8, as before Flink 1.5."""
    assert gate_buffers(channels, 2, 8, limit, flow_control="off") == expected


@pytest.mark.parametrize("limit", [None, 1000])
def test_a_gate_without_exclusive_buffers(limit: int | None) -> None:
    """B30."""
    assert gate_buffers(1001, 0, 8, limit) == (0, 1, 8, 8)


@given(
    st.integers(0, 3000), st.integers(0, 4), st.integers(1, 16), st.integers(1, 5000) | st.none()
)
def test_a_gate_always_has_a_floating_buffer(
    channels: int, per_channel: int, floating: int, limit: int | None
) -> None:
    """Census 1.6 rule 12 (FLINK-24035): at least one is required, so that no gate deadlocks."""
    need = gate_buffers(channels, per_channel, floating, limit)
    exclusive = need.exclusive_per_channel * channels
    assert 0 <= need.exclusive_per_channel <= per_channel
    assert 1 <= need.floating_min <= need.floating_max
    assert exclusive + need.floating_max == need.target_total == channels * per_channel + floating
    if limit is not None:
        assert exclusive + need.floating_min <= limit


# -- floating buffers by backlog -------------------------------------------------------------------


def test_floating_buffers_follow_the_requirement() -> None:
    """G1: 16 segments, 2 exclusive, 14 floating."""
    arranged = Arranged(1, exclusive=2, floating=14)
    manager, pool = arranged.managers[0], arranged.pool
    exclusive, recycler = taken_from(manager)
    assert recycler is manager
    floating = [requested(pool), requested(pool)]

    def state() -> tuple[int, int, bool, int, int]:
        """Return the available, required, waiting, listening and idle (in the pool) counts."""
        counts = pool.statistics()
        return manager.available(), manager.required, manager.waiting, counts.listeners, counts.idle

    manager.require(14 + 2)
    assert state() == (13, 16, True, 1, 0)
    manager.require(16 + 2)
    assert state() == (13, 18, True, 1, 0)
    manager.recycle(exclusive)
    assert state() == (14, 18, True, 1, 0)
    pool.recycle(floating.pop())
    assert state() == (15, 18, True, 1, 0)
    manager.require(13 + 2)
    assert state() == (15, 15, True, 1, 0)
    pool.recycle(floating.pop())
    assert state() == (15, 15, False, 0, 1)
    manager.require(15 + 2)
    assert state() == (16, 17, True, 1, 0)
    assert arranged.credits == [12 + 1 + 1 + 1]


def test_more_than_required_goes_back_to_the_pool() -> None:
    """G3: backlog 12, then 10: recycling frees floating buffers, 14 stay available for 12, and no
    credit arises."""
    arranged = Arranged(1, exclusive=2, floating=14)
    manager, pool = arranged.managers[0], arranged.pool
    exclusive, _ = taken_from(manager)
    floating = requested(pool)
    manager.require(12 + 2)
    assert (manager.available(), manager.waiting, pool.statistics().idle) == (14, False, 0)
    manager.require(10 + 2)
    assert (manager.available(), manager.required) == (14, 12)
    credit = arranged.credits[0]
    manager.recycle(exclusive)
    assert (manager.available(), manager.required, pool.statistics().idle) == (14, 12, 1)
    pool.recycle(floating)
    assert (manager.available(), manager.required, pool.statistics().idle) == (14, 12, 2)
    assert arranged.credits[0] == credit


def test_starved_channels_get_one_buffer_each() -> None:
    """G4: 3 channels wait, 3 buffers are recycled."""
    arranged = Arranged(3, exclusive=2, floating=3)
    held = arranged.drain_pool()
    for manager in arranged.managers:
        manager.require(8 + 2)
        assert manager.waiting
    for number in range(3):
        arranged.pool.recycle(held.pop())
        assert arranged.credits == [1] * (number + 1) + [0] * (2 - number)
    assert [manager.available() for manager in arranged.managers] == [3, 3, 3]
    assert all(manager.waiting for manager in arranged.managers)


def test_a_channel_that_needs_no_more_lets_the_next_one_have_it() -> None:
    """G4, B20."""
    arranged = Arranged(2, exclusive=1, floating=1)
    held = arranged.drain_pool()
    satisfied, starved = arranged.managers
    satisfied.require(2)
    starved.require(2)
    satisfied.require(1)
    arranged.pool.recycle(held.pop())
    assert arranged.credits == [0, 1]
    assert (satisfied.waiting, starved.waiting) == (False, False)


def test_a_channel_returns_no_required_buffers() -> None:
    """Census 1.6 rule 5: it returns only buffers over its requirement, though others wait."""
    arranged = Arranged(2, exclusive=1, floating=1)
    manager, starved = arranged.managers
    exclusive, _ = taken_from(manager)
    manager.require(1)
    starved.require(2)
    manager.require(2)
    assert (manager.available(), manager.waiting, starved.waiting) == (1, True, True)
    manager.recycle(exclusive)
    assert (manager.available(), starved.available()) == (2, 1)
    assert arranged.credits == [2, 0]


def test_each_frame_lowers_the_requirement_to_zero() -> None:
    """G17."""
    arranged = Arranged(1, exclusive=2, floating=8)
    manager = arranged.managers[0]
    manager.require(3)
    seen = []
    for _ in range(3):
        taken_from(manager)
        seen.append(manager.required)
    assert seen == [2, 1, 0]
    assert manager.take() is None
    assert manager.required == 0


def test_floating_buffers_are_used_first() -> None:
    """Census 1.6 rule 5."""
    arranged = Arranged(1, exclusive=2, floating=4)
    manager = arranged.managers[0]
    manager.require(5)
    recyclers = [taken_from(manager)[1] for _ in range(5)]
    assert recyclers == [arranged.pool] * 3 + [manager] * 2
    assert manager.take() is None


def test_without_a_requirement_nothing_is_borrowed() -> None:
    arranged = Arranged(1, exclusive=2, floating=4)
    manager = arranged.managers[0]
    manager.require(2)
    assert (manager.available(), manager.waiting, arranged.credits) == (2, False, [0])


@pytest.mark.parametrize("waits", [False, True])
def test_a_backlog_beyond_an_ordinary_quota_widens_the_pool(waits: bool) -> None:
    """It also does so while the channel waits for a buffer, which the channel then gets."""
    arranged = Arranged(1, exclusive=2, floating=1, quota=3, large=LargeRecordLimits(0, 4))
    (manager,) = arranged.managers
    if waits:
        manager.require(3 + 2)
        assert (manager.waiting, manager.available(), arranged.credits) == (True, 3, [1])
    manager.require(4 + 2)
    assert (manager.waiting, manager.available(), arranged.credits) == (False, 6, [4])
    arranged.pool.check_invariants()


def test_a_widened_pool_still_has_an_end() -> None:
    arranged = Arranged(1, exclusive=2, floating=1, quota=3, large=LargeRecordLimits(0, 4))
    (manager,) = arranged.managers
    manager.require(20 + 2)
    assert (manager.waiting, manager.available()) == (True, 2 + 1 + 4)


# -- giving back -----------------------------------------------------------------------------------


def test_a_blocked_channel_gives_its_floating_buffers_back() -> None:
    """Census 1.6 rule 8."""
    arranged = Arranged(1, exclusive=0, floating=4)
    manager = arranged.managers[0]
    manager.require(3)
    assert (manager.available(), arranged.credits) == (3, [3])
    manager.release_floating()
    assert (manager.available(), manager.required) == (0, 0)
    assert arranged.pool.statistics().idle == 4


def test_releasing_gives_everything_back() -> None:
    """G6 to G10, by meaning: buffers in use at that moment follow when they are recycled."""
    arranged = Arranged(2, exclusive=2, floating=3)
    manager, other = arranged.managers
    first = requested(arranged.pool)
    manager.require(3 + 2)
    assert manager.waiting
    taken = [taken_from(manager) for _ in range(3)]
    manager.release()
    manager.release()
    assert manager.statistics() == (2, 0, 0, 0, False)
    assert arranged.pool.statistics().listeners == 0
    credit = list(arranged.credits)
    for segment, recycler in taken:
        recycler.recycle(segment)
    arranged.pool.recycle(first)
    manager.require(5)
    assert (manager.available(), arranged.credits) == (0, credit)
    other.release()
    arranged.pool.destroy()
    assert_everything_returned(arranged.network)


def test_a_released_channel_refuses_a_floating_buffer() -> None:
    """B20: a buffer offered to a released channel goes to the next listener."""
    arranged = Arranged(2, exclusive=0, floating=1)
    held = arranged.drain_pool()
    left, stays = arranged.managers
    left.require(1)
    stays.require(1)
    left.release()
    arranged.pool.recycle(held.pop())
    assert (left.available(), stays.available()) == (0, 1)


def test_an_error_while_credit_is_told_loses_no_buffer() -> None:
    """G5, by meaning: the caller of recycle gets the error, the channel keeps the buffer, and the
    next listener gets the next buffer."""
    arranged = Arranged(1, exclusive=0, floating=2)
    held = arranged.drain_pool()

    def fail(number: int) -> None:
        raise RuntimeError(f"{number} buffers could not be announced")

    failing = BufferManager(arranged.network, arranged.pool, fail)
    failing.require(1)
    arranged.managers[0].require(1)
    with pytest.raises(RuntimeError, match="1 buffers"):
        arranged.pool.recycle(held.pop())
    assert failing.available() == 1
    arranged.pool.check_invariants()
    arranged.pool.recycle(held.pop())
    assert (arranged.managers[0].available(), arranged.credits) == (1, [1])
    failing.release()
    arranged.managers[0].release()
    arranged.pool.destroy()
    assert_everything_returned(arranged.network)


def test_a_destroyed_pool_ends_the_waiting() -> None:
    """B21."""
    arranged = Arranged(1, exclusive=0, floating=1)
    arranged.drain_pool()
    manager = arranged.managers[0]
    manager.require(1)
    assert manager.waiting
    arranged.pool.destroy()
    assert not manager.waiting


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["backlog", "frame", "frame", "recycle", "recycle", "block", "release"]),
        st.integers(0, 2),
        st.integers(0, 9),
    ),
    max_size=60,
)


@given(st.integers(0, 2), st.integers(1, 6), STEPS)
def test_credit_is_what_is_free(
    exclusive: int, floating: int, steps: list[tuple[str, int, int]]
) -> None:
    """G6 to G10, invariant I4: after any order of backlogs, frames, recycles and releases, the
    announced and unused credit of a channel equals its free buffers. A channel waits exactly
    when it is short of buffers, and no buffer is lost."""
    arranged = Arranged(3, exclusive=exclusive, floating=floating)
    arranged.credits = [exclusive] * 3
    held: list[Taken] = []
    released: set[int] = set()
    for name, index, number in steps:
        manager = arranged.managers[index]
        if name == "backlog":
            manager.require(number + exclusive)
        elif name == "frame" and arranged.credits[index]:
            arranged.credits[index] -= 1
            held.append(taken_from(manager))
        elif name == "recycle" and held:
            segment, recycler = held.pop(number % len(held))
            recycler.recycle(segment)
        elif name == "block" and not exclusive:
            manager.release_floating()
            arranged.credits[index] = 0
        elif name == "release" and number == 0:
            manager.release()
            released.add(index)
            arranged.credits[index] = 0
        for each, manager in enumerate(arranged.managers):
            assert manager.available() == arranged.credits[each]
            if each in released:
                assert not manager.waiting
            elif manager.available() < manager.required:
                assert manager.waiting, "short of buffers, and nobody knows"
    for manager in arranged.managers:
        manager.release()
    for segment, recycler in held:
        recycler.recycle(segment)
    arranged.pool.destroy()
    assert_everything_returned(arranged.network)
