from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from collections.abc import Callable

import pytest

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.view import BufferAndBacklog
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.local_channel import LocalInputChannel
from flinknet.errors import (
    FlinknetError,
    LocalProtocolError,
    PartitionNotFoundError,
    ProducerFailedError,
)
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from flinknet.partition.timeoutable_barrier import OvertakenData
from flinknet.wire.events import (
    Alignment,
    CheckpointBarrier,
    CheckpointKind,
    CheckpointOptions,
    Event,
    EventAnnouncement,
    decode_event,
)
from tests.unit.arrangements import (
    HERE,
    assert_everything_returned,
    builder_of,
    connect_local,
    content_of,
    event_of,
    make_config,
    make_gate,
    put,
)
from tests.unit.consumer.noting_gate import NotingGate

BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER
END_OF_DATA = DataType.END_OF_DATA
END = DataType.END_OF_PARTITION


class Arranged:
    """A partition in this worker, a registry that knows it already or not yet, and a channel."""

    def __init__(self, *, registered: bool = True, requested: bool = True) -> None:
        self.network = NetworkBufferPool(16, 64)
        self.registry = PartitionRegistry(10.0)
        self.partition = ResultPartition("p", 1, self.network, make_config())
        self.gate = NotingGate()
        self.channel = LocalInputChannel(self.gate, 0, PartitionLocation(HERE, "p", 0))
        if registered:
            self.registry.register(self.partition)
        if requested:
            self.request()

    def request(self) -> None:
        self.registry.request(wire_partition_id("p"), 0, self.channel, now=0.0)

    def poll(self) -> Buffer:
        polled = self.channel.poll()
        assert polled is not None
        return polled[0]


def test_the_buffer_itself_moves() -> None:
    """Row 42: it needs no copy and no credit.

    The recycled buffer returns to the producer's pool.
    """
    arranged = Arranged()
    builder = put(arranged.partition, 0, b"data")
    arranged.partition.seal_all()
    buffer = arranged.poll()
    assert buffer is builder.seal()
    in_use = arranged.partition.statistics().pool.in_use
    buffer.recycle()
    assert arranged.partition.statistics().pool.in_use == in_use - 1


def test_overtaken_buffers_of_an_event_stay_with_the_producer() -> None:
    """H5, row 17: each buffer is either polled before the event or overtaken by it.

    The channel does not own the buffers that wait in the subpartition.
    """
    arranged = Arranged()
    for content in (b"polled", b"queued", b"open"):
        put(arranged.partition, 0, content)
    polled = arranged.poll()
    arranged.partition.broadcast_event(DataType.PRIORITIZED_EVENT_BUFFER, b"barrier")
    (overtaken,) = arranged.partition.overtaken_data()
    stored: list[Buffer] = []
    assert arranged.channel.start_persisting(1, stored.append)
    assert stored == []
    arranged.channel.stop_persisting(1)
    assert [content_of(buffer) for buffer in (polled, *overtaken)] == [
        b"polled",
        b"queued",
        b"open",
    ]
    for buffer in (polled, *overtaken):
        buffer.recycle()
    event = arranged.poll()
    assert event.data_type is DataType.PRIORITIZED_EVENT_BUFFER
    for content in (b"queued", b"open"):
        buffer = arranged.poll()
        assert content_of(buffer) == content
        buffer.recycle()
    arranged.partition.release()
    assert_everything_returned(arranged.network)


def barrier(alignment: Alignment, timeout_ms: int | None = None) -> CheckpointBarrier:
    """Return the barrier of checkpoint 1."""
    return CheckpointBarrier(1, 0, CheckpointOptions(CheckpointKind(0), alignment, timeout_ms))


def test_buffers_polled_before_the_barrier_are_stored() -> None:
    """H5: this applies to an unaligned checkpoint.

    Data behind the barrier is not stored, and neither is data in front of an aligned barrier while
    nothing is being persisted.
    """
    arranged = Arranged()
    stored: list[Buffer] = []
    for content in (b"before", b"in front"):
        put(arranged.partition, 0, content)
    arranged.partition.flush(0)
    assert content_of(arranged.poll()) == b"before"
    assert arranged.channel.start_persisting(1, stored.append)
    assert content_of(arranged.poll()) == b"in front"
    arranged.partition.broadcast_event(*barrier(Alignment.UNALIGNED).event())
    put(arranged.partition, 0, b"behind")
    arranged.partition.flush(0)
    arranged.poll()
    assert content_of(arranged.poll()) == b"behind"
    assert [content_of(buffer) for buffer in stored] == [b"in front"]
    assert not arranged.channel.start_persisting(0, stored.append), "a later barrier has come"
    for buffer in stored:
        buffer.recycle()


class OnOvertaken:
    """Records the data that a barrier has overtaken."""

    def __init__(self) -> None:
        self.told: list[list[list[bytes]] | None] = []

    def __call__(self, overtaken: OvertakenData | None) -> None:
        if overtaken is None:
            self.told.append(None)
            return
        self.told.append([[content_of(buffer) for buffer in part] for part in overtaken])
        for part in overtaken:
            for buffer in part:
                buffer.recycle()


@pytest.mark.parametrize("attached", ["before", "after"])
def test_a_barrier_that_can_time_out_is_announced_when_it_is_queued(attached: str) -> None:
    """Row 60: the announcement overtakes the data. It has no sender, so it is not counted."""
    arranged = Arranged(requested=attached == "before")
    put(arranged.partition, 0, b"data")
    timeoutable = barrier(Alignment.ALIGNED, 10)
    arranged.partition.broadcast_barrier(timeoutable, OnOvertaken())
    if attached == "after":
        arranged.request()
    assert arranged.gate.notices == [(0, False), (0, True)]
    polled = arranged.channel.poll()
    assert polled is not None
    event = Event(polled[0].data_type, content_of(polled[0]))
    assert decode_event(event) == EventAnnouncement(timeoutable)
    assert polled[1] is DataType.DATA_BUFFER_WITH_CLEAR_END
    assert arranged.channel.buffers_in == 0
    assert content_of(arranged.poll()) == b"data"
    assert content_of(arranged.poll()) == timeoutable.event().body


def test_a_barrier_whose_time_is_over_overtakes_in_the_producers_queue() -> None:
    """Row 59: the producer has the channel state, and its subpartition is not blocked."""
    arranged = Arranged()
    on_overtaken = OnOvertaken()
    put(arranged.partition, 0, b"data")
    arranged.partition.broadcast_barrier(barrier(Alignment.ALIGNED, 10), on_overtaken)
    arranged.poll()
    assert not arranged.channel.convert_to_priority_event(2)
    assert arranged.channel.convert_to_priority_event(1)
    assert not arranged.channel.convert_to_priority_event(1)
    assert on_overtaken.told == [[[b"data"]]]
    assert content_of(arranged.poll()) == barrier(Alignment.UNALIGNED).event().body
    assert content_of(arranged.poll()) == b"data"


def test_a_channel_without_a_partition_converts_nothing() -> None:
    arranged = Arranged(registered=False)
    assert not arranged.channel.convert_to_priority_event(1)


def test_a_released_channel_announces_nothing() -> None:
    arranged = Arranged()
    arranged.partition.broadcast_barrier(barrier(Alignment.ALIGNED, 10), OnOvertaken())
    arranged.channel.release()
    assert arranged.channel.poll() is None


def test_a_channel_says_whether_there_is_more() -> None:
    """I7."""
    arranged = Arranged()
    for content in (b"first", b"second", b"third"):
        put(arranged.partition, 0, content)
    arranged.partition.flush(0)
    assert len(arranged.gate.notices) == 1
    seen = []
    for _ in range(3):
        polled = arranged.channel.poll()
        assert polled is not None
        seen.append((content_of(polled[0]), polled[1]))
        polled[0].recycle()
    assert seen == [
        (b"first", DataType.DATA_BUFFER_WITH_CLEAR_END),
        (b"second", DataType.DATA_BUFFER),
        (b"third", DataType.NONE),
    ]
    counts = arranged.channel.statistics()
    assert (counts.buffers_in, counts.bytes_in, counts.kind) == (3, 16, "local")
    assert (counts.unannounced_credit, counts.exclusive_free, counts.floating_free) == (0, 0, 0)


def test_data_present_before_the_request_is_noticed() -> None:
    arranged = Arranged(requested=False)
    put(arranged.partition, 0, b"data")
    arranged.partition.flush(0)
    arranged.request()
    assert len(arranged.gate.notices) == 1
    assert content_of(arranged.poll()) == b"data"


def test_nothing_there_is_not_noticed() -> None:
    arranged = Arranged()
    assert len(arranged.gate.notices) == 0
    assert arranged.channel.poll() is None


def test_a_channel_waits_for_its_partition() -> None:
    """H2, by meaning: it does not poll with repeated requests."""
    arranged = Arranged(registered=False)
    assert arranged.channel.poll() is None
    put(arranged.partition, 0, b"data")
    arranged.partition.flush(0)
    arranged.registry.register(arranged.partition)
    assert len(arranged.gate.notices) == 1
    assert content_of(arranged.poll()) == b"data"


def test_a_partition_that_does_not_come_in_time_fails_the_channel() -> None:
    """H2: the channel fails, not the caller of the clock."""
    arranged = Arranged(registered=False)
    arranged.registry.expire(10.0)
    assert len(arranged.gate.notices) == 1
    with pytest.raises(PartitionNotFoundError):
        arranged.channel.poll()


def test_a_channel_released_while_it_waits_lets_go_of_the_view() -> None:
    """H2."""
    arranged = Arranged(registered=False)
    arranged.channel.release()
    arranged.registry.register(arranged.partition)
    assert arranged.partition.subpartitions[0].released
    assert arranged.channel.poll() is None
    assert arranged.partition.cancelled


def test_a_released_partition_is_not_found() -> None:
    """H3."""
    arranged = Arranged(requested=False)
    arranged.partition.release()
    arranged.request()
    with pytest.raises(PartitionNotFoundError, match="released"):
        arranged.channel.poll()


def test_releasing_drops_what_is_queued() -> None:
    arranged = Arranged()
    put(arranged.partition, 0, b"dropped")
    arranged.partition.flush(0)
    arranged.channel.release()
    arranged.channel.release()
    assert arranged.channel.poll() is None
    assert arranged.channel.statistics().released
    assert arranged.partition.cancelled
    arranged.partition.close()
    assert_everything_returned(arranged.network)


def test_a_resumed_channel_looks_for_data() -> None:
    """H4."""
    arranged = Arranged()
    arranged.partition.broadcast_event(BARRIER, b"barrier")
    put(arranged.partition, 0, b"behind")
    arranged.partition.flush(0)
    assert arranged.poll().data_type is BARRIER
    assert arranged.channel.poll() is None
    assert len(arranged.gate.notices) == 1
    arranged.channel.resume_consumption()
    assert len(arranged.gate.notices) == 2
    assert content_of(arranged.poll()) == b"behind"


def test_a_resumed_channel_without_data_is_quiet() -> None:
    """H4."""
    arranged = Arranged()
    arranged.partition.broadcast_event(BARRIER, b"barrier")
    arranged.poll()
    arranged.channel.resume_consumption()
    assert len(arranged.gate.notices) == 1


def test_resuming_before_the_partition_is_there_is_a_programming_error() -> None:
    """H4, G15."""
    arranged = Arranged(registered=False)
    with pytest.raises(AssertionError, match="before the partition was there"):
        arranged.channel.resume_consumption()


def test_a_released_channel_is_not_resumed() -> None:
    """H4, G15."""
    arranged = Arranged()
    arranged.partition.broadcast_event(BARRIER, b"barrier")
    arranged.poll()
    arranged.channel.release()
    with pytest.raises(LocalProtocolError, match=r"channel 0 .* was resumed after its release"):
        arranged.channel.resume_consumption()


def test_a_priority_event_is_told_as_such() -> None:
    """G23."""
    arranged = Arranged()
    put(arranged.partition, 0, b"data")
    arranged.partition.flush(0)
    assert [priority for _, priority in arranged.gate.notices] == [False]
    arranged.partition.broadcast_event(DataType.PRIORITIZED_EVENT_BUFFER, b"barrier")
    assert [priority for _, priority in arranged.gate.notices] == [False, True]
    assert arranged.poll().data_type.has_priority
    assert content_of(arranged.poll()) == b"data"


def test_buffers_in_use_are_the_producers() -> None:
    """H4: the count is 0 before the partition exists and after the release."""
    arranged = Arranged(registered=False)
    assert arranged.channel.buffers_in_use == 0
    for content in (b"1", b"2", b"3"):
        put(arranged.partition, 0, content)
    arranged.registry.register(arranged.partition)
    assert arranged.channel.buffers_in_use == 2
    arranged.partition.flush(0)
    assert arranged.channel.buffers_in_use == 3
    arranged.channel.release()
    assert arranged.channel.buffers_in_use == 0


def test_a_buffer_size_reaches_the_view() -> None:
    """H4, G15: it has no effect before the partition exists, and is not allowed after the
    release."""
    arranged = Arranged(registered=False)
    arranged.channel.announce_buffer_size(20)
    arranged.registry.register(arranged.partition)
    assert arranged.partition.subpartitions[0].buffer_bytes == 64
    arranged.channel.announce_buffer_size(20)
    assert arranged.partition.subpartitions[0].buffer_bytes == 20
    arranged.channel.release()
    with pytest.raises(AssertionError, match="released channel"):
        arranged.channel.announce_buffer_size(20)


def test_the_end_of_data_is_acknowledged() -> None:
    """D12."""
    arranged = Arranged()
    arranged.partition.notify_end_of_data()
    arranged.poll()
    assert not arranged.partition.all_data_processed.available
    arranged.channel.acknowledge_all_data_processed()
    assert arranged.partition.all_data_processed.available


def test_the_end_finishes_the_channel() -> None:
    arranged = Arranged()
    arranged.partition.notify_end_of_data()
    assert arranged.poll().data_type is END_OF_DATA
    arranged.channel.acknowledge_all_data_processed()
    arranged.partition.finish()
    assert not arranged.channel.finished
    assert arranged.poll().data_type is END
    assert arranged.channel.finished
    arranged.channel.release()
    assert arranged.partition.released
    assert_everything_returned(arranged.network)


class ScriptedView:
    """A SubpartitionView that yields given buffers, like a producer that breaks the protocol."""

    def __init__(self, *buffers: Buffer) -> None:
        self.buffers = deque(buffers)
        self.acknowledged = 0
        self.released = False

    def poll(self) -> BufferAndBacklog | None:
        if not self.buffers:
            return None
        buffer = self.buffers.popleft()
        return BufferAndBacklog(buffer, 0, self.next_data_type(), 0)

    def next_data_type(self) -> DataType:
        return self.buffers[0].data_type if self.buffers else DataType.NONE

    def backlog(self) -> int:
        return 0

    @property
    def queued_bytes(self) -> int:
        return sum(buffer.size for buffer in self.buffers)

    def resume_consumption(self) -> None:
        """Do nothing: the view is never blocked."""

    def timeoutable_barrier(self) -> bytes | None:
        return None

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        return False

    def acknowledge_all_data_processed(self) -> None:
        self.acknowledged += 1

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Do nothing: all buffers have been written."""

    def failure_cause(self) -> BaseException | None:
        return None

    def release(self, cause: BaseException | None = None) -> None:
        self.released = True


def end_of_data(body: bytes = b"\x91\x01") -> Buffer:
    return event_of(END_OF_DATA, body)


LAWLESS: dict[str, tuple[Callable[[], list[Buffer]], str]] = {
    "END_OF_PARTITION without END_OF_DATA": (lambda: [event_of(END)], "its data has not ended"),
    "data behind END_OF_DATA": (
        lambda: [end_of_data(), builder_of(b"late").seal()],
        "data must not arrive on channel 0",
    ),
    "END_OF_DATA twice": (lambda: [end_of_data(), end_of_data()], "END_OF_DATA must not arrive"),
    "END_OF_PARTITION before the acknowledgement": (
        lambda: [end_of_data(), event_of(END)],
        "has ended and has not been acknowledged",
    ),
    "an END_OF_DATA that makes no sense": (lambda: [end_of_data(b"?")], "body of an END_OF_DATA"),
}


@pytest.mark.parametrize("name", LAWLESS)
def test_a_local_producer_that_ends_otherwise_fails_the_channel(name: str) -> None:
    """A remote producer's would too: a stream that is cut short or continues after its end is an
    error."""
    make, text = LAWLESS[name]
    buffers = make()
    view = ScriptedView(*buffers)
    channel = LocalInputChannel(NotingGate(), 0, PartitionLocation(HERE, "p", 0))
    channel.on_view_created(view)
    for _ in buffers[:-1]:
        assert channel.poll() is not None
    for _ in range(2):
        with pytest.raises(FlinknetError, match=text):
            channel.poll()
    assert not channel.finished
    assert buffers[-1].references == 0
    channel.release()
    assert view.released


def test_a_local_channel_is_acknowledged_once_when_its_data_has_ended() -> None:
    arranged = Arranged()
    acknowledge = arranged.channel.acknowledge_all_data_processed
    with pytest.raises(LocalProtocolError, match="channel 0 .*: its data has not ended"):
        acknowledge()
    arranged.partition.notify_end_of_data()
    with pytest.raises(LocalProtocolError, match="its data has not ended"):
        acknowledge()
    arranged.poll()
    acknowledge()
    with pytest.raises(LocalProtocolError, match="has been acknowledged"):
        acknowledge()
    arranged.channel.release()
    with pytest.raises(LocalProtocolError, match="acknowledged after its release"):
        acknowledge()


@pytest.mark.parametrize("cause", [ValueError("first cause"), CancelledError("first cause")])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failed_producer_fails_the_channel_as_a_remote_one_would(
    cause: BaseException, when: str
) -> None:
    """C15, G14: a consumer never raises the producer's own exception, least of all its
    cancellation."""
    arranged = Arranged(requested=when == "after")
    put(arranged.partition, 0, b"lost")
    arranged.partition.flush(0)
    arranged.partition.fail(cause)
    if when == "before":
        arranged.request()
    with pytest.raises(ProducerFailedError) as raised:
        arranged.channel.poll()
    assert str(raised.value) == (
        f"channel 0 (p[0] at {HERE}) of gate gate: the producer failed: "
        f"{type(cause).__name__}: first cause"
    )
    arranged.channel.release()
    assert_everything_returned(arranged.network)


def test_many_producers_and_many_consumers() -> None:
    """H1: every consumer gets all data that each producer wrote for it."""
    network = NetworkBufferPool(200, 64)
    registry = PartitionRegistry(10.0)
    partitions = [ResultPartition(f"p{number}", 1, network, make_config()) for number in range(4)]
    gate, _ = make_gate(*[HERE] * 4, pool=network)
    for partition in partitions[:2]:
        registry.register(partition)
    connect_local(gate, registry)
    for partition in partitions[2:]:
        registry.register(partition)
    for turn in range(5):
        for number, partition in enumerate(partitions):
            put(partition, 0, f"{number}: {turn}".encode())
    for partition in partitions:
        partition.notify_end_of_data()
    seen: list[list[bytes]] = [[], [], [], []]
    while (polled := gate.poll()) is not None:
        index, buffer = polled
        if buffer.data_type.is_buffer:
            seen[index].append(content_of(buffer))
        elif buffer.data_type is DataType.END_OF_DATA:
            gate.acknowledge(index)
            partitions[index].finish()
        buffer.recycle()
    assert seen == [[f"{number}: {turn}".encode() for turn in range(5)] for number in range(4)]
    assert gate.finished
    assert all(partition.released for partition in partitions)
    gate.release()
    assert_everything_returned(network)
