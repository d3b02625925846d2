from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import (
    BufferReorderingError,
    LocalProtocolError,
    ProducerFailedError,
    RemoteProtocolError,
)
from flinknet.wire.buffer_header import BufferHeader
from flinknet.wire.codec import Stall
from flinknet.wire.events import (
    Alignment,
    CheckpointBarrier,
    CheckpointOptions,
    Event,
    EventAnnouncement,
    decode_event,
)
from tests.unit.arrangements import (
    THERE,
    Client,
    assert_everything_returned,
    begin,
    content_of,
    deliver,
    deliver_end,
    deliver_end_of_data,
)
from tests.unit.consumer.noting_gate import NotingGate

BLOCKING = [data_type for data_type in DataType if data_type.is_blocking_upstream]
CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
EVENT = DataType.EVENT_BUFFER
PRIORITY = DataType.PRIORITIZED_EVENT_BUFFER
DATA = DataType.DATA_BUFFER
ALIGNED = DataType.ALIGNED_CHECKPOINT_BARRIER
TIMEOUTABLE = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
OPTIONS = {
    PRIORITY: CheckpointOptions(alignment=Alignment.UNALIGNED),
    ALIGNED: CheckpointOptions(),
    TIMEOUTABLE: CheckpointOptions(aligned_timeout_ms=10),
}
END_OF_DATA = DataType.END_OF_DATA
END = DataType.END_OF_PARTITION


class Arranged:
    """A requested channel with its gate and client; ``borrowed`` floating buffers are in use
    elsewhere."""

    def __init__(
        self, *, exclusive: int = 2, floating: int = 8, borrowed: int = 0, requested: bool = True
    ) -> None:
        self.network = NetworkBufferPool(exclusive + floating, 64)
        self.pool = self.network.create_local_pool(1, floating, owner="gate")
        self.gate = NotingGate()
        self.client = Client()
        self.channel = RemoteInputChannel(
            self.gate, 3, PartitionLocation(THERE, "p", 0), self.network, self.pool
        )
        self.network.request_exclusive(exclusive, self.channel.manager.add_exclusive, owner="gate")
        self.borrowed = [
            segment for _ in range(borrowed) if (segment := self.pool.request()) is not None
        ]
        if requested:
            self.channel.request(self.client)

    @property
    def credit_notices(self) -> int:
        return self.client.sent.count(("credit", 3))

    def poll(self) -> Buffer:
        polled = self.channel.poll()
        assert polled is not None
        return polled[0]

    def end_data(self, sequence: int) -> None:
        """Let the end of data arrive behind the polled buffers, poll and acknowledge it."""
        deliver_end_of_data(self.channel, sequence)
        assert self.poll().data_type is END_OF_DATA
        self.channel.acknowledge_all_data_processed()

    def close(self) -> None:
        """Release everything and check that no buffer is missing."""
        self.channel.release()
        for segment in self.borrowed:
            self.pool.recycle(segment)
        self.pool.destroy()
        assert_everything_returned(self.network)


@pytest.fixture
def arranged() -> Arranged:
    return Arranged()


@pytest.fixture
def alone() -> Arranged:
    """A channel that has its two exclusive buffers and cannot borrow any."""
    return Arranged(borrowed=8)


# -- requesting ------------------------------------------------------------------------------------


def test_a_channel_is_requested_once_with_its_exclusive_buffers_as_credit() -> None:
    """Census 1.6 rule 1."""
    arranged = Arranged(requested=False)
    assert arranged.channel.initial_credit == 2
    assert arranged.client.sent == []
    arranged.channel.request(arranged.client)
    assert arranged.client.sent == [("request", 3)]
    assert arranged.channel.credit.unannounced == 0, "it travels with the request"
    with pytest.raises(AssertionError, match="ATTACH must not happen"):
        arranged.channel.request(arranged.client)


def test_a_released_channel_is_not_requested() -> None:
    arranged = Arranged(requested=False)
    arranged.channel.release()
    arranged.channel.request(arranged.client)
    assert arranged.client.sent == []
    arranged.close()


# -- frames ----------------------------------------------------------------------------------------


def test_frames_are_polled_in_order(alone: Arranged) -> None:
    deliver(alone.channel, 0, b"first")
    deliver(alone.channel, 1, b"event", data_type=EVENT)
    deliver(alone.channel, 2, b"second")
    assert alone.gate.notices == [(3, False)], "once, until it was emptied"
    contents = []
    for following in (EVENT, DataType.DATA_BUFFER_WITH_CLEAR_END, DataType.NONE):
        polled = alone.channel.poll()
        assert polled is not None
        contents.append((content_of(polled[0]), polled[0].data_type.is_event))
        assert polled[1] is following
        polled[0].recycle()
    assert contents == [(b"first", False), (b"event", True), (b"second", False)]
    assert alone.channel.poll() is None
    deliver(alone.channel, 3, b"event", data_type=EVENT)
    assert alone.gate.notices == [(3, False)] * 2


def test_polled_buffers_and_bytes_are_counted(arranged: Arranged) -> None:
    """G21: events are included."""
    deliver(arranged.channel, 0, b"first")
    deliver(arranged.channel, 1, b"event!", data_type=EVENT)
    assert arranged.channel.statistics().queued_buffers == 2
    arranged.poll().recycle()
    arranged.poll()
    counts = arranged.channel.statistics()
    assert (counts.queued_buffers, counts.buffers_in, counts.bytes_in) == (0, 2, 11)
    assert (counts.kind, counts.channel) == ("remote", 3)


@pytest.mark.parametrize("sequence", [1, 2, 0xFFFFFFFF])
def test_a_gap_in_the_sequence_is_an_error(arranged: Arranged, sequence: int) -> None:
    """G11."""
    with pytest.raises(BufferReorderingError, match=f"received buffer {sequence}, expected 0"):
        deliver(arranged.channel, sequence)
    arranged.close()


def test_a_repeated_buffer_is_an_error(arranged: Arranged) -> None:
    """G11, invariant I2."""
    deliver(arranged.channel, 0)
    with pytest.raises(BufferReorderingError, match="received buffer 0, expected 1"):
        deliver(arranged.channel, 0)


def test_data_without_credit_breaks_the_protocol(alone: Arranged) -> None:
    """F4, invariant I5, census 1.6 rule 10: such data is never queued in ordinary memory
    instead."""
    deliver(alone.channel, 0)
    deliver(alone.channel, 1)
    with pytest.raises(RemoteProtocolError, match="sent without credit"):
        deliver(alone.channel, 2)
    assert alone.channel.statistics().queued_buffers == 2


def test_a_free_buffer_is_no_credit_before_it_is_announced(alone: Arranged) -> None:
    """The producer learns of a free buffer only by the announcement, and may send only then."""
    for sequence in range(2):
        deliver(alone.channel, sequence)
    alone.poll().recycle()
    with pytest.raises(RemoteProtocolError, match="sent without credit"):
        deliver(alone.channel, 2)
    assert alone.channel.manager.available() == 1, "none was taken for it"
    assert alone.channel.credit.take() == 1
    deliver(alone.channel, 2)
    alone.close()


def test_events_need_no_credit() -> None:
    """Census 1.6 rule 11."""
    arranged = Arranged(exclusive=0)
    for sequence in range(20):
        deliver(arranged.channel, sequence, b"event", data_type=EVENT)
    assert arranged.channel.statistics().queued_buffers == 20
    arranged.close()


def test_an_empty_data_buffer_is_one_like_any_other(arranged: Arranged) -> None:
    """F7, census 1.6 rule 9: sequence, backlog and credit count.

    The reader decides whether it is allowed there.
    """
    deliver(arranged.channel, 0, b"", backlog=3)
    assert arranged.channel.sender_backlog == 3
    counts = arranged.channel.statistics()
    assert (counts.queued_buffers, counts.required) == (1, 5)
    polled = arranged.channel.poll()
    assert polled is not None
    polled[0].recycle()
    assert arranged.channel.credit.take() == 1 + 3
    deliver(arranged.channel, 1, b"data")


def test_a_frame_that_was_cut_off_gives_its_buffer_back(arranged: Arranged) -> None:
    memory = begin(arranged.channel, BufferHeader(0, 0, 0, DataType.DATA_BUFFER, 10))
    memory.release()
    arranged.channel.abort_buffer()
    arranged.channel.abort_buffer()
    assert arranged.channel.manager.available() == 2
    arranged.channel.begin_buffer(BufferHeader(0, 1, 0, EVENT, 10))
    arranged.channel.abort_buffer()
    assert arranged.channel.poll() is None
    arranged.close()


# -- credit ----------------------------------------------------------------------------------------


def test_credit_arises_when_the_operator_has_released_the_buffer(alone: Arranged) -> None:
    """Census 1.6: never on receipt or on polling."""
    deliver(alone.channel, 0)
    assert alone.channel.credit.unannounced == 0
    buffer = alone.poll()
    assert alone.channel.credit.unannounced == 0
    buffer.recycle()
    assert alone.channel.credit.unannounced == 1


def test_many_recycles_make_one_announcement() -> None:
    """F8, census 1.6 rule 6: the client is notified once, and takes the sum."""
    arranged = Arranged(exclusive=4, borrowed=8)
    for sequence in range(4):
        deliver(arranged.channel, sequence)
    for _ in range(3):
        arranged.poll().recycle()
    assert arranged.credit_notices == 1
    assert arranged.channel.credit.take() == 3
    assert arranged.channel.credit.take() == 0
    arranged.poll().recycle()
    for sequence in (4, 5):
        deliver(arranged.channel, sequence)
        assert arranged.credit_notices == 1
    deliver(arranged.channel, 6)
    assert arranged.credit_notices == 2
    assert arranged.channel.credit.take() == 1


@pytest.mark.parametrize(("backlog", "notices"), [(0, 0), (1, 1)])
def test_credit_waits_while_the_producer_has_half_of_it_and_no_data(
    backlog: int, notices: int
) -> None:
    """F8: while data waits, an early announcement may save time over a long network path."""
    arranged = Arranged(exclusive=8, borrowed=8)
    deliver(arranged.channel, 0, backlog=backlog)
    arranged.poll().recycle()
    assert (arranged.channel.credit.unannounced, arranged.credit_notices) == (1, notices)


def test_credit_is_announced_when_the_producer_uses_it_up() -> None:
    """F8: credit is announced when the producer has less left than the amount held back."""
    arranged = Arranged(exclusive=8, borrowed=8)
    for sequence in range(3):
        deliver(arranged.channel, sequence)
        arranged.poll().recycle()
    for sequence in (3, 4, 5):
        assert (arranged.channel.credit.unannounced, arranged.credit_notices) == (3, 0)
        deliver(arranged.channel, sequence)
    assert (arranged.channel.credit.unannounced, arranged.credit_notices) == (3, 1)
    assert arranged.channel.credit.take() == 3


def test_credit_waits_while_the_gate_has_enough_to_do() -> None:
    """F8: this holds for any credit of the producer.

    The credit is announced when the gate asks for it.
    """
    arranged = Arranged(exclusive=4, borrowed=8)
    for sequence in range(4):
        deliver(arranged.channel, sequence, backlog=3)
    arranged.gate.busy = True
    for _ in range(2):
        arranged.poll().recycle()
    assert (arranged.channel.credit.unannounced, arranged.credit_notices) == (2, 0)
    assert arranged.channel in arranged.gate.held
    arranged.gate.busy = False
    for _ in range(2):
        arranged.channel.announce_credit()
        assert arranged.credit_notices == 1
    assert arranged.channel.credit.take() == 2


def test_credit_that_is_held_back_is_none_for_the_producer() -> None:
    """Its backlog waits, however many buffers are free on this side."""
    arranged = Arranged(exclusive=4, borrowed=8)
    for sequence in range(3):
        deliver(arranged.channel, sequence, backlog=1)
    counts = arranged.channel.statistics()
    assert (counts.exclusive_free, counts.held_credit, counts.is_short) == (1, 0, False)
    arranged.gate.busy = True
    for _ in range(2):
        arranged.poll().recycle()
    deliver(arranged.channel, 3, backlog=2)
    counts = arranged.channel.statistics()
    assert (counts.exclusive_free, counts.unannounced_credit) == (2, 2)
    assert (counts.held_credit, counts.is_short) == (2, True)
    arranged.channel.announce_credit()
    counts = arranged.channel.statistics()
    assert (counts.unannounced_credit, counts.held_credit, counts.is_short) == (2, 0, False)


def test_credit_waits_up_to_three_quarters_of_the_buffers() -> None:
    """F8: the producer then has time to send before the reader runs out of data."""
    arranged = Arranged(exclusive=8, borrowed=8)
    for sequence in range(8):
        deliver(arranged.channel, sequence, backlog=3)
    arranged.gate.busy = True
    notices = []
    for _ in range(7):
        arranged.poll().recycle()
        notices.append(arranged.credit_notices)
    assert notices == [0, 0, 0, 0, 0, 1, 1]


def test_polling_makes_held_credit_due() -> None:
    """F8: already before it is recycled, when the unannounced credit is three quarters of the
    rest."""
    arranged = Arranged(exclusive=4, borrowed=8)
    for sequence in range(4):
        deliver(arranged.channel, sequence)
    arranged.gate.busy = True
    arranged.channel.settle_held_credit()
    for _ in range(2):
        arranged.poll().recycle()
    notices, polled = [], []
    for _ in range(2):
        polled.append(arranged.poll())
        arranged.channel.settle_held_credit()
        notices.append(arranged.credit_notices)
    assert notices == [0, 1]
    assert arranged.channel.credit.take() == 2
    for buffer in polled:
        buffer.recycle()


def test_the_last_credit_of_a_producer_is_never_held_back() -> None:
    """F8: the same holds for its only credit."""
    arranged = Arranged(exclusive=2, borrowed=8)
    for sequence in range(2):
        deliver(arranged.channel, sequence)
    arranged.poll().recycle()
    assert (arranged.channel.credit.unannounced, arranged.credit_notices) == (1, 1)


def test_a_backlog_makes_floating_buffers_into_credit(arranged: Arranged) -> None:
    """G1, G22, census 1.6 rule 3: each buffer of the backlog gets credit, in addition to the
    exclusive buffers."""
    deliver(arranged.channel, 0, backlog=5)
    counts = arranged.channel.statistics()
    assert (counts.backlog, counts.required) == (5, 7)
    assert (counts.exclusive_free, counts.floating_free) == (1, 6)
    assert arranged.credit_notices == 1
    assert arranged.channel.credit.take() == 6
    arranged.close()


def test_starved_channels_have_one_credit_each() -> None:
    """G4, seen from the channels."""
    network = NetworkBufferPool(3 * 2 + 3, 64)
    pool = network.create_local_pool(3, 3, owner="gate")
    held = [segment for _ in range(3) if (segment := pool.request()) is not None]
    gate, client = NotingGate(), Client()
    channels = [
        RemoteInputChannel(gate, index, PartitionLocation(THERE, "p", index), network, pool)
        for index in range(3)
    ]
    for channel in channels:
        network.request_exclusive(2, channel.manager.add_exclusive, owner="gate")
        channel.request(client)
        channel.on_backlog(8)
    for segment in held:
        pool.recycle(segment)
    assert [channel.credit.unannounced for channel in channels] == [1, 1, 1]
    assert [message for message in client.sent if message[0] == "credit"] == [
        ("credit", 0),
        ("credit", 1),
        ("credit", 2),
    ]


@pytest.mark.parametrize("data_type", BLOCKING)
def test_without_exclusive_buffers_a_block_starts_credit_from_zero(data_type: DataType) -> None:
    """E11, census 1.6 rule 8: floating buffers go back to the pool, and the resume announces no
    credit."""
    arranged = Arranged(exclusive=0)
    arranged.channel.on_backlog(3)
    assert arranged.channel.credit.unannounced == 3
    deliver(arranged.channel, 0, b"barrier", data_type=data_type, backlog=0)
    assert arranged.channel.manager.available() == 0
    arranged.channel.resume_consumption()
    assert arranged.channel.credit.unannounced == 0
    assert arranged.client.sent[-1] == ("resume", 3)
    arranged.channel.on_backlog(2)
    assert arranged.channel.credit.take() == 2
    arranged.close()


def test_with_exclusive_buffers_a_block_keeps_credit(arranged: Arranged) -> None:
    """E11."""
    deliver(arranged.channel, 0, backlog=3)
    credit = arranged.channel.credit.unannounced
    deliver(arranged.channel, 1, b"barrier", data_type=BLOCKING[0], backlog=0)
    arranged.channel.resume_consumption()
    assert arranged.channel.credit.unannounced == credit > 0


@pytest.mark.parametrize("behind", [DATA, CLEAR_END, EVENT, PRIORITY, END_OF_DATA, *BLOCKING])
@pytest.mark.parametrize("data_type", BLOCKING)
def test_nothing_comes_behind_a_block_before_it_is_resumed(
    data_type: DataType, behind: DataType
) -> None:
    """SPEC 3.3: this holds whether the reader has polled the event or not.

    After the resume all of it may arrive.
    """
    arranged = Arranged()
    deliver(arranged.channel, 0, b"barrier", data_type=data_type)
    body = b"\x91\x01" if behind is END_OF_DATA else b"behind"
    for is_taken in (False, True):
        if is_taken:
            arranged.poll().recycle()
        with pytest.raises(RemoteProtocolError, match=f"sent {behind.name} on .*until it is resum"):
            deliver(arranged.channel, 1, body, data_type=behind)
    arranged.channel.resume_consumption()
    deliver(arranged.channel, 1, body, data_type=behind)
    arranged.close()


def test_resuming_an_unrequested_channel_is_a_programming_error() -> None:
    """G15."""
    arranged = Arranged(requested=False)
    with pytest.raises(AssertionError, match="before the partition was requested"):
        arranged.channel.resume_consumption()


# -- priority --------------------------------------------------------------------------------------


def number_of(buffer: Buffer) -> int:
    return int(content_of(buffer))


def barrier(checkpoint_id: int, data_type: DataType = PRIORITY) -> bytes:
    """Return the body of a barrier of this data type."""
    event = CheckpointBarrier(checkpoint_id, 0, OPTIONS[data_type]).event()
    assert event.data_type is data_type
    return event.body


def arrive(arranged: Arranged, *kinds: DataType, first: int = 0, checkpoint_id: int = 1) -> None:
    """Let buffers with their number as content arrive, and barriers of one checkpoint.

    The elements behind a blocking barrier arrive after the channel was resumed.
    """
    for number, data_type in enumerate(kinds):
        if arranged.channel.blocked:
            arranged.channel.resume_consumption()
        body = barrier(checkpoint_id, data_type) if data_type in OPTIONS else str(number).encode()
        sequence = (first + number) & 0xFFFFFFFF
        deliver(arranged.channel, sequence, body, data_type=data_type)


class Stored:
    """The numbers of the buffers that a checkpoint stores of a channel; the buffers are
    recycled."""

    def __init__(self, arranged: Arranged, checkpoint_id: int = 1) -> None:
        self.numbers: list[int] = []
        self.started = arranged.channel.start_persisting(checkpoint_id, self.persist)

    def persist(self, buffer: Buffer) -> None:
        self.numbers.append(number_of(buffer))
        buffer.recycle()


def test_a_priority_event_overtakes_what_has_arrived() -> None:
    """G18: the sequence numbers are polled in order 2, 0, 1, 3, 4.

    It overtook 0 and 1, which are stored until they are polled.
    """
    arranged = Arranged(exclusive=4)
    arrive(arranged, DATA, DATA, PRIORITY, DATA, DATA)
    assert Stored(arranged).numbers == [0, 1]
    assert arranged.poll().data_type is PRIORITY
    assert Stored(arranged).numbers == [0, 1]
    polled, stored = [], []
    for _ in range(4):
        buffer = arranged.poll()
        polled.append(number_of(buffer))
        buffer.recycle()
        stored.append(Stored(arranged).numbers)
    assert polled == [0, 1, 3, 4]
    assert stored == [[1], [], [], []]
    arranged.close()


@pytest.mark.parametrize("edge", [2**31, 2**32])
@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("data_type", [PRIORITY, ALIGNED, TIMEOUTABLE])
def test_sequence_numbers_may_wrap_around_a_barrier(
    edge: int, before: int, data_type: DataType
) -> None:
    """G19: for every position of the wrap."""
    arranged = Arranged(exclusive=4)
    first = arranged.channel._expected_sequence = (edge - before) & 0xFFFFFFFF
    arrive(arranged, DATA, DATA, data_type, DATA, DATA, first=first)
    assert Stored(arranged).numbers == [0, 1]


def test_stored_buffers_outlive_their_channel() -> None:
    """Row 17: the stored buffers are references of their own."""
    arranged = Arranged(exclusive=4)
    arrive(arranged, DATA, DATA, PRIORITY, DATA)
    stored: list[Buffer] = []
    assert arranged.channel.start_persisting(1, stored.append)
    arranged.channel.release()
    assert [number_of(buffer) for buffer in stored] == [0, 1]
    for buffer in stored:
        buffer.recycle()
    arranged.close()


def test_without_a_barrier_all_data_is_in_flight_until_it_comes() -> None:
    """G19, row 58: the queued data without events, and then the data that arrives before the
    barrier."""
    arranged = Arranged(exclusive=8)
    arrive(arranged, DATA, DATA, EVENT)
    arranged.poll().recycle()
    stored = Stored(arranged)
    assert stored.numbers == [1]
    arrive(arranged, DATA, EVENT, DATA, first=3)
    assert stored.numbers == [1, 0, 2]
    arrive(arranged, PRIORITY, DATA, first=6)
    assert stored.numbers == [1, 0, 2]
    arranged.channel.stop_persisting(1)
    arranged.close()


@pytest.mark.parametrize("data_type", [ALIGNED, TIMEOUTABLE])
def test_an_aligned_barrier_ends_what_is_stored_too(data_type: DataType) -> None:
    """Row 58: the other channels may be unaligned; the data in front of this barrier is polled
    before it."""
    arranged = Arranged(exclusive=4)
    stored = Stored(arranged)
    arrive(arranged, DATA, data_type, DATA)
    assert stored.numbers == [0]
    arranged.close()


def test_data_without_content_is_not_stored(arranged: Arranged) -> None:
    stored = Stored(arranged)
    deliver(arranged.channel, 0, b"", data_type=DATA)
    assert stored.numbers == []
    arranged.close()


def test_a_barrier_that_came_later_subsumes_a_checkpoint() -> None:
    """H7."""
    arranged = Arranged(exclusive=4)
    arrive(arranged, DATA, PRIORITY, checkpoint_id=2)
    assert not Stored(arranged, 1).started
    stored = Stored(arranged, 2)
    assert (stored.started, stored.numbers) == (True, [0])
    arranged.close()


@pytest.mark.parametrize("distance", [1, 2**31])
def test_a_barrier_of_the_past_hides_no_data_from_the_next_checkpoint(distance: int) -> None:
    """G19: for a barrier of any age, as its number may look like one yet to come."""
    arranged = Arranged(exclusive=4)
    arrive(arranged, PRIORITY)
    arranged.poll()
    arranged.channel._expected_sequence = distance
    arrive(arranged, DATA, DATA, first=distance)
    stored = Stored(arranged, 2)
    arrive(arranged, PRIORITY, DATA, first=distance + 2, checkpoint_id=2)
    assert stored.numbers == [0, 1]
    assert Stored(arranged, 2).numbers == [0, 1]
    arranged.close()


def test_the_gate_is_told_of_priority_events_only(alone: Arranged) -> None:
    """G23: of the first of several, and again after those have been polled."""
    deliver(alone.channel, 0)
    deliver(alone.channel, 1, data_type=EVENT)
    assert alone.gate.notices == [(3, False)]
    deliver(alone.channel, 2, data_type=PRIORITY)
    deliver(alone.channel, 3, data_type=PRIORITY)
    assert alone.gate.notices == [(3, False), (3, True)]
    for following in (PRIORITY, DataType.DATA_BUFFER_WITH_CLEAR_END):
        polled = alone.channel.poll()
        assert polled is not None
        assert polled[1] is following
    deliver(alone.channel, 4, data_type=PRIORITY)
    assert alone.gate.notices == [(3, False), (3, True), (3, True)]


# -- barriers that can time out --------------------------------------------------------------------


def test_a_barrier_that_can_time_out_is_announced_in_front_and_keeps_its_place() -> None:
    """Row 60: the gate is notified of the announcement, which did not come over the wire."""
    arranged = Arranged(exclusive=4)
    arrive(arranged, DATA, TIMEOUTABLE)
    assert arranged.gate.notices == [(3, False), (3, True)]
    assert arranged.channel.events_queued == 1
    announcement = arranged.poll()
    said = decode_event(Event(announcement.data_type, content_of(announcement)))
    assert said == EventAnnouncement(CheckpointBarrier(1, 0, OPTIONS[TIMEOUTABLE]))
    assert (arranged.channel.buffers_in, arranged.channel.bytes_in) == (0, 0)
    data = arranged.poll()
    assert number_of(data) == 0
    data.recycle()
    assert content_of(arranged.poll()) == barrier(1, TIMEOUTABLE)
    assert arranged.channel.buffers_in == 2
    arranged.channel.resume_consumption()
    arranged.close()


def test_an_empty_channel_announces_a_barrier_in_front_of_it() -> None:
    arranged = Arranged()
    arrive(arranged, TIMEOUTABLE)
    assert arranged.gate.notices == [(3, False), (3, True)]
    assert [arranged.poll().data_type for _ in range(2)] == [PRIORITY, TIMEOUTABLE]


def test_a_peer_does_not_announce(arranged: Arranged) -> None:
    body = EventAnnouncement(CheckpointBarrier(1, 0, OPTIONS[TIMEOUTABLE])).event().body
    with pytest.raises(RemoteProtocolError, match="channel 3 .* which never travels"):
        deliver(arranged.channel, 0, body, data_type=PRIORITY)


def test_a_barrier_whose_time_is_over_overtakes_what_has_arrived() -> None:
    """G23, row 59: the gate is notified, the producer is resumed, and the data behind is not
    stored."""
    arranged = Arranged(exclusive=4)
    arrive(arranged, DATA, DATA, TIMEOUTABLE)
    assert arranged.poll().data_type is PRIORITY
    assert not arranged.channel.convert_to_priority_event(2), "another checkpoint's"
    assert arranged.channel.convert_to_priority_event(1)
    assert ("resume", 3) in arranged.client.sent
    assert arranged.gate.notices == [(3, False), (3, True), (3, True)]
    arrive(arranged, DATA, first=3)
    assert Stored(arranged).numbers == [0, 1]
    first = arranged.poll()
    assert (first.data_type, content_of(first)) == (PRIORITY, barrier(1))
    assert [number_of(arranged.poll()) for _ in range(3)] == [0, 1, 0]
    assert not arranged.channel.convert_to_priority_event(1), "it is queued no more"


def test_an_announcement_stays_in_front_of_its_barrier(arranged: Arranged) -> None:
    arrive(arranged, DATA, TIMEOUTABLE)
    assert arranged.channel.convert_to_priority_event(1)
    bodies = [content_of(arranged.poll()) for _ in range(3)]
    assert bodies[1:] == [barrier(1), b"0"]


def test_nothing_is_converted_but_a_barrier_that_can_time_out(arranged: Arranged) -> None:
    deliver(arranged.channel, 0, b"own", data_type=TIMEOUTABLE)
    assert not arranged.channel.convert_to_priority_event(1)
    arranged.channel.resume_consumption()
    arrive(arranged, ALIGNED, first=1)
    assert not arranged.channel.convert_to_priority_event(1)
    arranged.channel.fail(ProducerFailedError("gone"))
    assert not arranged.channel.convert_to_priority_event(1)
    arranged.close()


# -- debloating ------------------------------------------------------------------------------------


def test_buffers_in_use_are_those_here_and_those_behind() -> None:
    """G22: 2, 5, 4, 3, 3; and 0 for a released channel."""
    arranged = Arranged(exclusive=4)
    counts = []
    deliver(arranged.channel, 0)
    deliver(arranged.channel, 1)
    counts.append(arranged.channel.buffers_in_use)
    arranged.channel.on_backlog(3)
    counts.append(arranged.channel.buffers_in_use)
    arranged.poll().recycle()
    counts.append(arranged.channel.buffers_in_use)
    arranged.poll().recycle()
    counts.append(arranged.channel.buffers_in_use)
    deliver(arranged.channel, 2, backlog=2)
    counts.append(arranged.channel.buffers_in_use)
    assert counts == [2, 5, 4, 3, 3]
    arranged.close()
    assert arranged.channel.buffers_in_use == 0


def test_a_buffer_size_is_sent_after_the_request() -> None:
    """F11, G15: the channel sends it only after it was requested."""
    arranged = Arranged(requested=False)
    arranged.channel.announce_buffer_size(100)
    assert arranged.client.sent == []
    arranged.channel.request(arranged.client)
    arranged.channel.announce_buffer_size(100)
    assert arranged.client.sent == [("request", 3), ("size 100", 3)]
    arranged.channel.release()
    with pytest.raises(AssertionError, match="released channel"):
        arranged.channel.announce_buffer_size(200)
    arranged.close()


# -- the end ---------------------------------------------------------------------------------------


def test_processed_data_is_acknowledged(arranged: Arranged) -> None:
    """D12."""
    arranged.end_data(0)
    assert arranged.client.sent == [("request", 3), ("acknowledge", 3)]


@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize(
    ("data_type", "body"),
    [(CLEAR_END, b"x"), (DataType.DATA_BUFFER, b"x"), (END_OF_DATA, b"\x91\x01")],
)
def test_neither_data_nor_a_second_end_of_it_follows_the_end_of_data(
    arranged: Arranged, acknowledged: bool, data_type: DataType, body: bytes
) -> None:
    """The acknowledgement covered all data, so no buffer is taken for more."""
    if acknowledged:
        arranged.end_data(0)
    else:
        deliver_end_of_data(arranged.channel, 0)
    free = arranged.channel.manager.available()
    with pytest.raises(
        RemoteProtocolError,
        match=f"on channel 3 .*{'has been' if acknowledged else 'has not been'} ack",
    ):
        deliver(arranged.channel, 1, body, data_type=data_type)
    assert arranged.channel.manager.available() == free
    arranged.close()


def test_a_partition_does_not_end_without_the_end_of_its_data(arranged: Arranged) -> None:
    deliver(arranged.channel, 0)
    with pytest.raises(RemoteProtocolError, match="END_OF_PARTITION .* its data has not ended"):
        deliver_end(arranged.channel, 1)
    assert not arranged.channel.complete
    arranged.close()


@pytest.mark.parametrize("polled", [False, True])
def test_a_partition_does_not_end_before_its_data_is_acknowledged(
    arranged: Arranged, polled: bool
) -> None:
    deliver_end_of_data(arranged.channel, 0)
    if polled:
        arranged.poll()
    with pytest.raises(RemoteProtocolError, match="END_OF_PARTITION .* has not been acknowledged"):
        deliver_end(arranged.channel, 1)
    arranged.close()


def test_nothing_follows_the_end_of_the_partition(arranged: Arranged) -> None:
    arranged.end_data(0)
    deliver_end(arranged.channel, 1)
    for data_type, body in ((CLEAR_END, b"x"), (EVENT, b"x"), (END, b"\x90")):
        with pytest.raises(RemoteProtocolError, match="its partition has ended"):
            deliver(arranged.channel, 2, body, data_type=data_type)
    arranged.close()


def test_events_may_follow_the_end_of_the_data(arranged: Arranged) -> None:
    """A last barrier does so, before or after the acknowledgement, with priority or without."""
    deliver_end_of_data(arranged.channel, 0)
    deliver(arranged.channel, 1, data_type=PRIORITY)
    deliver(arranged.channel, 2, data_type=BLOCKING[0])
    taken = [arranged.poll().data_type for _ in range(3)]
    arranged.channel.resume_consumption()
    arranged.channel.acknowledge_all_data_processed()
    deliver(arranged.channel, 3, data_type=EVENT)
    deliver_end(arranged.channel, 4)
    taken += [arranged.poll().data_type for _ in range(2)]
    assert taken == [PRIORITY, END_OF_DATA, BLOCKING[0], EVENT, END]
    arranged.close()


@pytest.mark.parametrize("body", [b"", b"\x91", b"\x91\x02", b"\x91\x01\x01", b"\x90"])
def test_an_end_of_data_that_makes_no_sense_is_refused(arranged: Arranged, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="channel 3 .*: the body of an END_OF_DATA"):
        deliver(arranged.channel, 0, body, data_type=END_OF_DATA)
    arranged.close()


@pytest.mark.parametrize("body", [b"", b"\x91", b"\x90\x90"])
def test_an_end_of_partition_that_makes_no_sense_is_refused(
    arranged: Arranged, body: bytes
) -> None:
    arranged.end_data(0)
    with pytest.raises(RemoteProtocolError, match="channel 3 .*: the body of an END_OF_PARTITION"):
        deliver(arranged.channel, 1, body, data_type=END)
    assert not arranged.channel.complete
    arranged.close()


def test_a_released_channel_is_neither_resumed_nor_acknowledged(arranged: Arranged) -> None:
    """G15: it is an error of this side that would otherwise go unnoticed."""
    deliver_end_of_data(arranged.channel, 0)
    deliver(arranged.channel, 1, data_type=BLOCKING[0])
    for _ in range(2):
        arranged.poll()
    arranged.channel.release()
    with pytest.raises(LocalProtocolError, match=r"channel 3 .* was resumed after its release"):
        arranged.channel.resume_consumption()
    with pytest.raises(LocalProtocolError, match="acknowledged after its release"):
        arranged.channel.acknowledge_all_data_processed()
    assert arranged.client.sent == [("request", 3), ("close", 3)]
    arranged.close()


def test_after_the_end_no_credit_is_announced(alone: Arranged) -> None:
    """F8."""
    deliver(alone.channel, 0)
    buffer = alone.poll()
    alone.end_data(1)
    deliver_end(alone.channel, 2)
    assert not alone.channel.finished
    assert alone.poll().data_type is END
    assert alone.channel.finished
    buffer.recycle()
    assert alone.channel.credit.unannounced == 0
    assert alone.credit_notices == 0
    alone.close()


def test_releasing_returns_everything_and_cancels_the_request(arranged: Arranged) -> None:
    """G6 to G10, row 36: buffers that are queued, free, arriving, and still held by the
    operator."""
    for sequence in range(3):
        deliver(arranged.channel, sequence, backlog=4)
        arranged.channel.credit.take()
    buffer = arranged.poll()
    memory = begin(arranged.channel, BufferHeader(0, 3, 0, DataType.DATA_BUFFER, 4))
    arranged.channel.release()
    arranged.channel.release()
    assert arranged.client.sent.count(("close", 3)) == 1
    assert arranged.channel.credit.unannounced == 0
    memory.release()
    arranged.channel.end_buffer()
    assert arranged.channel.poll() is None
    notices = arranged.credit_notices
    buffer.recycle()
    assert arranged.credit_notices == notices
    assert arranged.channel.credit.take() == 0
    arranged.close()


def test_an_error_comes_before_what_is_queued(arranged: Arranged) -> None:
    """G14: the first error is raised every time; after the end or the release no error is
    raised."""
    deliver(arranged.channel, 0)
    first = ProducerFailedError("first")
    arranged.channel.fail(first)
    arranged.channel.fail(ProducerFailedError("second"))
    assert arranged.gate.notices == [(3, False)] * 2
    for _ in range(2):
        with pytest.raises(ProducerFailedError, match="first"):
            arranged.channel.poll()
    arranged.close()


@pytest.mark.parametrize("ended", ["complete", "finished", "released"])
def test_an_ended_channel_does_not_fail(arranged: Arranged, ended: str) -> None:
    """F9, invariant I10: the connection may close once everything has arrived."""
    if ended == "released":
        arranged.channel.release()
    else:
        arranged.end_data(0)
        deliver_end(arranged.channel, 1)
    if ended == "finished":
        arranged.poll()
    notices = len(arranged.gate.notices)
    arranged.channel.fail(ProducerFailedError("late"))
    assert arranged.channel.error is None
    assert len(arranged.gate.notices) == notices
    arranged.close()


def test_sequence_numbers_wrap() -> None:
    """G19, row 48: they have 32 bits."""
    arranged = Arranged()
    arranged.channel._expected_sequence = 0xFFFFFFFE
    for sequence in (0xFFFFFFFE, 0xFFFFFFFF, 0, 1):
        deliver(arranged.channel, sequence, b"event", data_type=EVENT)
    with pytest.raises(BufferReorderingError, match="received buffer 3, expected 2"):
        deliver(arranged.channel, 3)


# -- any history -----------------------------------------------------------------------------------

STEPS = st.lists(
    st.sampled_from(
        ["write", "write", "write", "send", "send", "send", "event", "poll", "poll", "recycle",
         "recycle", "announce", "barrier", "resume"]
    ),
    max_size=80,
)  # fmt: skip


class Producer:
    """The other side of a channel, limited to the messages that the protocol allows."""

    def __init__(self, arranged: Arranged) -> None:
        self.channel = arranged.channel
        self.initial = self.channel.initial_credit
        self.credit = self.initial
        self.queue: list[DataType] = []
        self.sequence = 0
        self.blocked = False

    @property
    def backlog(self) -> int:
        return sum(data_type.is_buffer for data_type in self.queue)

    def send(self) -> None:
        if not self.queue or self.blocked:
            return
        if self.queue[0].is_buffer and not self.credit:
            if not self.initial:
                self.channel.on_backlog(self.backlog)
            return
        data_type = self.queue.pop(0)
        self.credit -= data_type.is_buffer
        self.blocked = data_type.is_blocking_upstream
        backlog = 0 if self.blocked else self.backlog
        deliver(self.channel, self.sequence, b"x", data_type=data_type, backlog=backlog)
        self.sequence += 1

    def resume(self) -> None:
        self.blocked = False
        if not self.initial:
            self.credit = 0


@given(st.integers(0, 3), st.integers(1, 5), STEPS)
def test_credit_is_never_lost_nor_invented(exclusive: int, floating: int, steps: list[str]) -> None:
    """Invariants I4, I5, L1: after every step, the producer's credit and the unannounced credit add
    up to the free buffers. A frame therefore always finds a buffer, and at the end all written
    data has arrived."""
    arranged = Arranged(exclusive=exclusive, floating=floating)
    channel, producer = arranged.channel, Producer(arranged)
    held: list[Buffer] = []
    written = received = 0

    def announce() -> None:
        producer.credit += channel.credit.take()

    for name in steps:
        if name == "write":
            producer.queue.append(DataType.DATA_BUFFER)
            written += 1
        elif name == "event":
            producer.queue.append(EVENT)
        elif name == "barrier":
            producer.queue.append(DataType.ALIGNED_CHECKPOINT_BARRIER)
        elif name == "send":
            producer.send()
        elif name == "poll" and (polled := channel.poll()) is not None:
            received += polled[0].data_type.is_buffer
            held.append(polled[0])
        elif name == "recycle" and held:
            held.pop().recycle()
        elif name == "announce":
            announce()
        elif name == "resume" and producer.blocked:
            channel.resume_consumption()
            producer.resume()
        if exclusive or not producer.blocked:
            assert producer.credit + channel.credit.unannounced == channel.manager.available()
    for _ in range(4 * (len(steps) + 1)):
        if producer.blocked:
            channel.resume_consumption()
            producer.resume()
        producer.send()
        while (polled := channel.poll()) is not None:
            received += polled[0].data_type.is_buffer
            polled[0].recycle()
        while held:
            held.pop().recycle()
        announce()
    assert received == written
    assert not producer.queue
    arranged.close()


# -- without credit --------------------------------------------------------------------------------


def test_without_credit_a_frame_waits_for_a_buffer_and_reading_goes_on_with_it() -> None:
    """Until then nothing behind the frame is read."""
    network = NetworkBufferPool(1, 64)
    pool = network.create_local_pool(1, 1, owner="gate")
    client = Client()
    channel = RemoteInputChannel(
        NotingGate(), 3, PartitionLocation(THERE, "p", 0), network, pool, "off"
    )
    channel.request(client)
    assert channel.initial_credit == 0
    borrowed = pool.request()
    assert borrowed is not None
    header = BufferHeader(3, 0, 0, CLEAR_END, 4, records=1)
    assert channel.begin_buffer(header) is Stall.FOR_MEMORY
    assert client.sent == [("request", 3)]
    assert channel.statistics().is_short
    pool.recycle(borrowed)
    assert client.sent == [("request", 3), ("resume reading", 3)]
    assert not channel.statistics().is_short
    deliver(channel, 0, b"data")
    polled = channel.poll()
    assert polled is not None
    assert content_of(polled[0]) == b"data"
    polled[0].recycle()
    channel.release()
    pool.destroy()
    assert_everything_returned(network)


def test_events_are_counted_until_they_are_taken_and_then_until_they_are_told(
    arranged: Arranged,
) -> None:
    """Data is not counted, and neither is an announcement, which the channel makes itself."""
    channel = arranged.channel
    deliver(channel, 0, b"data")
    deliver(channel, 1, b"event", data_type=EVENT)
    arrive(arranged, TIMEOUTABLE, first=2)
    assert (channel.events_queued, channel.events_untold) == (2, 0)
    counts = []
    for _ in range(4):
        arranged.poll().recycle()
        counts.append((channel.events_queued, channel.events_untold))
    assert counts == [(2, 0), (2, 0), (1, 1), (0, 2)]
    assert [channel.take_event_credit(), channel.take_event_credit()] == [2, 0]
    assert (channel.events_queued, channel.events_untold) == (0, 0)
    arranged.close()
