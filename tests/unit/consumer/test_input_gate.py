from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.consumer.end_of_data import EndOfData
from flinknet.consumer.input_channel import InputChannel, PartitionLocation, UnknownLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import (
    ClosedResourceError,
    InsufficientNetworkBuffersError,
    LocalProtocolError,
    PartitionNotFoundError,
    ProducerFailedError,
    RemoteProtocolError,
    RemoteTransportError,
)
from flinknet.partition.registry import PartitionRegistry
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.buffer_header import BufferHeader
from tests.unit.arrangements import (
    HERE,
    THERE,
    Client,
    assert_everything_returned,
    begin,
    connect_local,
    content_of,
    deliver,
    deliver_end,
    deliver_end_of_data,
    end,
    end_data,
    locations,
    make_config,
    make_gate,
    make_partition,
    make_remote_gate,
    put,
)

EVENT = DataType.EVENT_BUFFER
PRIORITY = DataType.PRIORITIZED_EVENT_BUFFER
END_OF_DATA = DataType.END_OF_DATA
END = DataType.END_OF_PARTITION


def poll(gate: InputGate) -> tuple[int, bytes]:
    """Poll a buffer, which must be there, and recycle it."""
    polled = gate.poll()
    assert polled is not None
    index, buffer = polled
    content = content_of(buffer)
    buffer.recycle()
    return index, content


def woken_by(gate: InputGate) -> list[bool]:
    """Subscribe to an unavailable gate's availability; the returned list is filled by the call."""
    assert not gate.availability.available, "a subscriber would be called at once"
    woken: list[bool] = []
    gate.availability.subscribe(lambda: woken.append(True))
    return woken


# -- making and setting up -------------------------------------------------------------------------


def test_a_gate_without_partitions_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="no partition to read"):
        make_gate()


@pytest.mark.parametrize(
    ("addresses", "exclusive", "floating"),
    [((THERE,), 2, 8), ((THERE,) * 5, 10, 8), ((HERE, THERE, HERE), 2, 8), ((HERE, HERE), 0, 0)],
)
def test_a_gate_takes_buffers_for_its_remote_channels(
    addresses: tuple[str, ...], exclusive: int, floating: int
) -> None:
    """B30, I3, I14: exclusive and floating buffers are counted apart, and local channels need
    none."""
    gate, pool = make_gate(*addresses)
    assert pool.statistics().exclusive == exclusive
    counts = gate.statistics()
    assert counts.floating_pool.maximum == floating
    assert counts.floating_pool.size == floating
    assert [channel.exclusive_free for channel in counts.channels] == [
        2 if address == THERE else 0 for address in addresses
    ]
    assert [channel.kind for channel in counts.channels] == [
        "remote" if address == THERE else "local" for address in addresses
    ]
    gate.release()
    assert_everything_returned(pool)


def test_setting_up_requests_no_partition() -> None:
    """I3: the caller of ``setup`` requests the partitions once the exclusive buffers are there."""
    pool = NetworkBufferPool(64, 64)
    gate = InputGate("gate", locations(THERE, HERE), HERE, pool, make_config())
    ready: list[bool] = []
    gate.setup(lambda: ready.append(True))
    assert ready == [True]
    assert [channel.initial_credit for channel in gate.remote_channels] == [2]
    gate.release()


def test_a_gate_waits_for_exclusive_buffers_that_others_still_use() -> None:
    """B2, B29."""
    pool = NetworkBufferPool(12, 64)
    other = pool.create_local_pool(1, owner="other")
    in_use = []
    while (segment := other.request()) is not None:
        in_use.append(segment)
    gate = InputGate("gate", locations(THERE, THERE), HERE, pool, make_config())
    ready: list[bool] = []
    gate.setup(lambda: ready.append(True))
    assert ready == []
    for segment in in_use[:3]:
        other.recycle(segment)
    assert ready == []
    for segment in in_use[3:]:
        other.recycle(segment)
    assert ready == [True]
    assert [channel.initial_credit for channel in gate.remote_channels] == [2, 2]
    gate.release()
    other.destroy()
    assert_everything_returned(pool)


def test_a_gate_released_before_it_was_ready_leaves_nothing() -> None:
    """B9."""
    pool = NetworkBufferPool(6, 64)
    other = pool.create_local_pool(1, owner="other")
    in_use = []
    while (segment := other.request()) is not None:
        in_use.append(segment)
    gate = InputGate("gate", locations(THERE, THERE), HERE, pool, make_config())
    ready: list[bool] = []
    gate.setup(lambda: ready.append(True))
    other.recycle(in_use.pop())
    gate.release()
    for segment in in_use:
        other.recycle(segment)
    assert ready == []
    other.destroy()
    assert_everything_returned(pool)


def test_a_gate_released_as_soon_as_it_is_ready_leaves_nothing() -> None:
    pool = NetworkBufferPool(8, 64)
    gate = InputGate("gate", locations(THERE, THERE), HERE, pool, make_config())
    gate.setup(gate.release)
    assert_everything_returned(pool)


@pytest.mark.parametrize("segments", [0, 4])
def test_a_gate_that_does_not_fit_leaves_nothing_behind(segments: int) -> None:
    """B29: 2 channels need 2 x 2 + 1 buffers."""
    pool = NetworkBufferPool(segments, 64)
    with pytest.raises(InsufficientNetworkBuffersError, match="gate gate needs"):
        gate = InputGate("gate", locations(THERE, THERE), HERE, pool, make_config())
        try:
            gate.setup(lambda: None)
        finally:
            gate.release()
    assert_everything_returned(pool)


def test_a_gate_of_minimal_size_fits() -> None:
    """B29, invariant L1."""
    gate, pool = make_remote_gate(2, segments=5)
    assert gate.statistics().floating_pool.size == 1
    gate.release()
    assert_everything_returned(pool)


def test_a_gate_that_waits_too_long_for_its_buffers_fails() -> None:
    """B10: the error says how many buffers the gate got, and the gate returns them."""
    pool = NetworkBufferPool(6, 64)
    other = pool.create_local_pool(0, owner="other")
    in_use = [segment for _ in range(6) if (segment := other.request()) is not None]
    gate = InputGate("gate", locations(THERE), HERE, pool, make_config())
    gate.time_out_setup(100.0)
    assert gate.failure is None, "it was not asked to set up"
    gate.setup(lambda: None)
    other.recycle(in_use.pop())
    gate.time_out_setup(100.0)
    assert "gate gate got 1 of its 2 exclusive buffers within 100 ms" in str(gate.failure)
    with pytest.raises(InsufficientNetworkBuffersError):
        gate.poll()
    gate.release()
    gate.time_out_setup(100.0)
    for segment in in_use:
        other.recycle(segment)
    other.destroy()
    assert_everything_returned(pool)


def test_a_gate_that_has_its_buffers_does_not_time_out() -> None:
    gate, _ = make_remote_gate(1)
    gate.time_out_setup(100.0)
    assert gate.failure is None
    assert gate.gates == (gate,)
    gate.release()


# -- channels without a place ----------------------------------------------------------------------

UNKNOWN = UnknownLocation("p", 0)
REMOTE = PartitionLocation(THERE, "p", 0)
LOCAL = PartitionLocation(HERE, "p", 0)


class Unplaced:
    """A gate of channels with and without a location; it records when it became ready."""

    def __init__(self, *locations: PartitionLocation | UnknownLocation, segments: int = 64) -> None:
        self.pool = NetworkBufferPool(segments, 64)
        self.gate = InputGate("gate", locations, HERE, self.pool, make_config())
        self.ready = 0

    def set_up(self) -> Unplaced:
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
    """I3: its later buffers as a remote channel are reserved, and the other channels do not wait
    for it."""
    arranged = Unplaced(UNKNOWN, REMOTE).set_up()
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
    """I3: the update needs no further buffers, even if the worker has none left."""
    arranged = Unplaced(UNKNOWN, UNKNOWN, segments=5).set_up()
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
    arranged = Unplaced(REMOTE, UNKNOWN).set_up()
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
    """I11: a second attempt of the producer has a partition name of its own."""
    arranged = Unplaced(UNKNOWN).set_up()
    channel = arranged.gate.update_channel(0, PartitionLocation(THERE, "second attempt", 3))
    assert channel.location == (THERE, "second attempt", 3)
    arranged.close()


def test_an_update_before_the_buffers_are_there_does_not_request_anything() -> None:
    """I3: the gate reports once that it is ready, and every located channel has its buffers
    then."""
    arranged = Unplaced(UNKNOWN, UNKNOWN, UNKNOWN, segments=12)
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
    arranged = Unplaced(UNKNOWN, UNKNOWN, REMOTE).set_up()
    arranged.gate.update_channel(0, REMOTE)
    arranged.close()
    with pytest.raises(ClosedResourceError, match="gate gate has been closed"):
        arranged.gate.update_channel(1, REMOTE)
    assert_everything_returned(arranged.pool)


def test_a_channel_is_updated_once() -> None:
    arranged = Unplaced(UNKNOWN, REMOTE).set_up()
    arranged.gate.update_channel(0, LOCAL)
    for index in (0, 1):
        with pytest.raises(LocalProtocolError, match=f"channel {index} of gate gate is known"):
            arranged.gate.update_channel(index, REMOTE)
    for index in (-1, 2):
        with pytest.raises(LocalProtocolError, match=f"there is no channel {index}"):
            arranged.gate.update_channel(index, REMOTE)
    arranged.close()


# -- polling ---------------------------------------------------------------------------------------


def test_buffers_and_events_come_in_order() -> None:
    """I1: they are interleaved on two channels."""
    gate, _ = make_remote_gate(2)
    first, second = gate.remote_channels
    deliver(first, 0, b"1")
    deliver(second, 0, b"event", data_type=EVENT)
    deliver(first, 1, b"event", data_type=EVENT)
    deliver(second, 1, b"2")
    assert [poll(gate) for _ in range(4)] == [
        (0, b"1"),
        (1, b"event"),
        (0, b"event"),
        (1, b"2"),
    ]
    assert gate.poll() is None


def test_no_channel_starves_another() -> None:
    """Invariant L2, row 43: each channel with data yields one buffer in turn, however many it
    has."""
    gate, _ = make_remote_gate(3)
    for channel, number in zip(gate.remote_channels, (4, 1, 2), strict=True):
        for sequence in range(number):
            deliver(channel, sequence, b"event", data_type=EVENT)
    assert [poll(gate)[0] for _ in range(7)] == [0, 1, 2, 0, 2, 0, 0]


def test_a_channel_is_queued_once() -> None:
    gate, _ = make_remote_gate(2)
    first, second = gate.remote_channels
    deliver(first, 0, b"event", data_type=EVENT)
    gate.notify_channel_non_empty(first)
    gate.notify_channel_non_empty(first)
    assert gate.statistics().channels_queued == 1
    deliver(second, 0, b"event", data_type=EVENT)
    gate.notify_channel_non_empty(second, priority=True)
    assert gate.statistics().channels_queued == 2
    assert [poll(gate)[0] for _ in range(2)] == [1, 0]


def test_a_channel_with_a_priority_event_comes_first() -> None:
    """Row 44, G23: as long as it has a priority event. Then it takes its turn behind the others."""
    gate, _ = make_remote_gate(3)
    first, second, third = gate.remote_channels
    for channel in (first, second, third):
        deliver(channel, 0, b"event", data_type=EVENT)
    deliver(third, 1, b"third's", data_type=PRIORITY)
    deliver(third, 2, b"and again", data_type=PRIORITY)
    deliver(second, 1, b"second's", data_type=PRIORITY)
    assert [poll(gate) for _ in range(6)] == [
        (2, b"third's"),
        (1, b"second's"),
        (2, b"and again"),
        (0, b"event"),
        (1, b"event"),
        (2, b"event"),
    ]
    gate.release()


def test_a_gate_says_that_a_priority_event_is_to_be_polled() -> None:
    """Row 44: priority availability."""
    gate, _ = make_remote_gate(2)
    first, second = gate.remote_channels
    deliver(first, 0, b"event", data_type=EVENT)
    assert not gate.priority_availability.available
    for turn in range(2):
        told: list[bool] = []
        gate.priority_availability.subscribe(lambda told=told: told.append(True))  # type: ignore[misc]
        deliver(second, 2 * turn, b"1", data_type=PRIORITY)
        deliver(second, 2 * turn + 1, b"2", data_type=PRIORITY)
        assert told == [True]
        assert poll(gate) == (1, b"1")
        assert gate.priority_availability.available
        assert poll(gate) == (1, b"2")
        assert not gate.priority_availability.available
    deliver(second, 4, b"1", data_type=PRIORITY)
    gate.release()
    assert not gate.priority_availability.available


def test_a_false_alarm_is_passed_over() -> None:
    gate, _ = make_remote_gate(2)
    gate.notify_channel_non_empty(gate.channels[0])
    deliver(gate.remote_channels[1], 0, b"data")
    assert poll(gate) == (1, b"data")
    assert gate.poll() is None


def test_a_gate_is_available_while_something_may_be_there() -> None:
    """I1, I7."""
    gate, _ = make_remote_gate(1)
    assert not gate.availability.available
    woken = woken_by(gate)
    deliver(gate.remote_channels[0], 0, b"data")
    assert woken
    poll(gate)
    assert gate.poll() is None
    assert not gate.availability.available
    woken = woken_by(gate)
    deliver(gate.remote_channels[0], 1, b"data")
    assert woken


# -- the end ---------------------------------------------------------------------------------------


def test_a_gate_is_finished_when_all_channels_are() -> None:
    """I1, I7: then it stays available, and polling yields nothing."""
    client = Client()
    gate, pool = make_remote_gate(2, client=client)
    end(gate, 0)
    assert poll(gate)[0] == 0
    assert client.sent.count(("close", 0)) == 1
    assert not gate.finished
    assert gate.poll() is None
    assert not gate.availability.available
    end_data(gate, 1)
    assert gate.poll() is None
    woken = woken_by(gate)
    deliver_end(gate.remote_channels[1], 1)
    assert woken
    poll(gate)
    assert gate.finished
    for _ in range(2):
        assert gate.poll() is None
        assert gate.availability.available
    counts = gate.statistics()
    assert (counts.channels_finished, counts.finished) == (2, True)
    gate.release()
    assert_everything_returned(pool)


def test_each_channel_is_acknowledged_for_itself() -> None:
    """D12."""
    client = Client()
    gate, _ = make_remote_gate(2, client=client)
    deliver(gate.remote_channels[1], 0, b"\x91\x01", data_type=END_OF_DATA)
    index, _ = poll(gate)
    gate.acknowledge(index)
    assert [message for message in client.sent if message[0] == "acknowledge"] == [
        ("acknowledge", 1)
    ]


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ([], EndOfData.NOT_END_OF_DATA),
        ([b"\x91\x01"], EndOfData.NOT_END_OF_DATA),
        ([b"\x91\x01", b"\x91\x01"], EndOfData.DRAINED),
        ([b"\x91\x00", b"\x91\x01"], EndOfData.STOPPED),
        ([b"\x91\x00", b"\x91\x00"], EndOfData.STOPPED),
    ],
)
def test_the_data_ends_as_that_of_every_channel(bodies: list[bytes], expected: EndOfData) -> None:
    """I2: all channels DRAIN means drained, one NO_DRAIN means stopped.

    An end counts when it is polled.
    """
    gate, _ = make_remote_gate(2)
    for channel, body in zip(gate.remote_channels, bodies, strict=False):
        deliver(channel, 0, body, data_type=END_OF_DATA)
    assert gate.end_of_data is EndOfData.NOT_END_OF_DATA
    while gate.poll() is not None:
        pass
    assert gate.end_of_data is expected
    assert gate.statistics().end_of_data is expected
    gate.release()


def test_the_data_of_a_channel_is_acknowledged_once_when_it_has_ended() -> None:
    gate, _ = make_remote_gate(2)
    with pytest.raises(LocalProtocolError, match="channel 0 .*: its data has not ended"):
        gate.acknowledge(0)
    deliver_end_of_data(gate.remote_channels[0], 0)
    with pytest.raises(LocalProtocolError, match="its data has not ended"):
        gate.acknowledge(0)
    poll(gate)
    gate.acknowledge(0)
    with pytest.raises(LocalProtocolError, match="has been acknowledged"):
        gate.acknowledge(0)
    end_data(gate, 1)
    gate.release()
    with pytest.raises(LocalProtocolError, match="channel 1 .* acknowledged after its release"):
        gate.acknowledge(1)


# -- failure and release ---------------------------------------------------------------------------


def test_an_error_comes_before_all_data() -> None:
    """G14, I5: every later poll raises it again, as a failed task must not continue."""
    gate, pool = make_remote_gate(3)
    first, second, third = gate.remote_channels
    deliver(first, 0)
    deliver(third, 0)
    second.fail(ProducerFailedError("first cause"))
    for _ in range(3):
        with pytest.raises(ProducerFailedError, match="first cause"):
            gate.poll()
        assert gate.availability.available, "whoever waits would wait for ever"
    gate.release()
    assert_everything_returned(pool)


@pytest.mark.parametrize(
    "happens",
    [
        lambda gate, channel: deliver(channel, 0, b"data"),
        lambda gate, channel: deliver(channel, 0, b"event", data_type=PRIORITY),
        lambda gate, channel: channel.fail(ProducerFailedError("cause")),
        lambda gate, channel: gate.fail(RemoteProtocolError("no record")),
        lambda gate, channel: gate.release(),
    ],
    ids=["data", "priority event", "error of a channel", "error in data", "release"],
)
def test_a_reader_that_waits_is_woken(
    happens: Callable[[InputGate, RemoteInputChannel], None],
) -> None:
    gate, pool = make_remote_gate(1)
    assert gate.poll() is None
    woken = woken_by(gate)
    happens(gate, gate.remote_channels[0])
    assert woken == [True]
    assert gate.availability.available
    gate.release()
    assert_everything_returned(pool)


def test_the_first_error_is_the_one_that_counts() -> None:
    """A failed producer gives its cause before its connection closes.

    The user must see the cause.
    """
    gate, _ = make_remote_gate(3)
    first, second, third = gate.remote_channels
    deliver(first, 0)
    second.fail(ProducerFailedError("first cause"))
    for channel in (first, second, third):
        channel.fail(RemoteTransportError("connection lost"))
    with pytest.raises(ProducerFailedError, match="first cause"):
        gate.poll()


def test_a_callback_gets_the_first_error() -> None:
    """The callback is called once, or immediately if there was an error before."""
    gate, _ = make_remote_gate(1)
    causes = [ProducerFailedError("first cause"), RemoteTransportError("later")]
    told: list[BaseException] = []
    gate.when_failed(told.append)
    for cause in causes:
        gate.fail(cause)
    gate.when_failed(told.append)
    assert told == [causes[0], causes[0]]
    gate.release()


def test_an_error_in_what_was_delivered_ends_the_gate() -> None:
    """The error comes before everything else that the channel holds, including its end."""
    gate, _ = make_remote_gate(1)
    (channel,) = gate.remote_channels
    deliver(channel, 0)
    end(gate, 0)
    gate.fail(RemoteProtocolError("no record"))
    channel.fail(RemoteTransportError("later"))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="no record"):
            gate.poll()


def test_a_partition_that_is_not_there_fails_the_gate() -> None:
    """I5."""
    registry = PartitionRegistry(10.0)
    gate, _ = make_gate(HERE)
    connect_local(gate, registry)
    assert gate.poll() is None
    registry.expire(10.0)
    with pytest.raises(PartitionNotFoundError, match="not registered within"):
        gate.poll()


def test_a_released_gate_wakes_waiters_and_calls_back() -> None:
    """I5: a second release does nothing, and the callback is called once."""
    gate, pool = make_remote_gate(2)
    told: list[InputGate] = []
    gate.when_released(told.append)
    deliver(gate.remote_channels[0], 0)
    assert gate.poll() is not None
    assert gate.poll() is None
    woken = woken_by(gate)
    gate.release()
    gate.release()
    assert woken
    assert told == [gate]
    with pytest.raises(ClosedResourceError, match="gate gate has been closed"):
        gate.poll()
    assert pool.statistics().local_pools == 0


def test_buffers_arriving_after_the_release_are_recycled() -> None:
    """G6, F6."""
    gate, pool = make_remote_gate(1)
    (channel,) = gate.remote_channels
    memory = begin(channel, BufferHeader(0, 0, 0, DataType.DATA_BUFFER, 4))
    gate.release()
    memory.release()
    channel.end_buffer()
    gate.notify_channel_non_empty(channel)
    channel.fail(RemoteTransportError("late"))
    assert gate.statistics().channels_queued == 0
    assert_everything_returned(pool)


def test_local_and_remote_channels_in_one_gate() -> None:
    """I1, I13, by meaning: the gate treats both kinds alike."""
    gate, pool = make_gate(HERE, THERE)
    registry = PartitionRegistry(10.0)
    partition = ResultPartition("p0", 1, pool, make_config())
    registry.register(partition)
    connect_local(gate, registry)
    (remote,) = gate.remote_channels
    put(partition, 0, b"local 1")
    put(partition, 0, b"local 2")
    partition.flush(0)
    deliver(remote, 0, b"remote 1")
    deliver(remote, 1, b"remote 2")
    assert [poll(gate) for _ in range(4)] == [
        (0, b"local 1"),
        (1, b"remote 1"),
        (0, b"local 2"),
        (1, b"remote 2"),
    ]
    end(gate, 1)
    partition.notify_end_of_data()
    while poll(gate)[1] != b"\x91\x01":
        pass
    gate.acknowledge(0)
    partition.finish()
    buffers: list[Buffer] = []
    while (polled := gate.poll()) is not None:
        buffers.append(polled[1])
    assert [buffer.data_type for buffer in buffers] == [END]
    assert gate.finished
    gate.release()
    assert_everything_returned(pool)


def test_a_gate_that_has_enough_to_do_holds_credit_back() -> None:
    """F8: for a slow reader.

    The gate announces it for all channels at once, when fewer than half of them have data.
    """
    client = Client()
    gate, _ = make_gate(
        *[THERE] * 4, client=client, buffers_per_channel=4, floating_buffers_per_gate=0
    )
    for channel in gate.remote_channels:
        for sequence in range(2):
            deliver(channel, sequence, backlog=5)
    assert not gate.is_busy()
    gate.reader_is_slow = True
    assert gate.is_busy()
    offered = []
    for _ in range(8):
        polled = gate.poll()
        assert polled is not None
        polled[1].recycle()
        offered.append(client.sent.count(("credit", 0)))
    assert offered == [0] * 6 + [1] * 2
    assert not gate.is_busy()
    assert [channel.credit.take() for channel in gate.remote_channels] == [2] * 4


def test_credit_is_announced_while_something_is_left_to_read() -> None:
    """F8: even though the borrowed buffers return to the pool and not to the channel.

    The producer's next data should arrive before the reader runs out.
    """
    client = Client()
    gate, _ = make_gate(THERE, client=client, buffers_per_channel=2, floating_buffers_per_gate=8)
    (channel,) = gate.remote_channels
    gate.reader_is_slow = True
    deliver(channel, 0, backlog=9)
    assert channel.credit.take() > 0
    for sequence in range(1, 10):
        deliver(channel, sequence, backlog=max(9 - sequence, 2))
    left, announced = [], client.sent.count(("credit", 0))
    for read in range(10):
        polled = gate.poll()
        assert polled is not None
        if client.sent.count(("credit", 0)) > announced:
            left.append(9 - read)
            announced += 1
            assert channel.credit.take() > 0
        polled[1].recycle()
        gate.check_invariants()
    assert left
    assert left[0] >= 1


def test_the_failure_and_the_release_of_a_gate_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "flinknet.consumer")
    gate, pool = make_gate(THERE, THERE)
    for channel in gate.channels:
        channel.fail(ProducerFailedError("boom"))
    gate.release()
    gate.release()
    lines = [line for line in caplog.messages if line.startswith("gate ")]
    assert lines == [f"gate gate failed: {gate.channels[0]}: boom", "gate gate released"]
    assert_everything_returned(pool)
