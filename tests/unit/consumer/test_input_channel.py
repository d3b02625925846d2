"""The life cycle and the location of every input channel."""

from __future__ import annotations

import logging

import pytest

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.channel_end import ChannelEnd
from flinknet.consumer import input_channel as module
from flinknet.consumer.input_channel import (
    TRANSITIONS,
    ChannelEvent,
    ChannelState,
    PartitionLocation,
    UnknownLocation,
)
from flinknet.consumer.local_channel import LocalInputChannel
from flinknet.consumer.unknown_channel import UnknownInputChannel
from flinknet.errors import LocalProtocolError, ProducerFailedError
from tests.unit.arrangements import assert_everything_returned, make_partition, put
from tests.unit.consumer.noting_gate import NotingGate
from tests.unit.tables import named, shown_in, way_to

S, E = ChannelState, ChannelEvent
LOCATION = PartitionLocation("127.0.0.1:7001", "p", 2)


@pytest.mark.parametrize("event", E)
@pytest.mark.parametrize("state", S)
def test_every_pair_of_state_and_event(state: ChannelState, event: ChannelEvent) -> None:
    partition, pool = make_partition()
    gate = NotingGate()
    channel = LocalInputChannel(gate, 0, LOCATION)

    def happens(event: ChannelEvent) -> None:
        match event:
            case E.ATTACH:
                channel.on_view_created(partition.create_view(0, channel))
            case E.FAIL:
                channel.fail(ProducerFailedError("boom"))
            case E.RELEASE:
                channel.release()

    for step in way_to(state, S.NEW, TRANSITIONS):
        happens(step)
    assert channel.state is state
    if (state, event) in TRANSITIONS:
        happens(event)
        assert channel.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(AssertionError, match="must not happen"):
            channel._become(event)
        assert channel.state is state
    assert channel.released is (channel.state is S.RELEASED)
    channel.release()
    partition.release()
    assert_everything_returned(pool)


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


def test_the_first_error_counts_and_none_after_the_release() -> None:
    channel = LocalInputChannel(NotingGate(), 0, LOCATION)
    channel.fail(ValueError("first"))
    channel.fail(ValueError("second"))
    assert str(channel.error) == "first"
    released = LocalInputChannel(NotingGate(), 0, LOCATION)
    released.release()
    released.fail(ValueError("late"))
    assert released.error is None


def test_an_error_of_flinknet_names_the_channel() -> None:
    channel = LocalInputChannel(NotingGate(), 3, LOCATION)
    channel.fail(ProducerFailedError("boom"))
    assert str(channel.error) == f"{channel}: boom"
    assert str(channel) == "channel 3 (p[2] at 127.0.0.1:7001) of gate gate"


def test_a_place_says_whether_it_is_known() -> None:
    assert str(LOCATION) == "p[2] at 127.0.0.1:7001"
    assert str(UnknownLocation("p", 2)) == "p[2], not yet located"


def test_a_channel_counts_what_it_is_polled_for_and_says_how_the_data_ended() -> None:
    partition, pool = make_partition()
    channel = LocalInputChannel(NotingGate(), 0, LOCATION)
    channel.on_view_created(partition.create_view(0, channel))
    put(partition, 0, b"data")
    partition.notify_end_of_data(drain=False)
    assert channel.drained is None
    for polled in (channel.poll(), channel.poll()):
        assert polled is not None
        polled[0].recycle()
    assert (channel.buffers_in, channel.bytes_in) == (2, len(b"data") + 2)
    assert channel.drained is False
    assert not channel.finished
    channel.acknowledge_all_data_processed()
    with pytest.raises(LocalProtocolError, match="acknowledged"):
        channel.acknowledge_all_data_processed()
    partition.finish()
    polled = channel.poll()
    assert polled is not None
    polled[0].recycle()
    assert channel.finished
    channel.release()
    with pytest.raises(LocalProtocolError, match="was acknowledged after its release"):
        channel.acknowledge_all_data_processed()
    partition.release()
    assert_everything_returned(pool)


def test_an_event_that_ends_nothing_leaves_the_channel_where_it_is() -> None:
    partition, pool = make_partition()
    channel = LocalInputChannel(NotingGate(), 0, LOCATION)
    channel.on_view_created(partition.create_view(0, channel))
    partition.broadcast_event(DataType.PRIORITIZED_EVENT_BUFFER, b"barrier")
    polled = channel.poll()
    assert polled is not None
    assert channel.end is ChannelEnd.DATA
    assert channel.drained is None
    channel.release()
    partition.release()
    assert_everything_returned(pool)


def test_a_channel_without_a_producer_has_nothing_to_store_or_to_convert() -> None:
    """Row 58: of a local channel only polled buffers are stored."""
    partition, pool = make_partition()
    channel = LocalInputChannel(NotingGate(), 0, LOCATION)
    stored: list[Buffer] = []
    assert channel.start_persisting(1, stored.append)
    put(partition, 0, b"data")
    channel.on_view_created(partition.create_view(0, channel))
    channel.stop_persisting(1)
    polled = channel.poll()
    assert polled is not None
    polled[0].recycle()
    assert stored == []
    unknown = UnknownInputChannel(NotingGate(), 0, LOCATION)
    assert not unknown.convert_to_priority_event(1)
    channel.release()
    partition.release()
    assert_everything_returned(pool)


def test_the_life_of_a_channel_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "flinknet.consumer")
    partition, pool = make_partition()
    channel = LocalInputChannel(NotingGate(), 3, LOCATION)
    channel.on_view_created(partition.create_view(0, channel))
    channel.fail(ValueError("boom\x1b"))
    channel.release()
    partition.release()
    assert caplog.messages == [
        f"{channel}: NEW -> ATTACHED",
        f"{channel}: ATTACHED -> FAILED",
        f"{channel} failed: boom\\x1b",
        f"{channel}: FAILED -> RELEASED",
    ]
    assert_everything_returned(pool)


def test_the_end_of_a_channel_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "flinknet.consumer")
    partition, pool = make_partition()
    channel = LocalInputChannel(NotingGate(), 3, LOCATION)
    channel.on_view_created(partition.create_view(0, channel))
    partition.notify_end_of_data()
    assert channel.poll() is not None
    channel.acknowledge_all_data_processed()
    partition.finish()
    assert channel.poll() is not None
    assert caplog.messages[1:] == [
        f"{channel}: its data has ended and has not been acknowledged",
        f"{channel}: its partition has ended",
    ]
    channel.release()
    partition.release()
    assert_everything_returned(pool)
