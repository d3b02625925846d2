from __future__ import annotations

from typing import Any

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.buffer.view import SubpartitionView
from flinknet.config import WireLimits
from flinknet.errors import (
    ClosedResourceError,
    ConfigurationError,
    ConsumerCancelledError,
    LocalProtocolError,
    ProducerFailedError,
    RemoteTransportError,
)
from flinknet.records.partitioner import (
    AdaptiveRebalancePartitioner,
    BroadcastPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.records.serialization.large_record import LARGE_RECORD_BYTES
from flinknet.records.writer import RecordWriter
from flinknet.wire.events import CheckpointBarrier, CheckpointOptions, Event, EventAnnouncement
from tests.unit.arrangements import (
    Flusher,
    Running,
    assert_everything_returned,
    content_of,
    make_partition,
    run,
    wait,
)
from tests.unit.records.writing import END, END_OF_DATA, Arranged, Halving, sized


@pytest.mark.parametrize("size", [3, LARGE_RECORD_BYTES])
def test_packed_records_do_not_change_with_their_objects(size: int) -> None:
    arranged = Arranged(segment_bytes=2 * LARGE_RECORD_BYTES)
    large, row, content = b"x" * LARGE_RECORD_BYTES, {"n": [1]}, bytearray(b"x" * size)
    writes = list(arranged.writer.pack([large, row, content, memoryview(content)]))
    row["n"].append(2)
    content[:] = b"y" * size
    assert arranged.writer.records_out == 0
    for packed in writes:
        run(packed.write())
    arranged.writer.flush()
    assert arranged.take() == [large, {"n": (1,)}, b"x" * size, b"x" * size]
    assert arranged.writer.records_out == 4


@pytest.mark.parametrize("size", [10, 4_000, 20_000, 200_000])
def test_packed_parts_state_their_size(size: int) -> None:
    """Many records are packed a part at a time, so that they can be written in between."""
    arranged = Arranged(2, segment_bytes=1 << 15)
    records = [(number % 2, "x" * size) for number in range(1_000_000 // size)]
    sizes = [packed.bytes for packed in arranged.writer.pack(iter(records))]
    assert 0.9 < sum(sizes) / sum(len(msgpack.packb(record)) for record in records) < 1.1
    assert max(sizes) < 100_000 + size


def test_channels_that_depend_on_queues_are_chosen_when_records_are_written() -> None:
    """Each is chosen after the record before it was written."""
    arranged = Arranged(2, partitioner=AdaptiveRebalancePartitioner(), segment_bytes=128)
    first, second = list(arranged.writer.pack(["first"])), arranged.writer.pack([sized(100)] * 4)
    for packed in [*second, *first]:
        run(packed.write())
    arranged.writer.flush()
    assert [arranged.take(index) for index in range(2)] == [
        [sized(100)] * 2 + ["first"],
        [sized(100)] * 2,
    ]


def test_nothing_leaves_a_part_filled_buffer_unasked() -> None:
    """V5: with a timeout of -1 and one small record, nothing arrives until the end."""
    arranged = Arranged()
    arranged.emit("small")
    assert arranged.views[0].next_data_type() is DataType.NONE
    assert arranged.flusher.requests == []
    finishing = Running(arranged.writer.finish())
    assert arranged.take() == ["small", END_OF_DATA]
    assert not finishing.done


def test_one_subpartition_needs_no_partitioner() -> None:
    arranged = Arranged(1)
    assert arranged.writer.partitioner.channels == 1
    with pytest.raises(ConfigurationError, match="forward"):
        partition, _ = make_partition(2)
        RecordWriter(
            partition,
            None,
            wait=wait,
            flusher=Flusher(),
            buffer_timeout_ms=-1,
            record_bytes_max=100,
            record_elements_max=100,
        )


@pytest.mark.parametrize("channels", [1, 3])
def test_a_partitioner_of_another_writer_is_refused(channels: int) -> None:
    partitioner = RebalancePartitioner()
    partitioner.setup(channels)
    with pytest.raises(LocalProtocolError, match=f"set up for {channels} .* partition p has 2"):
        Arranged(2, partitioner=partitioner)


@pytest.mark.parametrize("timeout", [-1, 0, 5.0, "adaptive"])
def test_a_flush_lets_everything_out(timeout: Any) -> None:
    """V5: a flush by the user works with every timeout."""
    arranged = Arranged(2, timeout=timeout)
    arranged.emit((0, "first"), (1, "second"))
    run(arranged.writer.broadcast_emit("all"))
    arranged.writer.flush()
    assert [view.backlog() for view in arranged.views] == [2, 2]
    assert arranged.take(0) == [(0, "first"), "all"]
    arranged.emit((0, "third"))
    arranged.writer.flush()
    arranged.writer.flush()
    assert arranged.views[0].backlog() == 1


def test_a_timeout_of_zero_flushes_every_record() -> None:
    """Row 4."""
    arranged = Arranged(2, timeout=0)
    for number in range(3):
        arranged.emit((0, number))
        assert arranged.views[0].backlog() == 1
        assert arranged.take(0) == [(0, number)]
    assert len(arranged.flusher.requests) == 3


@pytest.mark.parametrize("timeout", [5.0, "adaptive"])
def test_a_timeout_asks_the_flusher_once(timeout: Any) -> None:
    """Row 4: once per need, not per record, buffer or channel."""
    arranged = Arranged(2, timeout=timeout)
    for number in range(10):
        arranged.emit((number % 2, sized(30)))
    assert arranged.flusher.requests == [arranged.writer]
    arranged.writer.flush()
    assert [view.next_data_type().is_buffer for view in arranged.views] == [True, True]
    arranged.take(0)
    arranged.emit((0, "more"))
    assert arranged.flusher.requests == [arranged.writer] * 2


# -- events ----------------------------------------------------------------------------------------

EVENT = Event(DataType.EVENT_BUFFER, b"\x91\x05")
PRIORITY = Event(DataType.PRIORITIZED_EVENT_BUFFER, b"\x90")


def test_a_broadcast_event_needs_no_record() -> None:
    """A17: each of 4 channels holds just the event."""
    arranged = Arranged(4)
    run(arranged.writer.broadcast_event(EVENT))
    assert [view.backlog() for view in arranged.views] == [0] * 4
    assert [arranged.take(index) for index in range(4)] == [[EVENT.data_type]] * 4
    assert arranged.writer.buffers_opened == 0


@pytest.mark.parametrize("broadcast", [True, False])
def test_an_event_waits_while_a_reader_leaves_too_many_unread(broadcast: bool) -> None:
    """Meanwhile a record in progress comes first, as the event must stand between two records."""
    arranged = Arranged(2, segments=3, wire=WireLimits(events_per_channel_max=3))
    writer = arranged.writer
    for _ in range(3):
        run(writer.emit_event(EVENT, 0))
    writing = Running(writer.broadcast_event(EVENT) if broadcast else writer.emit_event(EVENT, 0))
    assert writing.waits_for is arranged.partition.room_for_events
    run(writer.emit_event(EVENT, 1))
    emitting = Running(writer.emit((0, sized(500))))
    assert arranged.take(0, buffers=1) == [EVENT.data_type]
    writing.go_on()
    assert not writing.done, "a record is in progress"
    taken = []
    while not writing.done:
        taken += arranged.take(0, buffers=1)
        emitting.go_on()
        writing.go_on()
    taken += arranged.take(0)
    assert taken == [EVENT.data_type] * 2 + [(0, sized(500)), EVENT.data_type]
    assert arranged.take(1) == [EVENT.data_type] * (2 if broadcast else 1)


def test_an_event_that_waits_for_readers_that_leave_is_not_written() -> None:
    arranged = Arranged(wire=WireLimits(events_per_channel_max=1))
    run(arranged.writer.broadcast_event(EVENT))
    writing = Running(arranged.writer.broadcast_event(EVENT))
    arranged.views[0].release()
    with pytest.raises(ConsumerCancelledError):
        writing.go_on()


@pytest.mark.parametrize("broadcast", [True, False])
def test_an_event_stands_behind_what_was_written(broadcast: bool) -> None:
    """A17: the open buffers are ended, and can be read at once with the event."""
    arranged = Arranged(2)
    arranged.emit((0, "before"), (1, "before"))
    run(arranged.writer.broadcast_emit("all"))
    if broadcast:
        run(arranged.writer.broadcast_event(EVENT))
    else:
        run(arranged.writer.emit_event(EVENT, 0))
    assert [view.next_data_type().is_buffer for view in arranged.views] == [True, True]
    arranged.emit((0, "behind"), (1, "behind"))
    arranged.writer.flush()
    event = [EVENT.data_type]
    assert arranged.take(0) == [(0, "before"), "all", *event, (0, "behind")]
    assert arranged.take(1) == [(1, "before"), "all", *event * broadcast, (1, "behind")]


def test_an_event_says_what_it_was_given() -> None:
    arranged = Arranged()
    run(arranged.writer.emit_event(EVENT, 0))
    polled = arranged.views[0].poll()
    assert polled is not None
    assert content_of(polled.buffer) == EVENT.body
    polled.buffer.recycle()


@pytest.mark.parametrize("broadcast", [True, False])
def test_an_event_waits_for_the_record_in_progress(broadcast: bool) -> None:
    """Nothing comes between the pieces of a record, and no other record comes before the event."""
    arranged = Arranged(2, segments=3)
    emitting = Running(arranged.writer.emit((0, sized(500))))
    assert emitting.waits_for is arranged.partition.availability
    writer = arranged.writer
    writing = Running(writer.broadcast_event(EVENT) if broadcast else writer.emit_event(EVENT, 0))
    assert writing.waits_for is not None
    taken = []
    while not writing.done:
        taken += arranged.take(0, buffers=1)
        emitting.go_on()
        writing.go_on()
    taken += arranged.take(0)
    arranged.emit((0, "next"))
    arranged.writer.flush()
    assert taken + arranged.take(0) == [(0, sized(500)), EVENT.data_type, (0, "next")]


def test_an_event_with_priority_overtakes_what_is_queued() -> None:
    """It waits for the end of a record like any other event, as later records belong behind it."""
    arranged = Arranged()
    arranged.emit(sized(60), "queued", "open")
    run(arranged.writer.broadcast_event(PRIORITY))
    arranged.writer.flush()
    assert arranged.take() == [PRIORITY.data_type, sized(60), "queued", "open"]


def test_a_cancelled_event_was_not_written() -> None:
    arranged = Arranged(segments=2)
    emitting = Running(arranged.writer.emit(sized(500)))
    Running(arranged.writer.broadcast_event(EVENT)).cancel()
    taken = arranged.taken_with(emitting)
    arranged.writer.flush()
    assert taken + arranged.take() == [sized(500)]


def test_no_event_follows_a_torn_record() -> None:
    arranged = Arranged(segments=2)
    Running(arranged.writer.emit(sized(500))).cancel()
    with pytest.raises(LocalProtocolError, match="cut off by a cancellation"):
        run(arranged.writer.broadcast_event(EVENT))
    arranged.close()


def test_an_announcement_is_refused_before_the_peer_ends_the_connection_for_it() -> None:
    arranged = Arranged()
    barrier = CheckpointBarrier(1, 2, CheckpointOptions(aligned_timeout_ms=100))
    announcement = EventAnnouncement(barrier).event()
    with pytest.raises(LocalProtocolError, match="an announcement is never sent: write the barr"):
        run(arranged.writer.broadcast_event(announcement))
    with pytest.raises(LocalProtocolError, match="an announcement is never sent: write the barr"):
        run(arranged.writer.emit_event(announcement, 0))
    assert arranged.take() == []


@pytest.mark.parametrize(
    "data_type",
    [DataType.DATA_BUFFER, DataType.NONE, END_OF_DATA, END],
    ids=lambda data_type: data_type.name,
)
def test_an_event_that_tasks_do_not_emit_is_refused(data_type: DataType) -> None:
    arranged = Arranged()
    with pytest.raises(LocalProtocolError, match=f"{data_type.name} cannot be written as an event"):
        run(arranged.writer.broadcast_event(Event(data_type, b"\x90")))
    with pytest.raises(LocalProtocolError, match=f"{data_type.name} cannot be written as an event"):
        run(arranged.writer.emit_event(Event(data_type, b"\x90"), 0))
    assert arranged.take() == []


def test_events_may_come_behind_the_end_of_the_data_but_not_of_the_partition() -> None:
    """The barrier of a last checkpoint comes then, when all records are processed."""
    arranged = Arranged()
    finishing = Running(arranged.writer.finish())
    run(arranged.writer.broadcast_event(EVENT))
    assert arranged.take() == [END_OF_DATA, EVENT.data_type]
    arranged.views[0].acknowledge_all_data_processed()
    finishing.go_on()
    with pytest.raises(LocalProtocolError, match="finished"):
        run(arranged.writer.broadcast_event(EVENT))
    assert arranged.take() == [END]
    arranged.partition.release()


def test_an_event_for_readers_that_left_says_so() -> None:
    arranged = Arranged()
    arranged.views[0].release()
    with pytest.raises(ConsumerCancelledError):
        run(arranged.writer.broadcast_event(EVENT))
    arranged.close()


# -- the end ---------------------------------------------------------------------------------------


def finish_step_by_step(view: SubpartitionView, arranged: Arranged, index: int = 0) -> list[Any]:
    """Read to the end of data and acknowledge it."""
    taken = arranged.take(index)
    assert taken[-1] is END_OF_DATA
    view.acknowledge_all_data_processed()
    return taken[:-1]


def test_finishing_waits_until_everything_is_processed_and_read() -> None:
    """D12, C22, row 19."""
    arranged = Arranged(2)
    arranged.emit((0, "first"), (1, "second"))
    finishing = Running(arranged.writer.finish())
    assert finishing.waits_for is arranged.partition.all_data_processed
    assert finish_step_by_step(arranged.views[0], arranged, 0) == [(0, "first")]
    finishing.go_on()
    assert finishing.waits_for is arranged.partition.all_data_processed
    assert finish_step_by_step(arranged.views[1], arranged, 1) == [(1, "second")]
    finishing.go_on()
    assert finishing.waits_for is arranged.partition.all_consumed
    for index, view in enumerate(arranged.views):
        assert arranged.take(index) == [END]
        assert not finishing.done
        view.release()
        finishing.go_on()
    assert finishing.done
    assert arranged.partition.released
    run(arranged.writer.finish())
    arranged.close()


@pytest.mark.parametrize("way", ["emit", "emit_many", "broadcast_emit"])
def test_nothing_is_emitted_after_the_end(way: str) -> None:
    """D1, row 20."""
    arranged = Arranged()
    arranged.emit("last")
    Running(arranged.writer.finish())
    call = {
        "emit": lambda: arranged.writer.emit("late"),
        "emit_many": lambda: arranged.writer.emit_many(["late"]),
        "broadcast_emit": lambda: arranged.writer.broadcast_emit("late"),
    }[way]
    with pytest.raises(LocalProtocolError, match="after its end"):
        run(call())
    assert arranged.take() == ["last", END_OF_DATA]
    arranged.partition.release()


def test_a_cancelled_finish_can_be_taken_up_again() -> None:
    """The end of data is sent once, and the second call waits for the same."""
    arranged = Arranged()
    arranged.emit("last")
    for _ in range(3):
        Running(arranged.writer.finish()).cancel()
    finishing = Running(arranged.writer.finish())
    assert finishing.waits_for is arranged.partition.all_data_processed
    assert finish_step_by_step(arranged.views[0], arranged) == ["last"]
    finishing.go_on()
    assert finishing.waits_for is arranged.partition.all_consumed
    finishing.cancel()
    finishing = Running(arranged.writer.finish())
    assert finishing.waits_for is arranged.partition.all_consumed
    assert arranged.take() == [END]
    arranged.views[0].release()
    finishing.go_on()
    assert finishing.done


def test_two_tasks_may_finish() -> None:
    arranged = Arranged()
    first, second = Running(arranged.writer.finish()), Running(arranged.writer.finish())
    finish_step_by_step(arranged.views[0], arranged)
    first.go_on()
    second.go_on()
    assert arranged.take() == [END]
    arranged.views[0].release()
    first.go_on()
    second.go_on()
    assert first.done
    assert second.done


def test_finishing_fails_if_the_readers_leave_before() -> None:
    arranged = Arranged(2)
    finishing = Running(arranged.writer.finish())
    for view in arranged.views:
        view.release()
    with pytest.raises(ConsumerCancelledError):
        finishing.go_on()
    arranged.close()


def test_finishing_fails_if_a_reader_is_lost_before_it_read_the_end() -> None:
    arranged = Arranged()
    finishing = Running(arranged.writer.finish())
    finish_step_by_step(arranged.views[0], arranged)
    finishing.go_on()
    cause = RemoteTransportError("gone")
    arranged.views[0].release(cause)
    with pytest.raises(RemoteTransportError) as raised:
        finishing.go_on()
    assert raised.value is cause


def test_a_failed_writer_tells_its_readers_and_stops() -> None:
    """C15."""
    arranged = Arranged(segments=2)
    arranged.emit(sized(64), sized(64))
    emitting = Running(arranged.writer.emit("waits"))
    arranged.writer.fail(ValueError("first cause"))
    arranged.writer.fail(ValueError("second cause"))
    with pytest.raises(ProducerFailedError, match="ValueError: first cause"):
        emitting.go_on()
    assert "first cause" in str(arranged.views[0].failure_cause())
    with pytest.raises(LocalProtocolError):
        run(arranged.writer.emit("late"))
    arranged.close()


def test_closing_stops_a_task_that_waits() -> None:
    arranged = Arranged(segments=2)
    arranged.emit(sized(64), sized(64))
    emitting = Running(arranged.writer.emit("waits"))
    arranged.writer.close()
    with pytest.raises(ClosedResourceError, match="partition p has been closed"):
        emitting.go_on()
    arranged.close()


def test_finishing_a_partition_that_was_closed_is_an_error() -> None:
    arranged = Arranged()
    finishing = Running(arranged.writer.finish())
    arranged.partition.release()
    with pytest.raises(ClosedResourceError):
        finishing.go_on()
    arranged = Arranged()
    arranged.partition.release()
    with pytest.raises(ClosedResourceError):
        run(arranged.writer.finish())


def test_closing_twice_and_after_the_end() -> None:
    arranged = Arranged()
    arranged.emit("dropped")
    arranged.writer.close()
    arranged.writer.close()
    assert arranged.partition.released
    assert_everything_returned(arranged.pool)
    with pytest.raises(LocalProtocolError):
        run(arranged.writer.emit("late"))


def test_closing_leaves_a_finished_partition_to_its_readers() -> None:
    """C22."""
    arranged = Arranged()
    arranged.emit("last")
    finishing = Running(arranged.writer.finish())
    finish_step_by_step(arranged.views[0], arranged)
    finishing.go_on()
    arranged.writer.close()
    assert not arranged.partition.released
    assert arranged.take() == [END]
    arranged.views[0].release()
    finishing.go_on()
    assert finishing.done
    assert_everything_returned(arranged.pool)


def test_progress_changes_whenever_the_writer_gets_on() -> None:
    arranged = Arranged()
    seen = {arranged.writer.progress}
    for number in range(50):
        arranged.emit(number)
        assert arranged.writer.progress not in seen
        seen.add(arranged.writer.progress)


@pytest.mark.parametrize(
    ("partitioner", "counted"),
    [(BroadcastPartitioner(), 3), (Halving(), 5), (RebalancePartitioner(), 3)],
    ids=["broadcast", "cut", "chosen"],
)
def test_records_and_bytes_are_counted_for_each_way(partitioner: Partitioner, counted: int) -> None:
    """A broadcast record counts once, a cut one with each of its parts; bytes count for each
    reader."""
    arranged = Arranged(2, partitioner=partitioner)
    arranged.emit((1, 2))
    run(arranged.writer.emit_many([(3, 4)]))
    run(arranged.writer.broadcast_emit("all"))
    arranged.writer.flush()
    taken = sum(size for index in range(2) for size, _ in arranged.buffers(index))
    assert arranged.writer.records_out == counted
    assert arranged.writer.bytes_out == taken


def test_a_writer_that_is_compiled_emits_by_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """In plain Python they would cost a further call, and are left out."""
    monkeypatch.setattr("flinknet.records.writer.COMPILED", True)
    made = Arranged(2)
    made.emit((0, "one"), (1, "other"))
    run(made.writer.broadcast_emit((2, "both")))
    made.writer.flush()
    assert made.take(0) == [(0, "one"), (2, "both")]
    assert made.take(1) == [(1, "other"), (2, "both")]
