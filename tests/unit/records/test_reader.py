from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.buffer.buffer import DataType
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import (
    ClosedResourceError,
    LocalProtocolError,
    ProducerFailedError,
    RemoteProtocolError,
    RemoteTransportError,
    SerializationError,
)
from flinknet.records.reader import EventHandler, RecordBatch, RecordReader
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.wire.events import Event
from tests.unit.arrangements import (
    THERE,
    Client,
    Running,
    assert_everything_returned,
    deliver,
    deliver_end,
    make_gate,
    run,
    wait,
)
from tests.unit.records.columns.cutting import Cut, cut, make_memory, make_unpacker

CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END


def packed(*records: Any) -> bytes:
    return b"".join(map(msgpack.packb, records))


class EndingClient(Client):
    """A client with producers that end a partition as soon as its data is acknowledged."""

    def acknowledge_all_data_processed(self, channel: RemoteInputChannel) -> None:
        super().acknowledge_all_data_processed(channel)
        deliver_end(channel, channel._expected_sequence)


class Arranged:
    """A reader of remote channels that get their frames from the test."""

    def __init__(
        self,
        channels: int = 1,
        *,
        event_handler: EventHandler | None = None,
        unpacker: RecordUnpacker | None = None,
        **limits: Any,
    ) -> None:
        self.client = EndingClient()
        self.gate, self.pool = make_gate(
            *[THERE] * channels, client=self.client, segment_bytes=4_096, segments=128
        )
        self.sequences = [0] * channels
        self.memory = make_memory(**limits)
        self.reader = RecordReader(
            self.gate,
            wait=wait,
            unpacker=unpacker or make_unpacker(record_elements_max=1_000),
            memory=self.memory,
            event_handler=event_handler,
        )

    def arrive(
        self,
        content: bytes,
        *,
        channel: int = 0,
        data_type: DataType = CLEAR_END,
        continued: int = 0,
        unfinished: int | None = None,
    ) -> None:
        """Let a frame arrive, with the credit that the channel has announced."""
        target = self.gate.remote_channels[channel]
        target.credit.take()
        deliver(
            target,
            self.sequences[channel],
            content,
            data_type=data_type,
            continued=continued,
            unfinished=unfinished,
        )
        self.sequences[channel] += 1

    def arrive_cut(self, buffer: Cut, *, channel: int = 0) -> None:
        """Let a frame of cut records arrive."""
        self.arrive(
            buffer.content,
            channel=channel,
            data_type=buffer.data_type,
            continued=buffer.continued,
            unfinished=buffer.unfinished,
        )

    def end(self, channel: int = 0) -> None:
        self.arrive(b"\x91\x01", channel=channel, data_type=DataType.END_OF_DATA)

    def batch(self) -> RecordBatch:
        """Read a batch, which must be there."""
        batch = run(self.reader.next_batch())
        assert batch is not None
        return batch

    @property
    def exclusive_in_use(self) -> int:
        """Return the number of buffers that are neither free nor waiting in a channel."""
        counts = self.gate.statistics()
        free = sum(part.exclusive_free + part.floating_free for part in counts.channels)
        idle = counts.floating_pool.idle
        queued = sum(part.queued_buffers for part in counts.channels)
        ahead = self.pool.statistics().free
        return self.pool.total - ahead - idle - free - queued

    def close(self) -> None:
        self.reader.close()
        self.memory.check_invariants()
        assert self.memory.statistics().records == 0
        assert_everything_returned(self.pool)


async def all_records(reader: RecordReader) -> list[Any]:
    return [record async for record in reader]


async def all_batches(reader: RecordReader) -> list[tuple[int, int, list[Any]]]:
    return [(batch.channel, batch.size_bytes, list(batch)) async for batch in reader.batches()]


# -- reading ---------------------------------------------------------------------------------------


def test_records_come_until_the_end() -> None:
    arranged = Arranged()
    arranged.arrive(packed(1, "two", (3,)))
    arranged.arrive(packed({"four": None}))
    arranged.end()
    assert run(all_records(arranged.reader)) == [1, "two", (3,), {"four": None}]
    assert run(all_records(arranged.reader)) == [], "and stays at the end"
    assert run(arranged.reader.next_batch()) is None
    arranged.close()


@pytest.mark.parametrize("left_after", [1, 2, 3])
def test_an_iteration_that_was_left_goes_on(left_after: int) -> None:
    """It iterates over records, or over batches with the rest of one.

    The buffer is held meanwhile.
    """
    for rest in (all_records, all_batches):
        arranged = Arranged()
        arranged.arrive(packed(1, "two", (3,)))
        arranged.arrive(packed(4))
        begun = [run(anext(arranged.reader)) for _ in range(left_after)]
        assert begun == [1, "two", (3,)][:left_after]
        assert arranged.exclusive_in_use == 1
        arranged.end()
        first, size = [1, "two", (3,)][left_after:], len(packed(1, "two", (3,)))
        if rest is all_records:
            assert run(all_records(arranged.reader)) == [*first, 4]
        else:
            whole = [(0, size, first), (0, 1, [4])]
            assert run(all_batches(arranged.reader)) == whole[not first :]
        arranged.close()


def test_nothing_of_a_batch_comes_after_close() -> None:
    arranged = Arranged()
    arranged.arrive(packed(1, 2, 3))
    assert run(anext(arranged.reader)) == 1
    arranged.close()
    for read in (anext, all_records, all_batches):
        with pytest.raises(ClosedResourceError):
            run(read(arranged.reader))


def test_a_batch_is_what_a_buffer_holds() -> None:
    arranged = Arranged(2)
    arranged.arrive(packed(1, 2), channel=1)
    arranged.arrive(packed("three"), channel=0)
    arranged.end(0)
    arranged.end(1)
    assert run(all_batches(arranged.reader)) == [(1, 2, [1, 2]), (0, 6, ["three"])]
    assert arranged.reader.bytes_in == 8
    arranged.close()


def test_a_record_over_two_buffers_comes_with_the_second() -> None:
    arranged = Arranged()
    for buffer in cut(["first", "second"], 9):
        arranged.arrive_cut(buffer)
    arranged.end()
    assert run(all_batches(arranged.reader)) == [(0, 9, ["first"]), (0, 4, ["second"])]


def test_channels_do_not_mix_inside_records() -> None:
    """A2: each channel has its own deserializer."""
    arranged = Arranged(2)
    for half in cut(["long record"], 7):
        arranged.arrive_cut(half, channel=0)
        arranged.arrive_cut(half, channel=1)
    arranged.end(0)
    arranged.end(1)
    assert run(all_records(arranged.reader)) == ["long record"] * 2


def test_reading_waits_for_data() -> None:
    """Cancelling a waiting read loses nothing."""
    arranged = Arranged()
    Running(arranged.reader.next_batch()).cancel()
    assert arranged.gate.availability.waiting == 0
    reading = Running(arranged.reader.next_batch())
    assert reading.waits_for is arranged.gate.availability
    arranged.arrive(packed("data"))
    reading.go_on()
    assert reading.result is not None
    assert list(reading.result) == ["data"]
    arranged.close()


def test_a_read_cancelled_after_a_batch_loses_nothing() -> None:
    arranged = Arranged()
    for number in range(5):
        arranged.arrive(packed(number))
    arranged.arrive(packed("last"))
    assert [list(arranged.batch()) for _ in range(5)] == [[number] for number in range(5)]
    reading = Running(arranged.reader.next_batch(), start=False)
    reading.step()
    assert not reading.done
    assert reading.waits_for is None, "it lets others run, once per few buffers"
    reading.cancel()
    assert list(arranged.batch()) == ["last"]
    arranged.close()


# -- giving back -----------------------------------------------------------------------------------


def test_a_buffer_goes_back_when_the_next_batch_is_asked_for() -> None:
    """Section 1.6: credit comes back when the operator is done, not before."""
    arranged = Arranged()
    arranged.arrive(packed(1, 2, 3))
    batch = arranged.batch()
    assert arranged.exclusive_in_use == 1
    assert list(batch) == [1, 2, 3]
    assert arranged.exclusive_in_use == 1
    reading = Running(arranged.reader.next_batch())
    assert arranged.exclusive_in_use == 0
    assert reading.waits_for is not None
    arranged.close()


def test_a_batch_that_was_not_iterated_counts_as_processed() -> None:
    arranged = Arranged()
    for buffer in cut([1, 2, 3, "cut here", "next"], 9):
        arranged.arrive_cut(buffer)
    assert len(arranged.batch()) == 3
    assert list(arranged.batch()) == ["cut here", "next"]
    assert arranged.exclusive_in_use == 1


def test_a_batch_can_be_read_again() -> None:
    arranged = Arranged()
    arranged.arrive(packed(1, 2))
    batch = arranged.batch()
    assert [list(batch), list(batch), list(batch.records)] == [[1, 2]] * 3


def test_records_that_have_arrived_are_taken_without_waiting() -> None:
    arranged = Arranged(2)
    reader = arranged.reader
    arranged.arrive(packed(*range(200)), channel=1)
    assert run(reader.begin_batch()) == 200
    assert (reader.channel, reader.records_in) == (1, 200)
    assert list(islice(reader.arrived, 150)) == list(range(150))
    assert arranged.exclusive_in_use == 1
    assert run(reader.begin_batch()) == 50, "what is left of a batch is not lost"
    assert next(reader.arrived) == 150
    assert list(arranged.batch()) == list(range(151, 200))
    assert (reader.channel, reader.records_in) == (1, 200)
    reading = Running(reader.begin_batch())
    assert arranged.exclusive_in_use == 0
    arranged.end()
    arranged.end(1)
    reading.go_on()
    assert reading.result is None
    arranged.close()


def test_no_record_is_kept_while_the_next_batch_is_waited_for() -> None:
    """This holds for each way of reading. The next records reuse its memory."""
    pack = RecordPacker().pack
    takes: list[Callable[[RecordReader], Iterable[Any]]] = [
        lambda reader: reader.arrived,
        lambda reader: reader.arrived.take_all(),
        lambda reader: (run(anext(reader)) for _ in range(2)),
    ]
    for take in takes:
        arranged = Arranged()
        arranged.arrive(pack({1}) + pack({2}))
        run(arranged.reader.begin_batch())
        held = [weakref.ref(record) for record in take(arranged.reader)]
        waiting = Running(arranged.reader.begin_batch())
        gc.collect()
        assert [one() for one in held] == [None, None]
        waiting.cancel()
        arranged.close()


def test_a_batch_in_which_no_record_ends_is_empty() -> None:
    arranged = Arranged()
    for buffer in cut(["long" * 3], 6):
        arranged.arrive_cut(buffer)
    assert [run(arranged.reader.begin_batch()) for _ in range(2)] == [0, 0]
    assert list(arranged.reader.arrived) == []
    assert run(arranged.reader.begin_batch()) == 1
    assert list(arranged.reader.arrived) == ["long" * 3]
    arranged.close()


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("data_type", [CLEAR_END, DataType.DATA_BUFFER], ids=["clear", "unclear"])
def test_an_empty_buffer_says_where_it_stands(inside: bool, data_type: DataType) -> None:
    """It ends a record or not, like any other buffer."""
    arranged = Arranged()
    if inside:
        arranged.arrive_cut(cut(["a record"], 3)[0])
        assert run(arranged.reader.begin_batch()) == 0
    arranged.arrive(b"", data_type=data_type, unfinished=0)
    if inside == (data_type is CLEAR_END):
        what = "sent an incomplete record" if inside else "continued a record"
        with pytest.raises(RemoteProtocolError, match=what):
            run(arranged.reader.begin_batch())
    else:
        assert run(arranged.reader.begin_batch()) == 0
        assert arranged.exclusive_in_use == 1
    arranged.close()


def test_the_end_of_data_is_acknowledged_after_the_last_record() -> None:
    """D12: for each channel separately."""
    arranged = Arranged(2)
    arranged.arrive(packed("last"))
    arranged.end()
    batch = arranged.batch()
    assert list(batch) == ["last"]
    assert ("acknowledge", 0) not in arranged.client.sent
    reading = Running(arranged.reader.next_batch())
    assert arranged.client.sent.count(("acknowledge", 0)) == 1
    assert ("acknowledge", 1) not in arranged.client.sent
    arranged.end(1)
    reading.go_on()
    assert reading.done
    assert reading.result is None
    assert ("acknowledge", 1) in arranged.client.sent
    arranged.close()


def test_other_events_are_passed_over() -> None:
    arranged = Arranged()
    arranged.arrive(b"event", data_type=DataType.EVENT_BUFFER)
    arranged.arrive(packed("data"))
    assert list(arranged.batch()) == ["data"]


class Handler:
    """Records the events, with the number of records read before each."""

    def __init__(self, **limits: Any) -> None:
        self.arranged = Arranged(2, event_handler=self, **limits)
        self.events: list[tuple[int, int, DataType, bytes]] = []

    def on_event(self, channel: int, event: Event) -> None:
        self.events.append((self.arranged.reader.records_in, channel, *event))


def test_events_are_handed_to_their_handler_between_records() -> None:
    """A17: the events of each channel come in order.

    The ends of a channel are handed over, too, and acknowledged then.
    """
    handler = Handler()
    arranged = handler.arranged
    arranged.arrive(packed(1, 2))
    arranged.arrive(b"\x91\x07", data_type=DataType.EVENT_BUFFER)
    arranged.arrive(packed(3))
    arranged.arrive(b"\x90", channel=1, data_type=DataType.EVENT_BUFFER)
    arranged.end(1)
    arranged.end(0)
    read = []
    while (batch := run(arranged.reader.next_batch())) is not None:
        read += list(batch)
    assert read == [1, 2, 3]
    assert [event for event in handler.events if event[1] == 0] == [
        (2, 0, DataType.EVENT_BUFFER, b"\x91\x07"),
        (3, 0, DataType.END_OF_DATA, b"\x91\x01"),
        (3, 0, DataType.END_OF_PARTITION, b"\x90"),
    ]
    assert [event[2:] for event in handler.events if event[1] == 1] == [
        (DataType.EVENT_BUFFER, b"\x90"),
        (DataType.END_OF_DATA, b"\x91\x01"),
        (DataType.END_OF_PARTITION, b"\x90"),
    ]
    arranged.close()


def test_a_handler_may_take_a_blocking_event() -> None:
    """The handler then resumes the channel by itself."""
    handler = Handler()
    arranged = handler.arranged
    arranged.arrive(b"\x90", data_type=DataType.ALIGNED_CHECKPOINT_BARRIER)
    reading = Running(arranged.reader.next_batch())
    assert handler.events == [(0, 0, DataType.ALIGNED_CHECKPOINT_BARRIER, b"\x90")]
    assert ("resume", 0) not in arranged.client.sent
    arranged.gate.channels[0].resume_consumption()
    assert ("resume", 0) in arranged.client.sent
    arranged.arrive(packed("behind"))
    reading.go_on()
    assert reading.result is not None
    assert list(reading.result) == ["behind"]
    arranged.close()


def test_an_error_of_the_handler_ends_reading() -> None:
    class Refusing:
        def on_event(self, channel: int, event: Event) -> None:
            raise ZeroDivisionError(event.data_type.name)

    arranged = Arranged(event_handler=Refusing())
    arranged.arrive(b"\x90", data_type=DataType.EVENT_BUFFER)
    with pytest.raises(ZeroDivisionError, match="EVENT_BUFFER"):
        run(arranged.reader.next_batch())
    arranged.close()


@pytest.mark.parametrize(
    "data_type",
    [DataType.EVENT_BUFFER, DataType.ALIGNED_CHECKPOINT_BARRIER],
    ids=lambda data_type: data_type.name,
)
def test_an_event_without_priority_stands_between_records(data_type: DataType) -> None:
    """A handler would take it for the end of the records before it."""
    handler = Handler()
    arranged = handler.arranged
    arranged.arrive(packed("x" * 100)[:50], data_type=DataType.DATA_BUFFER)
    arranged.arrive(b"\x90", data_type=data_type)
    arranged.batch()
    with pytest.raises(RemoteProtocolError, match=f"delivered {data_type.name} inside a record"):
        run(arranged.reader.next_batch())
    assert handler.events == []
    arranged.close()


@pytest.mark.parametrize("spill", [20, 1 << 20], ids=["on disk", "in memory"])
def test_the_overtaken_part_of_a_record_goes_on_in_another_reader(spill: int) -> None:
    """A3, A5, A6: a priority event comes in the middle of a record.

    The part received so far begins the other reader.
    """
    record, cut_at = packed("x" * 100), 60
    handler = Handler(record_spill_bytes=spill)
    arranged = handler.arranged
    arranged.arrive(
        packed("before") + record[:cut_at], data_type=DataType.DATA_BUFFER, unfinished=cut_at
    )
    assert list(arranged.batch()) == ["before"]
    arranged.arrive(b"\x90", data_type=DataType.PRIORITIZED_EVENT_BUFFER)
    Running(arranged.reader.next_batch())
    assert [event[2] for event in handler.events] == [DataType.PRIORITIZED_EVENT_BUFFER]
    overtaken = list(arranged.reader.unconsumed(0))
    assert b"".join(overtaken) == record[:cut_at]
    assert list(arranged.reader.unconsumed(1)) == []
    arranged.close()
    other = Arranged(record_spill_bytes=spill)
    other.reader.restore(0, overtaken)
    with pytest.raises(LocalProtocolError, match="inside a record, 60 bytes"):
        other.reader.restore(0, overtaken)
    other.arrive(record[cut_at:] + packed("behind"), continued=len(record) - cut_at)
    assert list(other.batch()) == ["x" * 100, "behind"]
    other.close()


@pytest.mark.parametrize("spill", [50, 1_000])
def test_nothing_is_left_of_a_channel_that_has_ended(spill: int) -> None:
    """N5: a checkpoint behind its end has nothing of it to store, and no memory is held for it."""
    record, cut_at = packed("x" * 100), 60
    handler = Handler(record_spill_bytes=spill)
    arranged = handler.arranged
    arranged.arrive(record[:cut_at], data_type=DataType.DATA_BUFFER, unfinished=cut_at)
    arranged.arrive(record[cut_at:], continued=len(record) - cut_at)
    arranged.end()
    assert list(arranged.batch()) == []
    assert b"".join(arranged.reader.unconsumed(0)) == record[:cut_at]
    assert list(arranged.batch()) == ["x" * 100]
    arranged.arrive(b"\x90", channel=1, data_type=DataType.EVENT_BUFFER)
    arranged.end(1)
    assert run(arranged.reader.next_batch()) is None
    assert [list(arranged.reader.unconsumed(channel)) for channel in range(2)] == [[], []]
    assert arranged.memory.statistics().records == 0
    arranged.close()


def test_priority_events_do_not_wait_for_the_next_batch() -> None:
    """Only such an event is handled in the middle of a batch."""
    handler = Handler()
    arranged = handler.arranged
    arranged.arrive(packed(1, 2))
    arranged.arrive(packed(3))
    batch = arranged.batch()
    arranged.reader.take_priority_events()
    assert handler.events == []
    for channel in (1, 0):
        arranged.arrive(b"\x90", channel=channel, data_type=DataType.PRIORITIZED_EVENT_BUFFER)
    arranged.reader.take_priority_events()
    assert [event[2] for event in handler.events] == [DataType.PRIORITIZED_EVENT_BUFFER] * 2
    assert list(batch) == [1, 2]
    assert list(arranged.batch()) == [3]
    arranged.close()


def test_batches_that_have_come_are_begun_together() -> None:
    """This stops at an event, which is handled behind them. Their buffers go back together."""
    handler = Handler()
    arranged = handler.arranged
    reader = arranged.reader
    arranged.arrive(packed(1, 2))
    arranged.arrive(packed(3), channel=1)
    arranged.arrive(packed(4, 5))
    arranged.arrive(b"\x91\x07", data_type=DataType.EVENT_BUFFER)
    arranged.arrive(packed(6))
    assert run(reader.begin_batch()) == 2
    others = []
    while (other := reader.begin_another_batch()) is not None:
        others.append(other)
    assert handler.events == []
    assert next(reader.arrived) == 1
    taken = [(other.channel, other.arrived.take_all()) for other in others]
    assert sorted(taken) == [(0, (4, 5)), (1, (3,))]
    assert list(reader.arrived) == [2]
    assert reader.records_in == 5
    before = arranged.exclusive_in_use
    assert list(arranged.batch()) == [6]
    assert [event[2] for event in handler.events] == [DataType.EVENT_BUFFER]
    assert before >= 3
    assert arranged.exclusive_in_use == 1
    assert reader.begin_another_batch() is None
    arranged.close()


def test_closing_gives_back_what_was_begun_together() -> None:
    """It also returns the event that was found behind them."""
    handler = Handler()
    arranged = handler.arranged
    arranged.arrive(packed(1, 2))
    arranged.arrive(packed(3, 4))
    arranged.arrive(b"\x91\x07", data_type=DataType.EVENT_BUFFER)
    assert run(arranged.reader.begin_batch()) == 2
    other = arranged.reader.begin_another_batch()
    assert other is not None
    assert next(other.arrived) == 3
    assert arranged.reader.begin_another_batch() is None
    assert arranged.reader.begin_another_batch() is None, "the event stays in front"
    arranged.close()
    assert list(other.arrived) == []


def test_bytes_that_are_no_record_are_told_to_what_fails_the_gate() -> None:
    """Records may be unpacked in another thread, which must not touch the gate.

    The error names the channel of its own batch, even if others were begun beside it.
    """
    arranged = Arranged(2)
    told: list[Exception] = []
    arranged.reader.fail_gate = told.append
    arranged.arrive(packed("good"))
    arranged.arrive(packed("good", "good") + b"\xc1", channel=1)
    assert run(arranged.reader.begin_batch()) == 1
    with pytest.raises(
        SerializationError, match="bytes on channel 1 .* are not a record"
    ) as raised:
        list(arranged.reader.begin_another_batch().arrived)  # type: ignore[union-attr]
    assert told == [raised.value]
    assert arranged.gate.failure is None
    arranged.close()


def test_closing_gives_everything_back() -> None:
    """This holds in the middle of a batch and of a record, and for a second close."""
    arranged = Arranged(2)
    arranged.arrive(packed(1, 2))
    arranged.arrive(packed("x" * 100)[:50], channel=1, data_type=DataType.DATA_BUFFER)
    arranged.arrive(packed("queued"))
    records = iter(arranged.batch())
    assert next(records) == 1
    arranged.reader.close()
    arranged.reader.close()
    assert_everything_returned(arranged.pool)
    assert [message for message in arranged.client.sent if message[0] == "close"] == [
        ("close", 0),
        ("close", 1),
    ]
    with pytest.raises(ClosedResourceError):
        run(arranged.reader.next_batch())


def test_closing_wakes_a_read_that_waits() -> None:
    arranged = Arranged()
    reading = Running(arranged.reader.next_batch())
    arranged.reader.close()
    with pytest.raises(ClosedResourceError):
        reading.go_on()


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ProducerFailedError("cause"), RemoteTransportError("cause")])
def test_the_error_of_a_channel_ends_the_reading(error: Exception) -> None:
    """The error comes before queued data, and with every further read."""
    arranged = Arranged(2)
    arranged.arrive(packed("queued"), channel=1)
    arranged.gate.channels[0].fail(error)
    for _ in range(2):
        with pytest.raises(type(error), match="cause"):
            run(arranged.reader.next_batch())
    arranged.close()


BAD_BYTES = [
    b"\xc1",  # a byte that msgpack never uses
    b"\xa1\xff",  # invalid UTF-8
    b"\x81\x80\x01",  # a key that cannot be hashed
    b"\x81\x91\x80\x01",
    b"\xc7\x0c\xff" + b"\0" * 4 + b"\x7f" + b"\xff" * 7,  # a date that does not exist
    b"\xd7\xff" + b"\xff" * 8,
    b"\xdd\x00\x00\xff\xff",  # more elements than a record may have
    b"\x91" * 2_000,  # deeper than msgpack can
]


@pytest.mark.parametrize("bad", BAD_BYTES, ids=lambda bad: bad[:4].hex())
@pytest.mark.parametrize("spanning", [False, True])
def test_bytes_that_are_no_record_are_an_error_of_their_channel(bad: bytes, spanning: bool) -> None:
    """Invariant I10: the channel is named, and nothing is read behind it or from the other
    channels."""
    arranged = Arranged(2)
    if spanning:
        bad = bad if len(bad) > 1 else b"\x91" + bad
        arranged.arrive_cut(Cut(bad[:1], 0, 1, clear_end=False), channel=1)
        arranged.arrive_cut(Cut(bad[1:], len(bad) - 1), channel=1)
        assert list(arranged.batch()) == []
    else:
        arranged.arrive(packed("good") + bad, channel=1)
    arranged.arrive(packed("behind"), channel=1)
    arranged.arrive(packed("other"), channel=0)
    with pytest.raises(SerializationError, match="bytes on channel 1 .* are not a record") as first:
        run(arranged.reader.next_batch())
    for _ in range(2):
        with pytest.raises(SerializationError) as again:
            run(arranged.reader.next_batch())
        assert again.value is first.value
    assert arranged.exclusive_in_use == 0
    arranged.close()


@pytest.mark.parametrize("bad", BAD_BYTES, ids=lambda bad: bad[:4].hex())
@pytest.mark.parametrize("goes_on", ["by record", "by batch", "by what has arrived"])
def test_bytes_that_are_no_record_end_an_iteration(bad: bytes, goes_on: str) -> None:
    """The records before them may come, the records behind them never do, for any way of
    reading."""
    arranged = Arranged(2)
    good = [(number, 0.5) for number in range(3)]
    arranged.arrive(packed(*good) + bad, channel=1)
    arranged.arrive(packed("behind"), channel=1)
    arranged.arrive(packed("other"), channel=0)
    read = []
    with pytest.raises(SerializationError, match="bytes on channel 1 .* are not a record") as first:
        read.append(run(anext(arranged.reader)))
        if goes_on == "by batch":
            run(arranged.reader.next_batch())
        if goes_on == "by what has arrived":
            while (record := next(arranged.reader.arrived, None)) is not None:
                read.append(record)
            run(arranged.reader.begin_batch())
        while True:
            read.append(run(anext(arranged.reader)))
    assert read == good[: len(read)]
    for _ in range(2):
        with pytest.raises(SerializationError) as again:
            run(anext(arranged.reader))
        assert again.value is first.value
    assert arranged.exclusive_in_use == 0
    arranged.close()


class ShortOfMemory(RecordUnpacker):
    """Unpacks on a machine without memory for the records of one buffer."""

    is_short = True

    def whole_records(self, data: memoryview, start: int, end: int, number: int) -> tuple[Any, ...]:
        if ShortOfMemory.is_short:
            ShortOfMemory.is_short = False
            raise MemoryError
        return super().whole_records(data, start, end, number)


@pytest.mark.parametrize("asks", [RecordReader.next_batch, RecordReader.__anext__])
def test_reading_does_not_continue_behind_records_without_memory(
    asks: Callable[[RecordReader], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShortOfMemory, "is_short", True)
    unpacker = ShortOfMemory(record_bytes_max=1_000, record_elements_max=1_000)
    arranged = Arranged(unpacker=unpacker)
    arranged.arrive(packed("lost"))
    arranged.arrive(packed("behind"))
    for _ in range(2):
        with pytest.raises(MemoryError):
            run(asks(arranged.reader))
    assert arranged.exclusive_in_use == 0
    arranged.close()


def test_a_record_that_goes_on_where_none_was_begun_ends_an_iteration() -> None:
    arranged = Arranged()
    arranged.arrive(packed(1, 2, 3), continued=1)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="continued a record that it did not begin"):
            run(anext(arranged.reader))
    arranged.close()


@pytest.mark.parametrize("records", [[(1, 2), (3, 4), (5, 6)], [(1, 2), {}, (3, 4)], [1, 2, 3]])
def test_a_reader_that_is_closed_inside_a_buffer_returns_it(records: list[Any]) -> None:
    arranged = Arranged()
    arranged.arrive(packed(*records))
    assert run(anext(arranged.reader)) == records[0]
    arranged.close()


def test_records_are_counted_when_their_buffer_is_begun() -> None:
    arranged = Arranged()
    arranged.arrive(packed(*range(100)))
    run(anext(arranged.reader))
    assert arranged.reader.records_in == 100
    assert arranged.gate.reader_is_slow
    arranged.close()


def test_a_record_over_the_limit_is_an_error() -> None:
    arranged = Arranged(record_bytes_max=2_000)
    first, second, third, *_ = cut(["x" * 20_000], 900)
    for buffer in (first, second):
        arranged.arrive_cut(buffer)
        assert list(arranged.batch()) == []
    arranged.arrive_cut(third)
    with pytest.raises(SerializationError, match="record_bytes_max") as refused:
        run(arranged.reader.next_batch())
    assert "channel 0 (p0[0] at 127.0.0.1:2)" in str(refused.value)
    with pytest.raises(SerializationError):
        run(arranged.reader.next_batch())
    arranged.close()


@pytest.mark.parametrize("cut_off", [b"\x92\x01", b"\xa2\xc3", b"\xd9"], ids=bytes.hex)
def test_a_record_cut_where_its_end_was_announced_is_an_error(cut_off: bytes) -> None:
    arranged = Arranged()
    arranged.arrive(packed(1) + cut_off)
    arranged.arrive(packed("behind"))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="sent an incomplete record"):
            run(arranged.reader.next_batch())
    arranged.close()


def test_data_that_ends_inside_a_record_is_an_error() -> None:
    """A15, by meaning: nothing can be read behind the last buffer."""
    arranged = Arranged()
    arranged.arrive(packed("torn record")[:5], data_type=DataType.DATA_BUFFER)
    arranged.end()
    assert list(arranged.batch()) == []
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="channel 0 .* ended inside a record"):
            run(arranged.reader.next_batch())
    assert ("acknowledge", 0) not in arranged.client.sent
    arranged.close()


def test_a_blocking_event_that_is_not_resumed_is_an_error() -> None:
    """It would block its producer forever."""
    arranged = Arranged()
    arranged.arrive(b"\x90", data_type=DataType.ALIGNED_CHECKPOINT_BARRIER)
    with pytest.raises(RemoteProtocolError, match="ALIGNED_CHECKPOINT_BARRIER, which this reader"):
        run(arranged.reader.next_batch())
    arranged.close()


def test_buffers_that_contradict_each_other_are_an_error() -> None:
    """Each passes the codec; their sequence is refused."""
    for buffer, reason in (
        (Cut(b"abc\x01", 3), "continued a record that it did not begin"),
        (Cut(b"\xa5abc", 0, 4, clear_end=False), "did not continue it"),
    ):
        arranged = Arranged()
        arranged.arrive_cut(buffer)
        arranged.arrive(packed("behind"))
        with pytest.raises(RemoteProtocolError, match=reason):
            for _ in range(2):
                arranged.batch()
        arranged.close()


# -- long records ----------------------------------------------------------------------------------


def test_a_record_on_disk_is_dropped_with_its_gate() -> None:
    """This includes a gate that is released from below, as an ending worker does it."""
    arranged = Arranged(2, record_spill_bytes=10)
    for channel in range(2):
        arranged.arrive_cut(cut(["x" * 100], 50)[0], channel=channel)
        arranged.batch()
    assert arranged.memory.statistics().spilled_bytes == 100
    run_to_wait = Running(arranged.reader.next_batch())
    arranged.gate.release()
    assert arranged.memory.statistics().records == 0
    with pytest.raises(ClosedResourceError):
        run_to_wait.go_on()
    arranged.close()


def test_a_disk_that_refuses_fails_the_gate(tmp_path: Path) -> None:
    """The error gives the place and a remedy, and every buffer comes back."""
    missing = tmp_path / "missing"
    arranged = Arranged(2, record_spill_bytes=10, spill_directory=missing)
    arranged.arrive_cut(cut(["x" * 100], 50)[0], channel=1)
    arranged.arrive(packed("behind"))
    for _ in range(2):
        with pytest.raises(SerializationError) as refused:
            run(arranged.reader.next_batch())
        assert str(missing) in str(refused.value)
        assert "spill_directory" in str(refused.value)
    assert arranged.exclusive_in_use == 0
    arranged.close()


# -- any stream ------------------------------------------------------------------------------------

VALUES = st.none() | st.integers(0, 2**40) | st.text(max_size=30) | st.binary(max_size=200)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 300) | st.tuples(VALUES, VALUES) | VALUES, max_size=25),
    st.integers(1, 120),
    st.sets(st.integers(0, 25)),
)
def test_any_cutting_by_record(records: list[Any], segment_bytes: int, left_at: set[int]) -> None:
    """Invariants I1, I2: an iteration that is left for a batch loses nothing."""
    arranged = Arranged(reassembly_memory_bytes=800, record_spill_bytes=100)
    read: list[Any] = []

    async def read_all() -> None:
        while True:
            if len(read) in left_at:
                batch = await arranged.reader.next_batch()
                if batch is None:
                    return
                read.extend(batch)
            else:
                try:
                    read.append(await anext(arranged.reader))
                except StopAsyncIteration:
                    return

    reading = Running(read_all())
    for buffer in cut(records, segment_bytes):
        arranged.arrive_cut(buffer)
        reading.go_on()
    arranged.end()
    reading.go_on()
    assert reading.done
    assert read == records
    arranged.close()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), VALUES), max_size=25), st.integers(1, 120))
def test_any_cutting(writes: list[tuple[int, Any]], segment_bytes: int) -> None:
    """Invariants I1, I2: records of three channels, cut anywhere, come in the order of their
    channel. Their reassembly keeps within its memory."""
    arranged = Arranged(3, reassembly_memory_bytes=150, record_spill_bytes=100)
    for channel in range(3):
        records = [record for to, record in writes if to == channel]
        read: list[Any] = []
        for buffer in cut(records, segment_bytes):
            arranged.arrive_cut(buffer, channel=channel)
            batch = arranged.batch()
            assert (batch.channel, batch.size_bytes) == (channel, len(buffer.content))
            read += batch
        assert read == records
        arranged.end(channel)
    assert run(all_records(arranged.reader)) == []
    arranged.close()


def test_the_reader_says_whether_a_buffer_takes_it_long() -> None:
    """Its gate may hold credit back then."""
    arranged = Arranged()
    slow = []
    for records in (63, 64, 1, 100):
        arranged.arrive(packed(*range(records)))
        arranged.batch()
        slow.append(arranged.gate.reader_is_slow)
    assert slow == [False, True, False, True]
    arranged.close()


def test_a_handler_may_ask_for_its_turn() -> None:
    """N5: the task gets an empty batch before anything behind the event is read."""

    class Asking:
        def on_event(self, channel: int, event: Event) -> bool:
            return event.data_type is DataType.EVENT_BUFFER

    arranged = Arranged(event_handler=Asking())
    arranged.arrive(packed("before"))
    arranged.arrive(b"\x90", data_type=DataType.EVENT_BUFFER)
    arranged.arrive(packed("behind"))
    arranged.end()
    batches = []
    while (batch := run(arranged.reader.next_batch())) is not None:
        batches.append((list(batch), batch.size_bytes))
    assert [records for records, _ in batches] == [["before"], [], ["behind"]]
    assert batches[1][1] == 0
    arranged.close()
