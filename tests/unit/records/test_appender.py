from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.errors import (
    ConsumerCancelledError,
    LocalProtocolError,
    ProducerFailedError,
    RemoteTransportError,
    SerializationError,
)
from flinknet.records.partitioner import RebalancePartitioner
from flinknet.records.written import WRITTEN
from tests.unit.arrangements import Running, run
from tests.unit.records.writing import END_OF_DATA, SEGMENT_BYTES, Arranged, sized


@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 129, 192, 1_000])
@pytest.mark.parametrize("before", [0, 1, 32, 63, 64])
def test_a_record_of_any_size_at_any_place(size: int, before: int) -> None:
    """D6, A1: it takes as many buffers as it needs, and only its last one ends with a record."""
    arranged = Arranged(segments=100, floating_buffers_per_gate=40, buffers_per_subpartition_max=40)
    records = [sized(before, "b")] if before else []
    records += [sized(size), "end"]
    arranged.emit(*records)
    arranged.writer.flush()
    polled = arranged.buffers()
    total = before + size + len(msgpack.packb("end"))
    assert sum(number for number, _ in polled) == total
    position, ends = 0, {before, before + size, total}
    for number, data_type in polled:
        position += number
        clear = data_type is DataType.DATA_BUFFER_WITH_CLEAR_END
        assert clear == (position in ends)
        assert 0 < number <= SEGMENT_BYTES


def test_records_far_over_the_buffers_size() -> None:
    """A2: it is longer than the pool, so the reader takes buffers while the writer writes."""
    arranged = Arranged(segments=3)
    records = [sized(5_000), "small", sized(SEGMENT_BYTES * 10), sized(300), "end"]
    emitting = Running(arranged.writer.emit_many(records))
    taken = arranged.taken_with(emitting)
    arranged.writer.flush()
    assert taken + arranged.take() == records
    arranged.close()


@pytest.mark.parametrize(
    ("filled", "size", "cut"),
    [(15, 10, False), (14, 21, True), (15, 20, False), (15, 300, False), (14, 11, False)],
)
def test_a_record_is_cut_only_if_it_and_the_room_are_larger(
    filled: int, size: int, cut: bool
) -> None:
    """Otherwise up to 1/16 of a buffer stays empty, so that buffers end with a record."""
    arranged = Arranged(segment_bytes=160)
    arranged.emit(*[sized(10)] * filled, sized(5), sized(size))
    arranged.writer.flush()
    first = arranged.buffers()[0]
    if cut:
        assert first == (160, DataType.DATA_BUFFER)
    elif 10 * filled + 5 + size <= 160:
        assert first == (10 * filled + 5 + size, DataType.DATA_BUFFER_WITH_CLEAR_END)
    else:
        assert first == (10 * filled + 5, DataType.DATA_BUFFER_WITH_CLEAR_END)


def test_a_writer_that_never_waits_lets_the_loop_turn() -> None:
    """Other tasks run once per few buffers; these have two records each."""
    arranged = Arranged(floating_buffers_per_gate=40, buffers_per_subpartition_max=100)
    emitting = Running(arranged.writer.emit_many([sized(32)] * 40), start=False)
    opened = [0]
    emitting.step()
    while not emitting.done:
        assert emitting.waits_for is None
        opened.append(arranged.writer.buffers_opened)
        emitting.step()
    assert arranged.writer.buffers_opened == 20
    assert [after - before for before, after in pairwise(opened)] == [5] * 4


@pytest.mark.parametrize("first", [10, 700])
def test_large_records_let_the_loop_turn_every_few_buffers(first: int) -> None:
    """This holds for any number of buffers that each of them opens."""
    arranged = Arranged(
        segment_bytes=600, floating_buffers_per_gate=60, buffers_per_subpartition_max=60
    )
    emitting = Running(arranged.writer.emit_many([sized(first)] + [sized(1_150)] * 20), start=False)
    opened = 0
    while not emitting.done:
        emitting.step()
        assert emitting.waits_for is None
        assert arranged.writer.buffers_opened - opened <= 6
        opened = arranged.writer.buffers_opened
    assert opened > 30


def test_going_on_where_readers_have_taken_is_no_reason_to_let_the_loop_turn() -> None:
    """Each turn flushes. With a turn for each taken buffer, every buffer would have one record."""
    channels = 40
    arranged = Arranged(
        channels, partitioner=RebalancePartitioner(), floating_buffers_per_gate=channels
    )
    for _ in range(3):
        arranged.emit(*range(channels))
        for channel in range(channels):
            assert arranged.take(channel) == [channel]
    assert arranged.writer.buffers_opened == 3 * channels
    for number in range(2 * channels):
        written = arranged.writer.emit(number)
        assert written is WRITTEN
        run(written)
    assert arranged.partition.statistics().pool.in_use == channels


def test_a_writer_goes_on_in_a_buffer_that_its_reader_has_taken_from() -> None:
    """C1: no other buffer is needed. Each part is a buffer for the reader."""
    arranged = Arranged()
    for number in range(10):
        arranged.emit(number)
        assert arranged.partition.statistics().pool.in_use == 1
        assert arranged.take() == [number]
    assert arranged.writer.buffers_opened == 10
    assert arranged.partition.statistics().buffers_out == 10


def test_a_writer_goes_on_without_memory_in_a_buffer_that_its_reader_has_taken_from() -> None:
    """When the buffer is full it waits, as it would have without this."""
    arranged = Arranged(segments=2, floating_buffers_per_gate=0, buffers_per_channel=1)
    arranged.emit(sized(SEGMENT_BYTES))
    arranged.emit("first")
    assert not arranged.partition.availability.available
    assert arranged.take(buffers=2)[1:] == ["first"]
    held = arranged.partition._pool.request(0)
    assert held is not None
    assert not arranged.partition.availability.available
    arranged.emit("second")
    arranged.writer.flush()
    assert arranged.take() == ["second"]
    emitting = Running(arranged.writer.emit(sized(SEGMENT_BYTES)), start=False)
    emitting.step()
    assert emitting.waits_for is arranged.partition.availability
    arranged.partition._pool.recycle_from(0, held)
    emitting.go_on()
    assert emitting.done


@pytest.mark.parametrize("size", [SEGMENT_BYTES // 4, SEGMENT_BYTES, 3 * SEGMENT_BYTES])
def test_a_record_that_does_not_fit_behind_what_was_taken_is_written_as_ever(size: int) -> None:
    """A9, A13: all of it goes into the next buffer, or it is cut."""
    arranged = Arranged(floating_buffers_per_gate=8)
    arranged.emit(sized(SEGMENT_BYTES // 2 - 10))
    assert arranged.take() == [sized(SEGMENT_BYTES // 2 - 10)]
    arranged.emit(sized(size), "behind", sized(size))
    arranged.writer.flush()
    assert arranged.take() == [sized(size), "behind", sized(size)]


def test_a_reader_that_wants_small_buffers_gets_them() -> None:
    """D9, E6: this begins with the next buffer.

    A longer record has a buffer of its own, if the segment has the room.
    """
    arranged = Arranged()
    arranged.views[0].notify_new_buffer_size(20)
    arranged.emit(*[sized(10)] * 4, sized(50), sized(60), sized(10), sized(SEGMENT_BYTES + 3))
    arranged.writer.flush()
    sizes = [size for size, _ in arranged.buffers()]
    assert sizes == [20, 20, 50, 60, 20, SEGMENT_BYTES - 7]


def test_a_record_longer_than_the_size_hint_does_not_wait() -> None:
    """D7: one whole segment is available before a record begins.

    Even the smallest hint never makes it wait in its middle.
    """
    arranged = Arranged(segments=2, segment_bytes=20)
    arranged.views[0].notify_new_buffer_size(1)
    arranged.emit(sized(10), sized(20))
    assert arranged.writer.buffers_opened == 2
    arranged.close()


@pytest.mark.parametrize("broadcast", [False, True])
def test_a_buffer_says_how_much_of_it_is_part_of_a_record(broadcast: bool) -> None:
    """D6: 0 in the buffer where a record begins, the rest of the record in the next one.

    Buffers shared by all subpartitions do so, too, with other records before and behind.
    """
    arranged = Arranged(2, segment_bytes=64)
    emit = arranged.writer.broadcast_emit if broadcast else arranged.writer.emit
    for size in (20, 100, 10, 28, 192, 30):
        run(emit((0, sized(size - 2))))
    arranged.writer.flush()
    marks = [(0, 44), (56, 8), (2, 34), (64, 0), (64, 0), (30, 0)]
    assert arranged.marks(0) == marks
    assert arranged.marks(1) == (marks if broadcast else [])


def test_a_record_waits_before_it_begins() -> None:
    """A19, D4, row 10 (soft): no part of it is written, and it goes on with the first buffer."""
    arranged = Arranged(segments=2)
    arranged.emit(sized(64), sized(64))
    queued = arranged.partition.statistics().subpartitions[0].queued_bytes
    emitting = Running(arranged.writer.emit("waits"))
    assert emitting.waits_for is arranged.partition.availability
    assert arranged.partition.statistics().subpartitions[0].queued_bytes == queued == 128
    assert arranged.writer.records_out == 2
    assert arranged.take(buffers=1) == [sized(64)]
    emitting.go_on()
    assert emitting.done
    arranged.writer.flush()
    assert arranged.take() == [sized(64), "waits"]


def test_a_record_that_has_begun_waits_for_any_buffer() -> None:
    """Row 10 (hard)."""
    arranged = Arranged(segments=2)
    emitting = Running(arranged.writer.emit(sized(200)))
    assert emitting.waits_for is arranged.partition.availability
    assert arranged.partition.statistics().subpartitions[0].queued_bytes == 128
    assert arranged.views[0].backlog() == 2, "its full buffers are offered"
    assert arranged.taken_with(emitting) == [sized(200)]


def test_a_false_alarm_changes_nothing() -> None:
    arranged = Arranged(segments=2)
    arranged.emit(sized(64), sized(64))
    emitting = Running(arranged.writer.emit("waits"))
    availability = arranged.partition.availability
    availability.set(True)
    availability.set(False)
    emitting.go_on()
    assert emitting.waits_for is availability
    arranged.take(buffers=1)
    emitting.go_on()
    assert emitting.done


def test_overdraft_finishes_the_record_and_holds_the_next_one() -> None:
    """Row 8: up to 5 more buffers; the next record waits until they are returned."""
    arranged = Arranged(segments=64, overdraft_buffers_per_partition=5, large_record_buffers_max=0)
    arranged.emit(*[sized(64)] * 9)
    arranged.emit(sized(64 * 6))
    counts = arranged.partition.statistics().pool
    assert (counts.in_use, counts.overdraft, counts.available) == (15, 5, False)
    emitting = Running(arranged.writer.emit("next"))
    for _ in range(5):
        assert emitting.waits_for is arranged.partition.availability
        arranged.take(buffers=1)
        emitting.go_on()
    assert not emitting.done, "overdraft is paid, but no buffer is idle"
    arranged.take(buffers=1)
    emitting.go_on()
    assert emitting.done


def test_a_quota_holds_every_record_that_needs_a_buffer() -> None:
    """Row 22: one slow reader stops the writer between records, not within one."""
    arranged = Arranged(2, buffers_per_subpartition_max=3, large_record_buffers_max=0)
    for number in range(3):
        arranged.emit((0, sized(60, str(number))))
    assert not arranged.partition.availability.available
    emitting = Running(arranged.writer.emit((1, "other")))
    assert emitting.waits_for is arranged.partition.availability
    arranged.take(0, buffers=1)
    emitting.go_on()
    assert emitting.done
    arranged.writer.flush()
    assert arranged.take(1) == [(1, "other")]


@pytest.mark.parametrize(("size", "buffers"), [(18, 8), (12, 3)], ids=["large", "small"])
def test_large_records_may_fill_more_buffers(size: int, buffers: int) -> None:
    """They may fill more buffers than records of which more than 64 fit a buffer, up to the larger
    quota."""
    arranged = Arranged(
        2, segment_bytes=1024, buffers_per_subpartition_max=3, large_record_buffers_max=8
    )
    emitting = Running(arranged.writer.emit_many([(0, sized(size - 2, "x"))] * 1_000))
    assert emitting.waits_for is arranged.partition.availability
    counts = arranged.partition.statistics()
    assert counts.subpartitions[0].queued_buffers == buffers
    assert counts.pool.maximum == (2 * 2 + 8 + 5 if buffers == 8 else 2 * 2 + 8)
    arranged.taken_with(emitting)


def test_a_record_in_progress_goes_over_the_quota() -> None:
    """FLINK-27522."""
    arranged = Arranged(2, buffers_per_subpartition_max=3, large_record_buffers_max=0)
    arranged.emit((0, sized(64 * 5)))
    assert arranged.partition.statistics().subpartitions[0].queued_bytes > 64 * 5
    assert not arranged.partition.availability.available
    arranged.writer.flush()
    assert arranged.take(0) == [(0, sized(64 * 5))]
    assert arranged.partition.availability.available


def test_records_that_fit_an_open_buffer_never_wait() -> None:
    arranged = Arranged(2, segments=3)
    arranged.emit((0, "a"), (1, "b"))
    arranged.emit((0, sized(62)))
    assert not arranged.partition.availability.available
    fitting = [(1, number) for number in range(5)]
    arranged.emit(*fitting)
    arranged.writer.flush()
    assert arranged.take(1) == [(1, "b"), *fitting]


@pytest.mark.parametrize("size", [10, 64, 300])
@pytest.mark.parametrize("full_is_open", [True, False])
def test_a_record_cancelled_before_it_began_was_not_written(size: int, full_is_open: bool) -> None:
    """It is written whole or not at all, even if the open buffer is exactly full."""
    arranged = Arranged(segments=2)
    arranged.emit(sized(64), sized(64))
    if not full_is_open:
        arranged.partition.subpartitions[0].seal_open()
    emitting = Running(arranged.writer.emit(sized(size)))
    emitting.cancel()
    assert arranged.partition.availability.waiting == 0
    assert arranged.writer.records_out == 2
    taken = arranged.take()
    arranged.emit("next")
    finishing = Running(arranged.writer.finish())
    assert taken + arranged.take() == [sized(64)] * 2 + ["next", END_OF_DATA]
    assert not finishing.done
    arranged.close()


def test_a_record_cancelled_after_it_was_written_is_written() -> None:
    """It is cancelled while other tasks run: it counts, and the next record follows it."""
    arranged = Arranged()
    arranged.emit(*[sized(64)] * 4)
    emitting = Running(arranged.writer.emit("whole"), start=False)
    emitting.step()
    assert emitting.waits_for is None
    emitting.cancel()
    arranged.emit("next")
    arranged.writer.flush()
    assert arranged.take() == [*[sized(64)] * 4, "whole", "next"]
    assert arranged.writer.records_out == 6


@pytest.mark.parametrize("size", [5, 40, 63, 64])
@pytest.mark.parametrize("open_bytes", [1, 30, 63, 64])
@pytest.mark.parametrize("broadcast", [True, False])
def test_a_record_up_to_a_buffer_is_never_torn(size: int, open_bytes: int, broadcast: bool) -> None:
    """If it does not fit into the rest of the open buffer, it waits before it begins."""
    arranged = Arranged(segments=2)
    emit = arranged.writer.broadcast_emit if broadcast else arranged.writer.emit
    run(emit(sized(64)))
    run(emit(sized(open_bytes)))
    if open_bytes + size > 64:
        emitting = Running(emit(sized(size)))
        assert emitting.waits_for is arranged.partition.availability
        emitting.cancel()
    else:
        run(emit(sized(size)))
    written = arranged.writer.records_out
    taken = arranged.take()
    run(emit("next"))
    arranged.writer.flush()
    taken += arranged.take()
    before = [sized(64), sized(open_bytes), sized(size), "next"][:written]
    assert taken == [*before, "next"]


@pytest.mark.parametrize("way", ["emit", "emit_many", "broadcast_emit", "finish"])
def test_nothing_follows_a_torn_record(way: str) -> None:
    """A cancellation may tear a record longer than a buffer; the writer then refuses further
    records."""
    arranged = Arranged(segments=2)
    emitting = Running(arranged.writer.emit(sized(200)))
    emitting.cancel()
    arranged.take()
    assert arranged.writer.records_out == 0
    call = {
        "emit": lambda: arranged.writer.emit("next"),
        "emit_many": lambda: arranged.writer.emit_many(["next"]),
        "broadcast_emit": lambda: arranged.writer.broadcast_emit("next"),
        "finish": arranged.writer.finish,
    }[way]
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="cut off by a cancellation"):
            run(call())
    assert arranged.take() == []
    arranged.writer.fail(TimeoutError("too slow"))
    with pytest.raises(ProducerFailedError):
        raise arranged.views[0].failure_cause() or AssertionError
    arranged.close()


@pytest.mark.parametrize("way", ["emit", "broadcast_emit"])
def test_a_torn_broadcast_is_refused_too(way: str) -> None:
    arranged = Arranged(2, segments=3)
    emitting = Running(arranged.writer.broadcast_emit(sized(400)))
    assert emitting.waits_for is not None
    emitting.cancel()
    for index in range(2):
        arranged.take(index)
    with pytest.raises(LocalProtocolError, match="cut off by a cancellation"):
        run(getattr(arranged.writer, way)((0, "next")))


def test_two_tasks_do_not_mix_their_records() -> None:
    """The second one waits until the first one's record is whole."""
    arranged = Arranged(segments=2)
    first = Running(arranged.writer.emit(sized(500, "1")))
    second = Running(arranged.writer.emit(sized(500, "2")))
    third = Running(arranged.writer.emit("3"))
    assert first.waits_for is arranged.partition.availability
    assert second.waits_for is not arranged.partition.availability
    taken: list[Any] = []
    while not (first.done and second.done and third.done):
        taken += arranged.take(buffers=1)
        for task in (third, second, first):
            if not task.done:
                task.go_on()
    arranged.writer.flush()
    taken += arranged.take()
    assert sorted(taken) == sorted([sized(500, "1"), sized(500, "2"), "3"])
    assert taken[0] == sized(500, "1")
    assert arranged.writer.records_out == 3


def test_a_task_passes_one_that_waits_if_its_record_fits_elsewhere() -> None:
    arranged = Arranged(2, segments=3)
    arranged.emit((1, "open"))
    first = Running(arranged.writer.emit((0, sized(500))))
    assert first.waits_for is not None
    arranged.emit((1, "fits"))
    arranged.writer.flush()
    assert arranged.take(1) == [(1, "open"), (1, "fits")]
    assert arranged.taken_with(first) == [(0, sized(500))]


def test_a_task_that_waited_for_another_uses_what_that_left_open() -> None:
    """It needs no buffer of its own, even if there is none."""
    arranged = Arranged(segments=2)
    first = Running(arranged.writer.emit(sized(150)))
    second = Running(arranged.writer.emit("fits"))
    assert arranged.take(buffers=1) == []
    first.go_on()
    assert first.done
    assert not arranged.partition.availability.available
    second.go_on()
    assert second.done
    arranged.writer.flush()
    assert arranged.take() == [sized(150), "fits"]


def test_cancelling_the_one_that_writes_lets_the_next_one_know() -> None:
    arranged = Arranged(segments=2)
    first = Running(arranged.writer.emit(sized(500)))
    second = Running(arranged.writer.emit("second"))
    first.cancel()
    with pytest.raises(LocalProtocolError, match="cut off"):
        second.go_on()


def test_cancelling_a_waiting_writer_disturbs_no_other() -> None:
    arranged = Arranged(segments=2)
    first = Running(arranged.writer.emit(sized(500)))
    second = Running(arranged.writer.emit("second"))
    third = Running(arranged.writer.emit("third"))
    second.cancel()
    assert arranged.taken_with(first) == [sized(500)]
    third.go_on()
    assert third.done
    arranged.writer.flush()
    assert arranged.take() == ["third"]


def test_flush_requests_are_bounded() -> None:
    """The records for a reader that left are dropped, and no flush is remembered for them."""
    arranged = Arranged(2, timeout=5.0)
    arranged.views[0].release()
    for number in range(1_000):
        arranged.emit((0, number))
    assert len(arranged.writer._appender.unflushed) <= 2


def test_without_readers_the_writer_stops_at_its_next_buffer() -> None:
    """C21, row 36."""
    arranged = Arranged(2)
    arranged.emit((0, "a"), (1, "b"))
    for view in arranged.views:
        view.release()
    for way in (arranged.writer.emit, arranged.writer.broadcast_emit):
        with pytest.raises(ConsumerCancelledError, match="every consumer of partition p"):
            run(way((0, "next")))
    with pytest.raises(ConsumerCancelledError):
        run(arranged.writer.finish())
    arranged.close()


def test_records_for_a_reader_that_left_are_dropped() -> None:
    """The other readers go on, and the writer still lets the loop run."""
    arranged = Arranged(2)
    arranged.views[0].release()
    for number in range(5):
        emitting = Running(arranged.writer.emit((0, number)), start=False)
        emitting.step()
        assert not emitting.done
        assert emitting.waits_for is None
        emitting.go_on()
        large = Running(arranged.writer.emit((0, sized(1_000))), start=False)
        large.step()
        assert not large.done
        large.go_on()
        arranged.emit((1, number))
        run(arranged.writer.broadcast_emit(("all", number)))
    arranged.writer.flush()
    assert arranged.take(1) == [r for n in range(5) for r in ((1, n), ("all", n))]
    arranged.emit((0, sized(1_000)), (1, "still fine"))
    arranged.close()


def test_a_reader_that_leaves_in_the_middle_of_its_record_ends_it() -> None:
    arranged = Arranged(2, segments=3)
    emitting = Running(arranged.writer.emit((0, sized(500))))
    assert emitting.waits_for is not None
    arranged.views[0].release()
    emitting.go_on()
    assert emitting.done
    arranged.emit((1, "next"))
    arranged.writer.flush()
    assert arranged.take(1) == [(1, "next")]


@pytest.mark.parametrize("size", [10, 500])
def test_a_writer_that_waits_learns_that_its_readers_left(size: int) -> None:
    """C21: it learns this although its readers have not returned the buffers that it waits for."""
    arranged = Arranged(segments=2)
    held = []
    arranged.emit(sized(64), sized(64))
    for _ in range(2):
        polled = arranged.views[0].poll()
        assert polled is not None
        held.append(polled.buffer)
    emitting = Running(arranged.writer.emit(sized(size)))
    assert emitting.waits_for is not None
    arranged.views[0].release()
    with pytest.raises(ConsumerCancelledError):
        emitting.go_on()
    for buffer in held:
        buffer.recycle()
    arranged.close()


def test_a_lost_reader_stops_the_writer_with_the_cause() -> None:
    arranged = Arranged(2, segments=3)
    emitting = Running(arranged.writer.emit((0, sized(500))))
    cause = RemoteTransportError("the connection is gone")
    arranged.views[1].release(cause)
    with pytest.raises(RemoteTransportError) as raised:
        emitting.go_on()
    assert raised.value is cause
    with pytest.raises(RemoteTransportError):
        run(arranged.writer.finish())


def test_a_partition_with_the_least_memory_serves_any_order() -> None:
    """Invariant L1: n + 1 buffers with unflushed records in all of them; reading one channel after
    the other is enough."""
    arranged = Arranged(3, segments=4)
    taken: list[list[Any]] = [[], [], []]
    sent: list[list[Any]] = [[], [], []]
    for number in range(60):
        record = (number * 7 % 3, sized(5 + number * 11 % 90))
        sent[record[0]].append(record)
        emitting = Running(arranged.writer.emit(record))
        while not emitting.done:
            for index in range(3):
                if arranged.views[index].next_data_type() is not DataType.NONE:
                    taken[index] += arranged.take(index, buffers=1)
            emitting.go_on()
    arranged.writer.flush()
    for index in range(3):
        assert taken[index] + arranged.take(index) == sent[index]


def test_a_record_over_the_limit_opens_no_buffer() -> None:
    arranged = Arranged(record_bytes_max=100)
    with pytest.raises(SerializationError, match="the limit is 100"):
        run(arranged.writer.emit(sized(101)))
    assert (arranged.writer.buffers_opened, arranged.writer.records_out) == (0, 0)


@pytest.mark.parametrize("size", [10, 300])
def test_a_partly_taken_buffer_is_not_continued_without_a_reader(size: int) -> None:
    arranged = Arranged()
    arranged.emit("first")
    assert arranged.take() == ["first"]
    arranged.views[0].release()
    with pytest.raises(ConsumerCancelledError):
        run(arranged.writer.emit(sized(size)))
    assert arranged.writer.records_out == 1


def test_a_record_ends_where_its_readers_leave_in_its_middle() -> None:
    """Row 36: while it waits for another buffer."""
    arranged = Arranged(segments=2)
    emitting = Running(arranged.writer.emit(sized(500)))
    arranged.views[0].release()
    with pytest.raises(ConsumerCancelledError):
        emitting.go_on()
    arranged.close()


def test_events_between_records_wait_for_the_record_in_progress() -> None:
    arranged = Arranged(segments=3)
    emitting = Running(arranged.writer.emit(sized(500)))
    waiting = Running(arranged.writer._appender.until_between_records())
    assert waiting.waits_for is not None
    taken = arranged.taken_with(emitting)
    waiting.go_on()
    assert waiting.done
    arranged.writer.flush()
    assert taken + arranged.take() == [sized(500)]
    torn = Running(arranged.writer.emit(sized(500)))
    torn.cancel()
    with pytest.raises(LocalProtocolError, match="cut off by a cancellation"):
        run(arranged.writer._appender.until_between_records())
    arranged.close()


def test_nothing_is_appended_after_the_end() -> None:
    arranged = Arranged()
    arranged.writer.close()
    with pytest.raises(LocalProtocolError, match="after its end"):
        run(arranged.writer.emit("late"))


def test_a_buffer_that_was_taken_from_is_not_gone_on_with_once_another_reader_is_lost() -> None:
    arranged = Arranged(2)
    arranged.emit((0, "first"))
    assert arranged.take(0) == [(0, "first")]
    arranged.views[1].release(RemoteTransportError("the connection is gone"))
    with pytest.raises(RemoteTransportError):
        run(arranged.writer.emit((0, "second")))
    assert arranged.writer.records_out == 1
    arranged.close()
