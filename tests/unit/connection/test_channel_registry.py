"""The messages of a peer about channels that this side has requested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import WireLimits
from flinknet.connection.channel_registry import ChannelRegistry
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import ProducerFailedError, RemoteProtocolError
from flinknet.wire.buffer_header import BufferHeader
from flinknet.wire.codec import Stall
from tests.unit.arrangements import (
    THERE,
    Client,
    assert_everything_returned,
    content_of,
    make_config,
)
from tests.unit.consumer.noting_gate import NotingGate

DATA = DataType.DATA_BUFFER_WITH_CLEAR_END


class Consumer:
    """Channels with two exclusive buffers each, by their numbers."""

    def __init__(self, channels: int = 2, *, exclusive: int = 2, **options: Any) -> None:
        config = make_config(**options)
        floating = 1 if config.flow_control == "off" else 4
        self.network = NetworkBufferPool(channels * exclusive + floating, 64)
        self.pool = self.network.create_local_pool(1, floating, owner="gate")
        self.registry = ChannelRegistry(config)
        self.channels = [
            RemoteInputChannel(
                NotingGate(),
                index,
                PartitionLocation(THERE, "p", index),
                self.network,
                self.pool,
                config.flow_control,
            )
            for index in range(channels)
        ]
        for channel in self.channels:
            self.network.request_exclusive(exclusive, channel.manager.add_exclusive, owner="gate")
            channel.request(Client())
        self.numbers = [self.registry.add(channel) for channel in self.channels]

    def begin(self, number: int, sequence: int = 0, data_type: DataType = DATA) -> Any:
        """Feed the header of a frame with a body of four bytes."""
        records = int(data_type.is_buffer)
        return self.registry.begin_buffer(
            BufferHeader(number, sequence, 0, data_type, 4, records=records)
        )

    def deliver(self, number: int, sequence: int = 0, data_type: DataType = DATA) -> None:
        """Feed a whole frame."""
        memory = self.begin(number, sequence, data_type)
        memory[:] = b"data"
        memory.release()
        self.registry.end_buffer()
        self.registry.check_invariants()

    def close(self) -> None:
        for channel in self.channels:
            self.registry.remove(channel)
            channel.release()
        self.registry.check_invariants()
        self.pool.destroy()
        assert_everything_returned(self.network)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RemoteProtocolError) as refused:
        call()
    return str(refused.value)


def test_numbers_go_upwards_and_are_never_used_twice() -> None:
    consumer = Consumer()
    assert consumer.numbers == [0, 1]
    consumer.registry.remove(consumer.channels[0])
    consumer.registry.remove(consumer.channels[0])
    assert len(consumer.registry) == 1
    assert consumer.registry.number_of(consumer.channels[0]) is None
    assert consumer.registry.add(consumer.channels[0]) == 2
    assert consumer.registry.number_of(consumer.channels[0]) == 2
    consumer.close()


def test_a_frame_goes_to_the_channel_of_its_number() -> None:
    consumer = Consumer()
    consumer.deliver(1)
    assert consumer.channels[0].poll() is None
    polled = consumer.channels[1].poll()
    assert polled is not None
    assert content_of(polled[0]) == b"data"
    polled[0].recycle()
    assert consumer.registry.buffers_in == 1
    consumer.close()


def test_late_buffers_of_a_closed_channel_are_dropped_and_counted() -> None:
    consumer = Consumer()
    consumer.registry.remove(consumer.channels[0])
    assert consumer.begin(0) is None
    consumer.registry.fail(0, ProducerFailedError("boom"))
    consumer.registry.on_backlog(0, 1)
    assert (consumer.registry.buffers_dropped, consumer.registry.messages_dropped) == (1, 2)
    assert consumer.channels[0].error is None
    consumer.close()


def test_anything_for_a_channel_that_was_never_requested_is_a_violation() -> None:
    consumer = Consumer()
    for say, what in (
        (lambda: consumer.begin(2), "data"),
        (lambda: consumer.registry.fail(2, ProducerFailedError("boom")), "an error"),
        (lambda: consumer.registry.on_backlog(2, 1), "a backlog"),
    ):
        assert refusal(say) == (f"the peer sent {what} for channel 2, which was never requested")
    consumer.close()


def test_an_error_ends_its_channel_and_nothing_may_follow() -> None:
    consumer = Consumer()
    consumer.registry.fail(0, ProducerFailedError("boom"))
    consumer.registry.check_invariants()
    assert "boom" in str(consumer.channels[0].error)
    assert consumer.channels[1].error is None
    assert refusal(lambda: consumer.begin(0)) == (
        "the peer sent data for channel 0, which it has ended with an error"
    )
    consumer.deliver(1)
    consumer.close()


def test_unread_events_are_limited() -> None:
    consumer = Consumer(wire=WireLimits(events_per_channel_max=2))
    event = DataType.EVENT_BUFFER
    consumer.deliver(0, 0, event)
    consumer.deliver(0, 1, event)
    refused = "the peer sent an event without event credit on channel 0: 2 events have arrived"
    assert refused in refusal(lambda: consumer.begin(0, 2, event))
    assert consumer.channels[0].poll() is not None
    assert refused in refusal(lambda: consumer.begin(0, 2, event)), "are not acknowledged"
    assert consumer.channels[0].take_event_credit() == 1
    consumer.deliver(0, 2, event)
    consumer.close()


def test_no_backlog_is_announced_behind_a_block() -> None:
    consumer = Consumer(exclusive=0)
    consumer.deliver(0, 0, DataType.ALIGNED_CHECKPOINT_BARRIER)
    assert "behind an event that blocks it" in refusal(lambda: consumer.registry.on_backlog(0, 1))
    assert consumer.channels[0].poll() is not None
    consumer.channels[0].resume_consumption()
    consumer.registry.on_backlog(0, 1)
    consumer.close()


@pytest.mark.parametrize(("exclusive", "backlog"), [(2, 1), (0, 0)])
def test_only_a_channel_that_began_without_credit_is_announced_a_backlog(
    exclusive: int, backlog: int
) -> None:
    consumer = Consumer(exclusive=exclusive)
    assert f"announced a backlog of {backlog} for channel 0" in refusal(
        lambda: consumer.registry.on_backlog(0, backlog)
    )
    consumer.close()


def test_a_backlog_makes_floating_buffers_into_credit() -> None:
    consumer = Consumer(exclusive=0)
    consumer.registry.on_backlog(0, 3)
    assert consumer.channels[0].statistics().floating_free == 3
    consumer.close()


def test_behind_the_end_of_a_partition_comes_nothing() -> None:
    consumer = Consumer(1)
    for sequence, (data_type, body) in enumerate(
        [(DataType.END_OF_DATA, b"\x91\x01"), (DataType.END_OF_PARTITION, b"\x90")]
    ):
        memory = consumer.registry.begin_buffer(BufferHeader(0, sequence, 0, data_type, len(body)))
        assert isinstance(memory, memoryview)
        memory[:] = body
        memory.release()
        consumer.registry.end_buffer()
        if data_type is DataType.END_OF_DATA:
            assert consumer.channels[0].poll() is not None
            consumer.channels[0].acknowledge_all_data_processed()
    for say in (
        lambda: consumer.registry.fail(0, ProducerFailedError("boom")),
        lambda: consumer.registry.on_backlog(0, 1),
    ):
        assert "behind the end of its partition" in refusal(say)
    consumer.close()


def test_without_credit_a_frame_that_finds_no_buffer_waits() -> None:
    consumer = Consumer(1, exclusive=0, flow_control="off")
    borrowed = consumer.pool.request()
    assert borrowed is not None
    assert consumer.begin(0) is Stall.FOR_MEMORY
    assert consumer.registry.stalled_on is consumer.channels[0]
    consumer.pool.recycle(borrowed)
    consumer.registry.resume()
    assert consumer.registry.stalled_on is None
    consumer.deliver(0)
    with pytest.raises(AssertionError, match="not stalled"):
        consumer.registry.resume()
    consumer.close()


@pytest.mark.parametrize("arriving", [True, False])
def test_a_lost_peer_fails_every_channel(arriving: bool) -> None:
    """A truncated frame returns its buffer."""
    consumer = Consumer()
    if arriving:
        consumer.begin(0).release()
    consumer.registry.lost(ConnectionError("the cable"))
    assert len(consumer.registry) == 0
    assert [str(channel.error) for channel in consumer.channels] == ["the cable"] * 2
    assert consumer.begin(0) is None, "late"
    consumer.close()
