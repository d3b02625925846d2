from __future__ import annotations

import pytest

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.consumer.input_channel import InputChannel, PartitionLocation, UnknownLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.consumer.unknown_channel import UnknownInputChannel
from flinknet.errors import ClosedResourceError, LocalProtocolError
from flinknet.partition.registry import PartitionRegistry
from tests.unit.arrangements import (
    HERE,
    THERE,
    Client,
    assert_everything_returned,
    connect_local,
    content_of,
    deliver,
    make_config,
    make_partition,
    put,
)

UNKNOWN = UnknownLocation("p", 0)
REMOTE = PartitionLocation(THERE, "p", 0)
LOCAL = PartitionLocation(HERE, "p", 0)


class Arranged:
    """A gate of channels with and without a place; it notes when it could be requested."""

    def __init__(self, *locations: PartitionLocation | UnknownLocation, segments: int = 64) -> None:
        self.pool = NetworkBufferPool(segments, 64)
        self.gate = InputGate("gate", locations, HERE, self.pool, make_config())
        self.ready = 0

    def set_up(self) -> Arranged:
        self.gate.setup(self._on_ready)
        return self

    def _on_ready(self) -> None:
        self.ready += 1

    @property
    def kinds(self) -> list[str]:
        return [channel.kind for channel in self.gate.statistics().channels]

    def close(self) -> None:
        self.gate.release()
        assert_everything_returned(self.pool)


def credit_of(channel: InputChannel) -> int:
    assert isinstance(channel, RemoteInputChannel)
    return channel.initial_credit


def test_a_channel_without_a_place_has_nothing() -> None:
    """I3: the buffers it will need as a remote one are reserved, and nobody else waits for it."""
    arranged = Arranged(UNKNOWN, REMOTE).set_up()
    assert arranged.ready == 1
    assert arranged.kinds == ["unknown", "remote"]
    assert arranged.pool.statistics().exclusive == 4
    assert arranged.gate.poll() is None
    assert arranged.gate.debloating.buffers_in_use == 0
    assert str(arranged.gate.channels[0].location) == "p[0], not yet located"
    deliver(arranged.gate.remote_channels[0], 0, b"of the other")
    polled = arranged.gate.poll()
    assert polled is not None
    polled[1].recycle()
    arranged.close()


def test_a_channel_that_becomes_remote_has_its_buffers_at_once() -> None:
    """I3: the update needs none, though the worker has no more."""
    arranged = Arranged(UNKNOWN, UNKNOWN, segments=5).set_up()
    arranged.gate.update_channel(0, REMOTE)
    channel = arranged.gate.update_channel(1, PartitionLocation(THERE, "p", 1))
    assert arranged.kinds == ["remote", "remote"]
    assert [credit_of(channel) for channel in arranged.gate.channels] == [2, 2]
    assert isinstance(channel, RemoteInputChannel)
    client = Client()
    channel.request(client)
    assert client.sent == [("request", 1)]
    deliver(channel, 0, b"data")
    polled = arranged.gate.poll()
    assert polled is not None
    assert (polled[0], content_of(polled[1])) == (1, b"data")
    polled[1].recycle()
    arranged.close()


def test_a_channel_that_becomes_local_gives_its_buffers_back() -> None:
    """I3, I13."""
    arranged = Arranged(REMOTE, UNKNOWN).set_up()
    arranged.gate.update_channel(1, LOCAL)
    assert arranged.kinds == ["remote", "local"]
    assert arranged.pool.statistics().exclusive == 2
    partition, _ = make_partition(pool=arranged.pool)
    registry = PartitionRegistry(10.0)
    registry.register(partition)
    connect_local(arranged.gate, registry)
    put(partition, 0, b"local")
    partition.flush(0)
    polled = arranged.gate.poll()
    assert polled is not None
    assert (polled[0], content_of(polled[1])) == (1, b"local")
    polled[1].recycle()
    arranged.gate.release()
    partition.release()
    arranged.close()


def test_an_update_may_name_another_partition() -> None:
    """I11: a second attempt of the producer has a name of its own."""
    arranged = Arranged(UNKNOWN).set_up()
    channel = arranged.gate.update_channel(0, PartitionLocation(THERE, "second attempt", 3))
    assert channel.location == (THERE, "second attempt", 3)
    arranged.close()


def test_an_update_before_the_buffers_are_there_does_not_request_anything() -> None:
    """I3: whoever set the gate up is told once, and then every known channel has its buffers."""
    arranged = Arranged(UNKNOWN, UNKNOWN, UNKNOWN, segments=12)
    other = arranged.pool.create_local_pool(1, 8, owner="other")
    held = []
    while (segment := other.request()) is not None:
        held.append(segment)
    arranged.set_up()
    assert not arranged.gate.is_set_up
    arranged.gate.update_channel(0, REMOTE)
    arranged.gate.update_channel(1, LOCAL)
    assert arranged.ready == 0
    assert credit_of(arranged.gate.channels[0]) == 0
    for segment in held:
        other.recycle(segment)
    assert (arranged.ready, arranged.gate.is_set_up) == (1, True)
    assert credit_of(arranged.gate.channels[0]) == 2
    assert arranged.pool.statistics().exclusive == 4
    assert credit_of(arranged.gate.update_channel(2, REMOTE)) == 2
    other.destroy()
    arranged.close()


def test_a_gate_released_before_the_update_leaves_nothing() -> None:
    """I5."""
    arranged = Arranged(UNKNOWN, UNKNOWN, REMOTE).set_up()
    arranged.gate.update_channel(0, REMOTE)
    arranged.close()
    with pytest.raises(ClosedResourceError, match="gate gate has been closed"):
        arranged.gate.update_channel(1, REMOTE)
    assert_everything_returned(arranged.pool)


def test_a_channel_is_updated_once() -> None:
    arranged = Arranged(UNKNOWN, REMOTE).set_up()
    arranged.gate.update_channel(0, LOCAL)
    for index in (0, 1):
        with pytest.raises(LocalProtocolError, match=f"channel {index} of gate gate is known"):
            arranged.gate.update_channel(index, REMOTE)
    for index in (-1, 2):
        with pytest.raises(LocalProtocolError, match=f"there is no channel {index}"):
            arranged.gate.update_channel(index, REMOTE)
    arranged.close()


def test_what_only_a_producer_could_cause_is_a_programming_error() -> None:
    """Nothing has been delivered yet that could be answered."""
    arranged = Arranged(UNKNOWN).set_up()
    (channel,) = arranged.gate.unknown_channels
    with pytest.raises(AssertionError, match="resumed"):
        channel.resume_consumption()
    with pytest.raises(AssertionError, match="acknowledged"):
        arranged.gate.acknowledge(0)
    channel.announce_buffer_size(10)
    assert isinstance(channel, UnknownInputChannel)
    arranged.close()
