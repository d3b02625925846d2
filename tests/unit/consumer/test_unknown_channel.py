"""A channel without a producer has no data. It can only be released or replaced."""

from __future__ import annotations

import pytest

from flinknet.buffer.buffer import Buffer
from flinknet.consumer.input_channel import UnknownLocation
from flinknet.consumer.unknown_channel import UnknownInputChannel
from tests.unit.consumer.noting_gate import NotingGate

LOCATION = UnknownLocation("p", 0)


@pytest.fixture
def channel() -> UnknownInputChannel:
    return UnknownInputChannel(NotingGate(), 3, LOCATION)


def test_a_channel_without_a_producer_has_nothing(channel: UnknownInputChannel) -> None:
    assert channel.poll() is None
    assert channel.buffers_in_use == 0
    counts = channel.statistics()
    assert (counts.channel, counts.kind, counts.location) == (3, "unknown", LOCATION)
    assert (counts.queued_buffers, counts.buffers_in, counts.released) == (0, 0, False)
    channel.check_invariants()


def test_announcements_without_a_producer_do_nothing(channel: UnknownInputChannel) -> None:
    channel.announce_buffer_size(10)
    channel.announce_credit()


def test_it_takes_no_part_in_a_checkpoint(channel: UnknownInputChannel) -> None:
    """Row 46: its task is not ready for a checkpoint."""
    stored: list[Buffer] = []
    assert not channel.start_persisting(1, stored.append)
    channel.stop_persisting(1)
    assert not channel.convert_to_priority_event(1)
    assert stored == []


def test_it_is_released_once_and_for_all(channel: UnknownInputChannel) -> None:
    channel.release()
    channel.release()
    assert channel.released
    assert channel.statistics().released


def test_calls_that_need_a_producer_are_programming_errors(
    channel: UnknownInputChannel,
) -> None:
    """No data has been delivered yet, so there is nothing to answer."""
    with pytest.raises(AssertionError, match="resumed"):
        channel.resume_consumption()
    with pytest.raises(AssertionError, match="acknowledged"):
        channel.acknowledge_all_data_processed()
