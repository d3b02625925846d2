"""The buffers of a channel without credit: the gate's pool, one frame at a time."""

from __future__ import annotations

import pytest

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.consumer.channel_buffers import BufferManagerStatistics
from flinknet.consumer.shared_buffers import SharedBuffers
from tests.unit.arrangements import assert_everything_returned


class Arranged:
    """A pool of two segments that three channels share."""

    def __init__(self) -> None:
        self.network = NetworkBufferPool(2, 64)
        self.pool = self.network.create_local_pool(2, 2, owner="gate g")
        self.told: list[int] = []
        self.channels = [
            SharedBuffers(self.pool, lambda _, index=index: self.told.append(index))  # type: ignore[misc]
            for index in range(3)
        ]

    def check(self) -> None:
        self.pool.check_invariants()
        for channel in self.channels:
            channel.check_invariants()

    def close(self) -> None:
        for channel in self.channels:
            channel.release()
        self.pool.destroy()
        assert_everything_returned(self.network)


@pytest.fixture
def arranged() -> Arranged:
    return Arranged()


def test_buffers_come_from_the_pool_and_go_back_to_it(arranged: Arranged) -> None:
    taken = [arranged.channels[0].take(), arranged.channels[1].take()]
    assert arranged.pool.statistics().in_use == 2
    for pair in taken:
        assert pair is not None
        pair[1].recycle(pair[0])
    arranged.check()
    assert arranged.told == []
    arranged.close()


def test_a_waiting_channel_is_notified_of_a_free_buffer(arranged: Arranged) -> None:
    """The order is first come, first served, and the buffer is kept for the notified channel."""
    first, second, third = arranged.channels
    held = [first.take(), first.take()]
    assert second.take() is None
    assert second.take() is None  # a second request does not wait twice
    assert third.take() is None
    assert second.waiting
    arranged.check()
    for pair in held:
        assert pair is not None
        pair[1].recycle(pair[0])
        arranged.check()
    assert arranged.told == [1, 2]
    assert (second.available(), third.available()) == (1, 1)
    for channel in (second, third):
        pair = channel.take()
        assert pair is not None
        pair[1].recycle(pair[0])
    arranged.close()


def test_a_released_channel_refuses_what_it_waited_for(arranged: Arranged) -> None:
    first, second, _ = arranged.channels
    held = [first.take(), first.take()]
    assert second.take() is None
    second.release()
    second.release()
    for pair in held:
        assert pair is not None
        assert not second.notify_buffer_available(pair[0])
        pair[1].recycle(pair[0])
    assert arranged.told == []
    arranged.check()
    arranged.close()


def test_a_released_channel_gives_back_what_was_kept_for_it(arranged: Arranged) -> None:
    first, second, _ = arranged.channels
    held = [first.take(), first.take()]
    assert second.take() is None
    for pair in held:
        assert pair is not None
        pair[1].recycle(pair[0])
    assert second.available() == 1
    second.release()
    assert arranged.pool.statistics().idle == 2
    arranged.close()


def test_a_destroyed_pool_ends_the_waiting(arranged: Arranged) -> None:
    first, second, _ = arranged.channels
    held = [first.take(), first.take()]
    assert second.take() is None
    arranged.pool.destroy()
    assert not second.waiting
    for pair in held:
        assert pair is not None
        pair[1].recycle(pair[0])
    arranged.close()


def test_a_channel_owns_no_buffers(arranged: Arranged) -> None:
    """A backlog makes it request none either, as there is no credit to announce."""
    channel = arranged.channels[0]
    channel.add_exclusive([])
    channel.require(2)
    assert arranged.pool.statistics().in_use == 0
    segment = arranged.pool.request()
    assert segment is not None
    with pytest.raises(AssertionError, match="no buffers of its own"):
        channel.add_exclusive([segment])
    arranged.pool.recycle(segment)
    arranged.close()


def test_reserved_buffers_are_counted_as_floating(arranged: Arranged) -> None:
    first, second, _ = arranged.channels
    held = [first.take(), first.take()]
    assert second.take() is None
    assert second.statistics() == BufferManagerStatistics(0, 0, 0, 0, waiting=True)
    for pair in held:
        assert pair is not None
        pair[1].recycle(pair[0])
    assert second.statistics() == BufferManagerStatistics(0, 0, 1, 0, waiting=False)
    arranged.close()
