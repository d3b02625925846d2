from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.view import BufferAndBacklog
from flinknet.config import WireLimits
from flinknet.errors import LocalProtocolError
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.partition.subpartition import ResultSubpartition
from flinknet.wire.events import Watermark, WatermarkStatus
from tests.unit.arrangements import (
    Reader,
    Recycler,
    builder_of,
    content_of,
    event_of,
    take,
    take_all,
)

CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
EVENT = DataType.EVENT_BUFFER
BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER
PRIORITY = DataType.PRIORITIZED_EVENT_BUFFER
TIMEOUTABLE = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
END_OF_DATA = DataType.END_OF_DATA
END = DataType.END_OF_PARTITION
NONE = DataType.NONE

BLOCKING = [data_type for data_type in DataType if data_type.is_blocking_upstream]


class Owner:
    """A partition that records the calls of its subpartition."""

    partition_id = "p"

    def __init__(self) -> None:
        self.acknowledged = 0
        self.rooms = 0
        self.released: list[BaseException | None] = []
        self.taken: list[Buffer] = []
        self.timed_out: list[int] = []
        self.cause: BaseException | None = None

    def failure_cause(self) -> BaseException | None:
        return self.cause

    def on_all_data_processed(self) -> None:
        self.acknowledged += 1

    def on_barrier_taken(self, subpartition: ResultSubpartition, event: Buffer) -> None:
        self.taken.append(event)

    def time_out_barrier_of(self, subpartition: ResultSubpartition, checkpoint_id: int) -> bool:
        self.timed_out.append(checkpoint_id)
        return True

    def on_room_for_events(self) -> None:
        self.rooms += 1

    def on_released(self, subpartition: ResultSubpartition, cause: BaseException | None) -> None:
        self.released.append(cause)


class Arranged:
    """A subpartition with its reader and the recycler of its buffers."""

    def __init__(self, *, read: bool = True, limits: WireLimits | None = None) -> None:
        self.owner = Owner()
        self.reader = Reader()
        self.recycler = Recycler()
        self.subpartition = PipelinedSubpartition(self.owner, 0, 64, limits or WireLimits())
        if read:
            self.subpartition.create_view(self.reader)

    def add(self, content: bytes) -> None:
        """Append an open builder with content."""
        self.subpartition.add_builder(builder_of(content, recycler=self.recycler))

    def add_finished(self, content: bytes) -> None:
        """Append a sealed buffer."""
        self.add(content)
        self.subpartition.seal_open()

    def add_event(self, data_type: DataType = EVENT, payload: bytes = b"event") -> None:
        self.subpartition.add_event(event_of(data_type, payload))

    def end_data(self) -> None:
        self.add_event(END_OF_DATA, b"\x91\x01")

    def end(self) -> None:
        """End the data and then the partition, as if all data had been processed."""
        self.end_data()
        self.subpartition.acknowledge_all_data_processed()
        self.add_event(END, b"\x90")

    def poll(self) -> BufferAndBacklog:
        """Poll a buffer, which must be there, and recycle it."""
        polled = self.subpartition.poll()
        assert polled is not None
        polled.buffer.recycle()
        return polled

    @property
    def notices(self) -> int:
        return self.reader.notices

    @property
    def available(self) -> DataType:
        return self.subpartition.next_data_type()

    @property
    def backlog(self) -> int:
        return self.subpartition.backlog()


def arranged_after_barrier(data_type: DataType = BARRIER) -> Arranged:
    """Return a subpartition whose reader has polled a barrier with nothing behind it."""
    arranged = Arranged()
    arranged.add_event(data_type)
    assert take(arranged.subpartition) is data_type
    return arranged


# -- backlog and notices ---------------------------------------------------------------------------


def test_an_unfinished_buffer_is_not_promised_but_can_be_polled() -> None:
    """C1."""
    arranged = Arranged()
    arranged.add(b"1234")
    assert (arranged.backlog, arranged.notices, arranged.available) == (0, 0, NONE)
    polled = arranged.poll()
    assert (polled.buffer.size, polled.backlog, polled.next_data_type) == (4, 0, NONE)
    assert arranged.subpartition.poll() is None


def test_the_second_buffer_finishes_the_first() -> None:
    """C2: one notice at backlog 1; further buffers send no notice until the queue was drained."""
    arranged = Arranged()
    arranged.add(b"first")
    arranged.add(b"second")
    assert (arranged.notices, arranged.backlog, arranged.available) == (1, 1, CLEAR_END)
    arranged.add(b"third")
    arranged.add(b"fourth")
    assert (arranged.notices, arranged.backlog) == (1, 3)


def test_after_the_finished_buffer_the_open_one_is_not_announced() -> None:
    """C3."""
    arranged = Arranged()
    arranged.add(b"first")
    arranged.add(b"second")
    polled = arranged.poll()
    assert (polled.next_data_type, polled.backlog) == (NONE, 0)
    assert take(arranged.subpartition) == b"second"


def test_a_flush_behind_a_finished_buffer_needs_no_notice() -> None:
    """C4: the backlog rises from 1 to 2, and the first read says that more is available."""
    arranged = Arranged()
    arranged.add(b"first")
    arranged.add(b"second")
    assert (arranged.notices, arranged.backlog) == (1, 1)
    arranged.subpartition.flush()
    assert (arranged.notices, arranged.backlog) == (1, 2)
    polled = arranged.poll()
    assert polled.next_data_type.is_buffer
    assert polled.backlog == 1
    polled = arranged.poll()
    assert (polled.next_data_type, polled.backlog) == (NONE, 0)


def test_a_flush_of_the_only_buffer_notifies_once() -> None:
    """C5."""
    arranged = Arranged()
    arranged.add(b"first")
    arranged.add(b"second")
    arranged.poll()
    assert arranged.notices == 1
    arranged.subpartition.flush()
    assert (arranged.notices, arranged.backlog) == (2, 1)
    arranged.subpartition.flush()
    assert arranged.notices == 2


def test_a_flush_of_nothing_does_nothing() -> None:
    """C5: whether there is no builder or an empty one."""
    arranged = Arranged()
    arranged.subpartition.flush()
    arranged.add(b"")
    arranged.subpartition.flush()
    assert (arranged.notices, arranged.backlog, arranged.available) == (0, 0, NONE)


def test_bytes_written_after_a_flush_leave_with_it() -> None:
    arranged = Arranged()
    builder = builder_of(b"before")
    arranged.subpartition.add_builder(builder)
    arranged.subpartition.flush()
    builder.append(memoryview(b", after"))
    assert take(arranged.subpartition) == b"before, after"


def test_bytes_written_after_a_poll_leave_with_the_next_flush() -> None:
    """C1, C5: the bytes are in the same segment, as a buffer of their own."""
    arranged = Arranged()
    builder = builder_of(b"first", recycler=arranged.recycler)
    arranged.subpartition.add_builder(builder)
    for number, content in enumerate((b"second", b"third", b"fourth"), 1):
        arranged.subpartition.flush()
        assert (arranged.notices, arranged.backlog) == (number, 1)
        taken = arranged.poll()
        assert (taken.backlog, taken.next_data_type, taken.sequence) == (0, NONE, number - 1)
        assert taken.buffer.records == 1, "those that were taken before do not count again"
        arranged.subpartition.flush()
        assert arranged.subpartition.poll() is None
        assert (arranged.subpartition.queued_buffers, arranged.subpartition.queued_bytes) == (0, 0)
        builder.resume()
        builder.append(memoryview(content))
        assert arranged.subpartition.queued_buffers == 1
        assert arranged.subpartition.queued_bytes == len(content)
        arranged.subpartition.check_invariants()
    arranged.subpartition.seal_open()
    assert (arranged.notices, arranged.backlog, len(arranged.recycler.segments)) == (4, 1, 0)
    assert take_all(arranged.subpartition) == [b"fourth"]
    assert len(arranged.recycler.segments) == 1
    assert arranged.subpartition.statistics().bytes_out == len(b"firstsecondthirdfourth")


def test_a_builder_of_which_all_was_taken_leaves_nothing_behind() -> None:
    """Neither the next buffer nor the release adds an empty buffer for it."""
    arranged = Arranged()
    for follow in (
        arranged.add_event,
        lambda: arranged.add(b"next"),
        arranged.subpartition.release,
    ):
        arranged.add(b"data")
        arranged.subpartition.flush()
        assert take(arranged.subpartition) == b"data"
        recycled = len(arranged.recycler.segments)
        follow()
        assert len(arranged.recycler.segments) == recycled + 1
        arranged.subpartition.check_invariants()
        take_all(arranged.subpartition)
        arranged.subpartition.seal_open()
    assert arranged.subpartition.statistics().bytes_dropped == 0


def test_a_builder_more_than_half_of_which_is_taken_is_open_no_longer() -> None:
    """The writer's next bytes go into a new builder."""
    arranged = Arranged()
    arranged.add(b"x" * 40)
    arranged.subpartition.flush()
    assert take(arranged.subpartition) == b"x" * 40
    arranged.subpartition.seal_open()
    assert arranged.subpartition.poll() is None
    assert arranged.subpartition.queued_buffers == 0
    arranged.add(b"next")
    arranged.subpartition.flush()
    assert take(arranged.subpartition) == b"next"
    arranged.subpartition.release()
    assert len(arranged.recycler.segments) == 2


def test_new_builders_are_to_be_as_large_as_the_reader_wants() -> None:
    arranged = Arranged()
    assert arranged.subpartition.buffer_bytes == 64
    arranged.subpartition.notify_new_buffer_size(32)
    assert arranged.subpartition.buffer_bytes == 32


def test_a_release_recycles_an_open_buffer_with_the_slice_that_its_reader_has() -> None:
    """C12: the last of the two returns the segment."""
    arranged = Arranged()
    builder = builder_of(b"taken", recycler=arranged.recycler)
    arranged.subpartition.add_builder(builder)
    polled = arranged.subpartition.poll()
    assert polled is not None
    builder.resume()
    builder.append(memoryview(b"dropped"))
    arranged.subpartition.fail()
    assert builder.sealed
    assert arranged.subpartition.statistics().bytes_dropped == len(b"dropped")
    assert arranged.recycler.segments == []
    assert content_of(polled.buffer) == b"taken"
    polled.buffer.recycle()
    assert len(arranged.recycler.segments) == 1


def test_a_pending_flush_ends_when_its_buffer_is_finished() -> None:
    arranged = Arranged()
    arranged.add(b"first")
    arranged.subpartition.flush()
    arranged.add(b"second")
    assert (arranged.notices, arranged.backlog) == (1, 1)
    arranged.poll()
    assert (arranged.backlog, arranged.available) == (0, NONE)
    arranged.subpartition.flush()
    assert (arranged.notices, arranged.backlog) == (2, 1)


def test_empty_buffers_are_not_queued() -> None:
    """C6, by meaning: three empty sealed buffers are skipped, and the buffer behind them is
    read."""
    arranged = Arranged()
    for _ in range(3):
        arranged.add_finished(b"")
    assert (arranged.notices, arranged.backlog) == (0, 0)
    assert len(arranged.recycler.segments) == 3
    assert arranged.subpartition.poll() is None
    arranged.add_finished(b"data")
    assert (arranged.notices, arranged.backlog) == (1, 1)
    assert arranged.poll().sequence == 0


def test_an_event_finishes_the_buffer_before_it() -> None:
    """C7, A17: the reader gets buffer, event, buffer; byte totals grow when a buffer or event is
    polled."""
    arranged = Arranged()
    arranged.add(b"0123456789")
    arranged.add_event(payload=b"event")
    arranged.add(b"0123456789abcdef")
    assert (arranged.backlog, arranged.available) == (1, CLEAR_END)
    assert arranged.subpartition.statistics().bytes_out == 0
    expected = [(CLEAR_END, 0, EVENT, 10), (EVENT, 0, NONE, 15), (CLEAR_END, 0, NONE, 31)]
    for number, (data_type, backlog, following, bytes_out) in enumerate(expected, start=1):
        polled = arranged.poll()
        assert (polled.buffer.data_type, polled.backlog) == (data_type, backlog)
        assert polled.next_data_type is following
        counts = arranged.subpartition.statistics()
        assert (counts.buffers_out, counts.bytes_out) == (number, bytes_out)
        assert arranged.subpartition.bytes_out == bytes_out


def test_an_event_with_nothing_before_it_is_all_there_is() -> None:
    """A17."""
    arranged = Arranged()
    arranged.add_event()
    assert (arranged.notices, arranged.backlog, arranged.available) == (1, 0, EVENT)
    assert take_all(arranged.subpartition) == [EVENT]


@pytest.mark.parametrize("finish", ["open", "flushed", "finished", "ended"])
def test_the_backlog_is_what_can_be_polled(finish: str) -> None:
    """C10, for 5 buffers."""
    arranged = Arranged()
    for _ in range(5):
        arranged.add(b"data")
    if finish == "flushed":
        arranged.subpartition.flush()
    elif finish == "finished":
        arranged.subpartition.seal_open()
    elif finish == "ended":
        arranged.end()
    announced = arranged.backlog
    assert announced == (4 if finish == "open" else 5)
    polled = 0
    while arranged.available.is_buffer:
        polled += 1
        assert arranged.poll().backlog == announced - polled
    assert polled == announced


def test_a_reader_that_comes_late_finds_what_is_there() -> None:
    arranged = Arranged(read=False)
    arranged.add(b"first")
    arranged.add(b"second")
    arranged.add_event()
    assert arranged.subpartition.create_view(arranged.reader) is arranged.subpartition
    assert arranged.notices == 0, "whoever comes looks for itself"
    assert take_all(arranged.subpartition) == [b"first", b"second", EVENT]


def test_queued_bytes_grow_and_shrink_with_the_queue() -> None:
    """D11: 6, 12, 20, 23, 26, 36, 46, 54, 59, 73, with events, and with an open buffer at the
    end."""
    arranged = Arranged()
    sizes = [6, 6, 8, 3, 3, 10, 10, 8, 5, 14]
    totals = []
    for number, size in enumerate(sizes):
        if size == 3:
            arranged.add_event(payload=b"x" * size)
        elif number == len(sizes) - 1:
            arranged.add(b"x" * size)
        else:
            arranged.add_finished(b"x" * size)
        totals.append(arranged.subpartition.statistics().queued_bytes)
    assert totals == [6, 12, 20, 23, 26, 36, 46, 54, 59, 73]
    assert arranged.subpartition.statistics().queued_buffers == 10
    for size in sizes:
        before = arranged.subpartition.statistics().queued_bytes
        arranged.poll()
        assert arranged.subpartition.statistics().queued_bytes == before - size
    counts = arranged.subpartition.statistics()
    assert (counts.queued_buffers, counts.queued_bytes, counts.bytes_out) == (0, 0, 73)


def test_the_open_buffer_is_a_queued_one_while_it_holds_something() -> None:
    """A partitioner that compares queues counts the open buffer; an empty open buffer counts
    nothing."""
    arranged = Arranged()
    lengths = []

    def look() -> None:
        arranged.subpartition.check_invariants()
        lengths.append(arranged.subpartition.queued_buffers)
        load = arranged.subpartition.load
        assert load >> 48 == arranged.subpartition.queued_buffers
        assert load & 2**48 - 1 == arranged.subpartition.queued_bytes

    look()
    arranged.add(b"")
    look()
    arranged.add(b"first")
    look()
    arranged.add_event()
    look()
    arranged.add(b"second")
    look()
    arranged.subpartition.flush()
    for _ in range(3):
        arranged.poll()
        look()
    assert lengths == [0, 0, 1, 2, 3, 2, 1, 0]


# -- priority --------------------------------------------------------------------------------------


def test_priority_events_keep_their_order_in_front_of_everything() -> None:
    """C20."""
    arranged = Arranged()
    arranged.add_finished(b"data")
    arranged.add_event(payload=b"ordinary")
    for payload in (b"1", b"2"):
        arranged.add_event(PRIORITY, payload)
    arranged.add_finished(b"more")
    arranged.add_event(PRIORITY, b"3")
    contents = []
    while (polled := arranged.subpartition.poll()) is not None:
        contents.append(content_of(polled.buffer))
        polled.buffer.recycle()
    assert contents == [b"1", b"2", b"3", b"data", b"ordinary", b"more"]


def test_the_first_priority_event_is_noticed() -> None:
    """C9: it sends a notice although the queue was not empty; the second one does not."""
    arranged = Arranged()
    arranged.add_finished(b"data")
    assert arranged.notices == 1
    arranged.add_event(PRIORITY)
    assert (arranged.notices, arranged.available, arranged.backlog) == (2, PRIORITY, 1)
    arranged.add_event(PRIORITY)
    assert arranged.notices == 2


def test_data_behind_a_priority_event_is_found_by_polling() -> None:
    """C9, by meaning: while the queue is not empty its reader is scheduled already."""
    arranged = Arranged()
    arranged.add_event(PRIORITY)
    assert arranged.notices == 1
    arranged.add_finished(b"first")
    arranged.add_finished(b"second")
    assert arranged.notices == 1
    assert arranged.poll().next_data_type is CLEAR_END
    assert take_all(arranged.subpartition) == [b"first", b"second"]


def test_a_queue_says_when_it_is_full_of_events_and_when_not_any_more() -> None:
    """Priority events count too, data does not."""
    arranged = Arranged(limits=WireLimits(events_per_channel_max=3))
    arranged.add_finished(b"data")
    for data_type in (EVENT, PRIORITY, EVENT):
        assert not arranged.subpartition.is_full_of_events
        arranged.add_event(data_type)
    assert arranged.subpartition.is_full_of_events
    arranged.add_finished(b"more")
    assert arranged.owner.rooms == 0
    assert arranged.poll().buffer.data_type is PRIORITY
    assert (arranged.owner.rooms, arranged.subpartition.is_full_of_events) == (1, False)
    assert take_all(arranged.subpartition) == [b"data", EVENT, EVENT, b"more"]
    assert arranged.owner.rooms == 1
    for _ in range(3):
        arranged.add_event()
    arranged.subpartition.release()
    assert not arranged.subpartition.is_full_of_events


W1, W2, W300 = Watermark(1), Watermark(2), Watermark(300)
IDLE, ACTIVE = WatermarkStatus(idle=True), WatermarkStatus(idle=False)


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ([W1, W300], [W300]),
        ([W300, W1], [W300]),
        ([W1, IDLE, ACTIVE], [W1]),
        ([W1, IDLE, ACTIVE, W300, W2, IDLE], [W300, IDLE]),
    ],
)
def test_an_event_that_is_superseded_is_not_sent_and_its_bytes_are_dropped(
    written: list[Watermark | WatermarkStatus], left: list[Watermark | WatermarkStatus]
) -> None:
    """The events wait behind data and a priority event, and neither of those moves."""
    arranged = Arranged(limits=WireLimits(events_per_channel_max=len(left) + 1))
    subpartition = arranged.subpartition
    arranged.add_event(PRIORITY)
    arranged.add(b"data")
    for said in written:
        arranged.add_event(*said.event())
        subpartition.check_invariants()
    bodies = [said.event().body for said in left]
    assert subpartition.is_full_of_events
    assert (subpartition.queued_buffers, subpartition.queued_bytes) == (
        2 + len(left),
        len(b"event" + b"data" + b"".join(bodies)),
    )
    assert arranged.notices == 1
    assert take_all(subpartition) == [PRIORITY, b"data", *[EVENT] * len(left)]
    counts = subpartition.statistics()
    assert (counts.queued_bytes, counts.buffers_out) == (0, 2 + len(left))
    produced = sum(len(said.event().body) for said in written)
    assert counts.bytes_dropped == produced - sum(map(len, bodies))
    assert counts.bytes_out == len(b"event" + b"data") + sum(map(len, bodies))


def test_an_event_taken_by_the_reader_is_not_superseded() -> None:
    arranged = Arranged()
    for said in (W1, W300):
        arranged.add_event(*said.event())
        polled = arranged.subpartition.poll()
        assert polled is not None
        assert polled.buffer.view() == said.event().body
        polled.buffer.recycle()
    assert arranged.notices == 2
    assert arranged.subpartition.statistics().bytes_dropped == 0


def test_the_open_buffer_keeps_a_watermark_from_the_one_before() -> None:
    arranged = Arranged()
    for said in (W1, W2):
        arranged.add_event(*said.event())
        arranged.add(b"data")
    assert take_all(arranged.subpartition) == [EVENT, b"data", EVENT, b"data"]


def test_an_event_that_no_consumer_takes_is_refused() -> None:
    arranged = Arranged(limits=WireLimits(event_bytes_max=16))
    arranged.add_event(payload=bytes(16))
    with pytest.raises(LocalProtocolError, match="event of 17 bytes does not fit: .* at most 16"):
        arranged.add_event(payload=bytes(17))
    assert take_all(arranged.subpartition) == [EVENT]


def test_a_priority_event_leaves_the_open_buffer_open() -> None:
    arranged = Arranged()
    builder = builder_of(b"open")
    arranged.subpartition.add_builder(builder)
    arranged.add_event(PRIORITY)
    assert not builder.sealed
    assert arranged.poll().next_data_type is NONE


# -- barriers that can time out --------------------------------------------------------------------


def queued_barrier(arranged: Arranged, body: bytes = b"barrier") -> Buffer:
    """Append a barrier that can time out."""
    barrier = event_of(TIMEOUTABLE, body)
    arranged.subpartition.add_event(barrier)
    return barrier


@pytest.mark.parametrize("in_front", [0, 1, 2])
def test_a_barrier_taken_in_time_is_told_to_the_owner_and_blocks(in_front: int) -> None:
    """C16: with 0, 1 or 2 data buffers in front of it."""
    arranged = Arranged()
    for _ in range(in_front):
        arranged.add_finished(b"data")
    barrier = queued_barrier(arranged)
    arranged.add_finished(b"behind")
    assert arranged.reader.barriers == 1
    assert arranged.subpartition.timeoutable_barrier() == b"barrier"
    for _ in range(in_front):
        arranged.poll()
    assert arranged.owner.taken == []
    arranged.poll()
    assert arranged.owner.taken == [barrier]
    assert arranged.subpartition.timeoutable_barrier() is None
    assert arranged.subpartition.poll() is None


def test_other_events_are_not_told() -> None:
    arranged = Arranged()
    for data_type in (EVENT, PRIORITY, BARRIER):
        arranged.add_event(data_type)
    for _ in range(3):
        arranged.poll()
    assert (arranged.reader.barriers, arranged.owner.taken) == (0, [])


def test_a_barrier_is_queued_before_there_is_a_reader() -> None:
    arranged = Arranged(read=False)
    queued_barrier(arranged, b"first")
    queued_barrier(arranged, b"last")
    arranged.add_finished(b"data")
    assert arranged.subpartition.timeoutable_barrier() == b"last"


def test_a_queued_barrier_can_be_given_priority() -> None:
    """Row 18: it goes behind earlier priority events and in front of the data that it overtakes,
    which is returned. Nothing is blocked then."""
    arranged = Arranged()
    arranged.add_event(PRIORITY, b"earlier")
    arranged.add_finished(b"first")
    arranged.add_event()
    arranged.add_finished(b"second")
    barrier = queued_barrier(arranged)
    arranged.add_finished(b"behind")
    overtaken = arranged.subpartition.prioritize(barrier, b"goes on")
    assert [content_of(buffer) for buffer in overtaken] == [b"first", b"second"]
    assert barrier.references == 0
    arranged.subpartition.check_invariants()
    assert arranged.subpartition.timeoutable_barrier() is None
    assert take_all(arranged.subpartition) == [
        PRIORITY, PRIORITY, b"first", EVENT, b"second", b"behind",
    ]  # fmt: skip
    assert arranged.owner.taken == []
    assert len(arranged.recycler.segments) == 1
    for buffer in overtaken:
        buffer.recycle()
    assert len(arranged.recycler.segments) == 3


def test_the_reader_hears_of_the_first_event_with_priority() -> None:
    """Row 13: it gets a notice even after one for data, but none while the subpartition is
    blocked."""
    arranged = Arranged()
    arranged.add_finished(b"data")
    barrier = queued_barrier(arranged)
    notices = arranged.notices
    for buffer in arranged.subpartition.prioritize(barrier, b"goes on"):
        buffer.recycle()
    assert (arranged.notices, arranged.available) == (notices + 1, PRIORITY)
    blocked = arranged_after_barrier()
    barrier = queued_barrier(blocked)
    notices = blocked.notices
    assert blocked.subpartition.prioritize(barrier, b"goes on") == []
    assert (blocked.notices, blocked.available) == (notices, NONE)
    blocked.subpartition.resume_consumption()
    assert blocked.available is PRIORITY


def test_the_reader_may_say_that_the_time_is_over() -> None:
    arranged = Arranged()
    assert arranged.subpartition.convert_to_priority_event(7)
    assert arranged.owner.timed_out == [7]


# -- overtaken data --------------------------------------------------------------------------------


def overtaken_by_a_barrier(arranged: Arranged) -> list[bytes]:
    """Add a priority event, recycle the buffers that it overtook, and return their contents."""
    arranged.add_event(PRIORITY)
    overtaken = arranged.subpartition.overtaken_data()
    contents = [content_of(buffer) for buffer in overtaken]
    for buffer in overtaken:
        buffer.recycle()
    return contents


def test_a_priority_event_overtakes_the_data_that_is_queued_or_open() -> None:
    """Row 17: events in between are not stored, and the reader still gets everything."""
    arranged = Arranged()
    arranged.add_finished(b"first")
    arranged.add_event()
    arranged.add_finished(b"second")
    arranged.add(b"open")
    assert overtaken_by_a_barrier(arranged) == [b"first", b"second", b"open"]
    arranged.add_event()
    assert take_all(arranged.subpartition) == [
        PRIORITY, b"first", EVENT, b"second", b"open", EVENT,
    ]  # fmt: skip
    assert len(arranged.recycler.segments) == 3


def test_data_already_read_is_not_overtaken() -> None:
    """Row 17: the taken part of an open buffer is not overtaken either.

    A later event overtakes the bytes that were written since.
    """
    arranged = Arranged()
    arranged.add_finished(b"read")
    builder = builder_of(b"taken", recycler=arranged.recycler)
    arranged.subpartition.add_builder(builder)
    assert take_all(arranged.subpartition) == [b"read", b"taken"]
    assert overtaken_by_a_barrier(arranged) == []
    builder.resume()
    builder.append(memoryview(b"more"))
    assert overtaken_by_a_barrier(arranged) == [b"more"]
    builder.append(memoryview(b" and more"))
    assert overtaken_by_a_barrier(arranged) == [b"more and more"]
    assert take_all(arranged.subpartition) == [PRIORITY] * 3 + [b"more and more"]


def test_nothing_is_overtaken_in_an_empty_subpartition() -> None:
    """Row 17."""
    arranged = Arranged()
    assert overtaken_by_a_barrier(arranged) == []
    arranged.add(b"")
    assert overtaken_by_a_barrier(arranged) == []


def test_overtaken_data_is_there_until_it_is_recycled() -> None:
    """Row 17: the buffers stay valid without the subpartition, and their memory is returned when
    they are recycled."""
    arranged = Arranged()
    arranged.add_finished(b"queued")
    builder = builder_of(b"open", recycler=arranged.recycler)
    arranged.subpartition.add_builder(builder)
    arranged.add_event(PRIORITY)
    overtaken = arranged.subpartition.overtaken_data()
    builder.append(memoryview(b" written later"))
    arranged.subpartition.release()
    assert arranged.recycler.segments == []
    assert [content_of(buffer) for buffer in overtaken] == [b"queued", b"open"]
    assert [buffer.records for buffer in overtaken] == [1, 1]
    for buffer in overtaken:
        buffer.recycle()
    assert len(arranged.recycler.segments) == 2


# -- blocking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", BLOCKING)
def test_a_blocking_event_stops_the_subpartition(data_type: DataType) -> None:
    """C11, C16: nothing is available, announced or counted in the backlog until consumption is
    resumed."""
    arranged = Arranged()
    arranged.add_finished(b"before")
    arranged.add_event(data_type)
    arranged.add_finished(b"behind")
    arranged.poll()
    assert arranged.available is data_type
    polled = arranged.poll()
    assert (polled.next_data_type, polled.backlog) == (NONE, 0)
    notices = arranged.notices
    arranged.add_event()
    arranged.add(b"more")
    arranged.subpartition.flush()
    arranged.add(b"and more")
    arranged.add_event(PRIORITY)
    assert arranged.notices == notices
    assert (arranged.available, arranged.backlog) == (NONE, 0)
    assert arranged.subpartition.poll() is None
    assert arranged.subpartition.statistics().blocked
    arranged.subpartition.resume_consumption()
    assert (arranged.available, arranged.backlog) == (PRIORITY, 2)
    assert take_all(arranged.subpartition) == [PRIORITY, b"behind", EVENT, b"more", b"and more"]


@pytest.mark.parametrize("in_front", [0, 1, 2])
def test_a_timeoutable_barrier_read_in_time_blocks_as_an_aligned_one(in_front: int) -> None:
    """C16: the 0, 1 or 2 data buffers in front of it are delivered first, each of them once."""
    arranged = Arranged()
    for number in range(in_front):
        arranged.add_finished(b"data %d" % number)
    arranged.add_event(DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER)
    arranged.add_finished(b"behind")
    expected: list[bytes | DataType] = [b"data %d" % number for number in range(in_front)]
    assert take_all(arranged.subpartition) == [
        *expected,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
    ]
    assert arranged.subpartition.statistics().blocked
    arranged.subpartition.resume_consumption()
    assert take_all(arranged.subpartition) == [b"behind"]


def test_after_resume_an_event_is_available() -> None:
    """C11."""
    arranged = arranged_after_barrier()
    arranged.add_event()
    assert arranged.notices == 1
    arranged.subpartition.resume_consumption()
    assert (arranged.available, arranged.backlog) == (EVENT, 0)


def test_after_resume_flushed_data_is_available() -> None:
    """C11."""
    arranged = arranged_after_barrier()
    arranged.add(b"data")
    arranged.subpartition.flush()
    assert arranged.notices == 1
    arranged.subpartition.resume_consumption()
    assert arranged.available.is_buffer
    assert arranged.backlog == 1


def test_after_resume_finished_data_is_available() -> None:
    """C11."""
    arranged = arranged_after_barrier()
    arranged.add_finished(b"first")
    arranged.add_finished(b"second")
    assert arranged.notices == 1
    arranged.subpartition.resume_consumption()
    assert (arranged.available, arranged.backlog) == (CLEAR_END, 2)


def test_after_resume_unflushed_data_is_not_available() -> None:
    """C11: nothing else is available either if nothing was added; a later flush sends a notice as
    usual."""
    arranged = arranged_after_barrier()
    arranged.subpartition.resume_consumption()
    assert arranged.available is NONE
    arranged.add(b"data")
    assert (arranged.available, arranged.backlog) == (NONE, 0)
    arranged.subpartition.flush()
    assert arranged.notices == 2


def test_data_after_a_resume_notifies() -> None:
    arranged = arranged_after_barrier()
    arranged.subpartition.resume_consumption()
    arranged.add_finished(b"data")
    assert arranged.notices == 2


def test_resuming_what_is_not_blocked_is_refused() -> None:
    """C11."""
    arranged = Arranged()
    with pytest.raises(LocalProtocolError, match="not blocked"):
        arranged.subpartition.resume_consumption()
    arranged = arranged_after_barrier()
    arranged.subpartition.resume_consumption()
    with pytest.raises(LocalProtocolError, match="not blocked"):
        arranged.subpartition.resume_consumption()


# -- the reader's life -----------------------------------------------------------------------------


def test_a_subpartition_knows_whether_it_has_had_a_reader() -> None:
    arranged = Arranged(read=False)
    assert not arranged.subpartition.has_had_reader
    arranged.subpartition.create_view(arranged.reader).release()
    assert arranged.subpartition.has_had_reader


def test_a_subpartition_has_one_reader() -> None:
    """C12."""
    arranged = Arranged()
    with pytest.raises(LocalProtocolError, match="read once"):
        arranged.subpartition.create_view(Reader())
    arranged.subpartition.release()
    with pytest.raises(LocalProtocolError, match="read once"):
        arranged.subpartition.create_view(Reader())


@pytest.mark.parametrize("read", [True, False], ids=["with a reader", "without"])
def test_releasing_recycles_what_is_queued(read: bool) -> None:
    """C12: sealed buffers, the open one and events."""
    arranged = Arranged(read=read)
    arranged.add_finished(b"first")
    arranged.add_event()
    arranged.add_event(PRIORITY)
    arranged.add(b"open")
    arranged.subpartition.flush()
    arranged.subpartition.release()
    assert len(arranged.recycler.segments) == 2
    assert arranged.owner.released == [None]
    arranged.subpartition.release()
    assert arranged.owner.released == [None], "told once"
    assert arranged.subpartition.poll() is None
    assert (arranged.available, arranged.backlog) == (NONE, 0)
    assert arranged.subpartition.statistics().queued_bytes == 0


def test_a_reader_that_was_lost_says_why() -> None:
    arranged = Arranged()
    cause = ConnectionResetError("gone")
    arranged.subpartition.release(cause)
    assert arranged.owner.released == [cause]


def test_data_after_the_release_is_dropped_and_counted() -> None:
    """C12, D1: no reader is notified."""
    arranged = Arranged()
    arranged.add_finished(b"queued")
    arranged.add(b"open")
    arranged.subpartition.release()
    assert arranged.subpartition.statistics().bytes_dropped == len(b"queued" + b"open")
    notices = arranged.notices
    arranged.add(b"late")
    arranged.add_event(payload=b"event")
    arranged.subpartition.flush()
    assert arranged.notices == notices
    assert len(arranged.recycler.segments) == 3
    assert arranged.subpartition.statistics().bytes_dropped == len(b"queuedopenlateevent")


def test_a_buffer_polled_before_the_release_belongs_to_the_reader() -> None:
    arranged = Arranged()
    arranged.add_finished(b"taken")
    polled = arranged.subpartition.poll()
    assert polled is not None
    arranged.subpartition.release()
    assert arranged.recycler.segments == []
    assert content_of(polled.buffer) == b"taken"
    polled.buffer.recycle()
    assert len(arranged.recycler.segments) == 1


def test_a_failed_producer_drops_everything_and_tells_the_reader() -> None:
    """C15."""
    arranged = Arranged()
    arranged.add_finished(b"data")
    arranged.owner.cause = ValueError("first cause")
    arranged.subpartition.fail()
    assert (arranged.notices, arranged.available) == (2, NONE)
    assert arranged.subpartition.failure_cause() is arranged.owner.cause
    assert len(arranged.recycler.segments) == 1
    arranged.subpartition.fail()
    assert arranged.notices == 2
    assert arranged.owner.released == [], "the producer knows already"


def test_a_blocked_reader_is_told_of_a_failure_too() -> None:
    arranged = arranged_after_barrier()
    arranged.subpartition.fail()
    assert arranged.notices == 2


def test_an_acknowledgement_counts_once() -> None:
    """It counts only after the data has ended."""
    arranged = Arranged()
    acknowledge = arranged.subpartition.acknowledge_all_data_processed
    with pytest.raises(LocalProtocolError, match="subpartition 0 of .*: its data has not ended"):
        acknowledge()
    arranged.end_data()
    assert not arranged.subpartition.acknowledged
    acknowledge()
    assert arranged.subpartition.acknowledged
    with pytest.raises(LocalProtocolError, match="has ended and has been acknowledged"):
        acknowledge()
    assert arranged.owner.acknowledged == 1


def test_a_reader_that_has_left_acknowledges_nothing() -> None:
    """The end of the partition does not wait for such a reader."""
    arranged = Arranged()
    arranged.subpartition.release()
    arranged.end_data()
    arranged.subpartition.acknowledge_all_data_processed()
    assert arranged.owner.acknowledged == 0, "its leaving has been counted"
    arranged.add_event(END, b"\x90")
    assert arranged.subpartition.finished


# -- the end ---------------------------------------------------------------------------------------


def test_the_end_finishes_the_open_buffer_and_everything_is_promised() -> None:
    arranged = Arranged()
    arranged.add(b"data")
    arranged.end()
    assert (arranged.notices, arranged.backlog) == (1, 1)
    assert not arranged.subpartition.consumed
    assert take_all(arranged.subpartition) == [b"data", END_OF_DATA, END]
    assert arranged.subpartition.consumed


def test_nothing_follows_the_end() -> None:
    """C14, D1: a write after the end raises an error and does not lose data silently."""
    arranged = Arranged()
    arranged.end()
    for write in (
        lambda: arranged.add(b"late"),
        arranged.add_event,
        lambda: arranged.add_event(PRIORITY),
        arranged.end_data,
        lambda: arranged.add_event(END, b"\x90"),
    ):
        with pytest.raises(LocalProtocolError, match="its partition has ended"):
            write()
    assert take_all(arranged.subpartition) == [END_OF_DATA, END]


def test_events_may_follow_the_end_of_the_data() -> None:
    """A last barrier may follow, data and a second end may not."""
    arranged = Arranged()
    arranged.end_data()
    arranged.add_event(BARRIER)
    for write in (lambda: arranged.add(b"late"), arranged.end_data):
        with pytest.raises(LocalProtocolError, match="must not arrive on subpartition 0"):
            write()
    assert take_all(arranged.subpartition) == [END_OF_DATA, BARRIER]
    arranged.subpartition.resume_consumption()
    arranged.subpartition.acknowledge_all_data_processed()
    arranged.add_event(PRIORITY)
    arranged.add_event(END, b"\x90")
    assert take_all(arranged.subpartition) == [PRIORITY, END]


def test_a_partition_does_not_end_before_its_data_is_processed() -> None:
    arranged = Arranged()
    with pytest.raises(LocalProtocolError, match="END_OF_PARTITION must not arrive.*not ended"):
        arranged.add_event(END, b"\x90")
    arranged.end_data()
    assert take_all(arranged.subpartition) == [END_OF_DATA]
    with pytest.raises(LocalProtocolError, match="END_OF_PARTITION must not arrive.*acknowledged"):
        arranged.add_event(END, b"\x90")
    assert take_all(arranged.subpartition) == []


def test_a_release_before_the_end_was_read_is_not_consumption() -> None:
    arranged = Arranged()
    arranged.end()
    arranged.subpartition.release()
    assert not arranged.subpartition.consumed


def test_sequence_numbers_have_no_gap_and_wrap() -> None:
    """Invariant I2: they have 32 bits, as on the wire."""
    arranged = Arranged()
    arranged.subpartition.sequence = 0xFFFFFFFE
    for _ in range(4):
        arranged.add_finished(b"data")
    assert [arranged.poll().sequence for _ in range(4)] == [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]


# -- any history -----------------------------------------------------------------------------------

STEPS = st.lists(
    st.sampled_from(
        ["write", "write", "append", "flush", "event", "priority", "barrier", "seal", "poll",
         "poll", "look", "resume"]
    ),
    max_size=60,
)  # fmt: skip


class History:
    """Any order of a writer's and a reader's steps, with a model of the expected output."""

    def __init__(self) -> None:
        self.arranged = Arranged()
        self.written = bytearray()
        self.read = bytearray()
        self.ordinary: list[tuple[DataType, int]] = []
        self.numbers = iter(range(1_000))
        self.builder = builder_of()
        self.builder.seal()
        self.known = False

    def step(self, name: str) -> None:
        subpartition = self.arranged.subpartition
        notices = self.arranged.notices
        before = self.arranged.available
        match name:
            case "write":
                self.builder = builder_of(recycler=self.arranged.recycler)
                subpartition.add_builder(self.builder)
                self.append()
            case "append":
                self.append()
            case "flush":
                subpartition.flush()
            case "seal":
                subpartition.seal_open()
            case "event" | "barrier":
                data_type = EVENT if name == "event" else BARRIER
                self.ordinary.append((data_type, len(self.written)))
                self.arranged.add_event(data_type)
            case "priority":
                self.arranged.add_event(PRIORITY)
            case "resume":
                if subpartition.statistics().blocked:
                    subpartition.resume_consumption()
                    before = self.arranged.available  # the reader polls by itself after it resumes
                    self.known = before is not NONE
            case "poll" | "look":
                if name == "poll" or self.known:
                    self.poll()
                return
        if before is NONE and self.arranged.available is not NONE:
            assert self.arranged.notices == notices + 1, "nobody was told"
            self.known = True

    def append(self) -> None:
        self.builder.resume()
        if self.builder.remaining:
            content = next(self.numbers).to_bytes(2, "big")
            self.builder.append(memoryview(content))
            self.written += content

    def poll(self) -> None:
        promised = self.arranged.backlog
        polled = self.arranged.subpartition.poll()
        self.known = polled is not None and polled.next_data_type is not NONE
        if polled is None:
            assert promised == 0
            return
        self.accept(polled.buffer)
        if polled.buffer.data_type.is_blocking_upstream:
            assert polled.backlog == 0
        elif polled.buffer.data_type.is_buffer:
            assert polled.backlog == max(promised - 1, 0)
        else:
            assert polled.backlog == promised

    def accept(self, buffer: Buffer) -> None:
        if buffer.data_type.is_buffer:
            assert buffer.size, "an empty buffer was polled"
            self.read += content_of(buffer)
        elif not buffer.data_type.has_priority:
            assert self.ordinary.pop(0) == (buffer.data_type, len(self.read))
        buffer.recycle()


@given(STEPS)
def test_any_history_delivers_everything_in_order(steps: list[str]) -> None:
    """C13: at any speed of writer and reader, each byte is delivered once and in order, and
    ordinary events at their place. The reader is notified of available data, and the backlog is
    right."""
    history = History()
    for name in steps:
        history.step(name)
        history.arranged.subpartition.check_invariants()
    history.arranged.end()
    history.ordinary += [(kind, len(history.written)) for kind in (END_OF_DATA, END)]
    while not history.arranged.subpartition.consumed:
        if history.arranged.subpartition.statistics().blocked:
            history.arranged.subpartition.resume_consumption()
        history.poll()
    assert history.read == history.written
    assert not history.ordinary
