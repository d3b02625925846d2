from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.buffer.view import SubpartitionView
from flinknet.errors import (
    ClosedResourceError,
    ConfigurationError,
    ConsumerCancelledError,
    LocalProtocolError,
    ProducerFailedError,
    RemoteTransportError,
    SerializationError,
)
from flinknet.records.partitioner import (
    BroadcastPartitioner,
    CustomPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.records.writer import RecordWriter
from tests.naming import spelled
from tests.unit.arrangements import (
    Flusher,
    Running,
    assert_everything_returned,
    content_of,
    make_partition,
    run,
    view_of,
    wait,
)

END_OF_DATA = DataType.END_OF_DATA
END = DataType.END_OF_PARTITION

SEGMENT_BYTES = 64


def by_first() -> CustomPartitioner:
    """A partitioner that sends a record (channel, value) to its channel."""
    return CustomPartitioner(lambda channel, channels: int(channel), lambda record: record[0])


def sized(size: int, fill: str = "x") -> str:
    """A record of ``size`` bytes when serialised."""
    head = 1 if size <= 32 else 2 if size <= 257 else 3
    record = fill * (size - head)
    assert len(msgpack.packb(record)) == size
    return record


class Arranged:
    """A writer over a partition with its readers."""

    def __init__(
        self,
        subpartitions: int = 1,
        *,
        partitioner: Partitioner | None = None,
        timeout: Any = -1,
        segments: int = 64,
        segment_bytes: int = SEGMENT_BYTES,
        record_bytes_max: int = 1 << 20,
        record_elements_max: int = 1 << 16,
        **options: Any,
    ) -> None:
        options = {"overdraft_buffers_per_partition": 0, **options}
        self.partition, self.pool = make_partition(
            subpartitions, segments=segments, segment_bytes=segment_bytes, **options
        )
        if subpartitions > 1 and partitioner is None:
            partitioner = by_first()
        self.flusher = Flusher()
        self.writer = RecordWriter(
            self.partition,
            partitioner,
            wait=wait,
            flusher=self.flusher,
            buffer_timeout_ms=timeout,
            record_bytes_max=record_bytes_max,
            record_elements_max=record_elements_max,
        )
        self.views = [view_of(self.partition, index) for index in range(subpartitions)]
        self.streams = [msgpack.Unpacker(use_list=False) for _ in range(subpartitions)]

    def emit(self, *records: Any) -> None:
        """Emit records that need not wait."""
        for record in records:
            run(self.writer.emit(record))

    def buffers(self, index: int = 0) -> list[tuple[int, DataType]]:
        """Take everything; return sizes and types."""
        taken = []
        while (polled := self.views[index].poll()) is not None:
            taken.append((polled.buffer.size, polled.buffer.data_type))
            polled.buffer.recycle()
        return taken

    def marks(self, index: int) -> list[tuple[int, int]]:
        """Take everything; return how much of each buffer is part of a record."""
        taken = []
        while (polled := self.views[index].poll()) is not None:
            taken.append((polled.buffer.continued, polled.buffer.unfinished))
            polled.buffer.recycle()
        return taken

    def take(self, index: int = 0, *, buffers: int = 1_000) -> list[Any]:
        """Take buffers; return the records and event types that are complete."""
        taken: list[Any] = []
        while buffers and (polled := self.views[index].poll()) is not None:
            buffers -= 1
            if polled.buffer.data_type.is_buffer:
                self.streams[index].feed(content_of(polled.buffer))
                taken.extend(self.streams[index])
            else:
                taken.append(polled.buffer.data_type)
            polled.buffer.recycle()
        return taken

    def taken_with(self, emitting: Running[None], index: int = 0) -> list[Any]:
        """Take one buffer at a time and let the writer go on, until it is done; take the rest."""
        taken = []
        while not emitting.done:
            taken += self.take(index, buffers=1)
            emitting.go_on()
        return taken + self.take(index)

    def close(self) -> None:
        self.writer.close()
        self.partition.release()
        assert_everything_returned(self.pool)


# -- records and buffers ---------------------------------------------------------------------------


def test_records_arrive_in_order() -> None:
    arranged = Arranged()
    records = [None, True, -5, 2.5, "text", b"bytes", (1, (2,)), {"key": (1,)}]
    arranged.emit(*records)
    arranged.writer.flush()
    assert arranged.take() == records
    assert arranged.writer.records_out == len(records)
    assert arranged.writer.bytes_out == sum(len(msgpack.packb(record)) for record in records)


def test_nothing_leaves_a_part_filled_buffer_unasked() -> None:
    """V5: a timeout of -1 and one small record: nothing arrives until the end."""
    arranged = Arranged()
    arranged.emit("small")
    assert arranged.views[0].next_data_type() is DataType.NONE
    assert arranged.flusher.requests == []
    finishing = Running(arranged.writer.finish())
    assert arranged.take() == ["small", END_OF_DATA]
    assert not finishing.done


@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 129, 192, 1_000])
@pytest.mark.parametrize("before", [0, 1, 32, 63, 64])
def test_a_record_of_any_size_at_any_place(size: int, before: int) -> None:
    """D6, A1: over as many buffers as it needs; only its last one ends with a record."""
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
    """A2: longer than the pool; the reader takes while the writer writes."""
    arranged = Arranged(segments=3)
    records = [sized(5_000), "small", sized(SEGMENT_BYTES * 10), sized(300), "end"]
    emitting = Running(arranged.writer.emit_many(records))
    taken = arranged.taken_with(emitting)
    arranged.writer.flush()
    assert taken + arranged.take() == records
    arranged.close()


def test_a_small_record_is_not_cut() -> None:
    """Up to 1/16 of a buffer it starts the next one, so that buffers end with a record."""
    arranged = Arranged(segment_bytes=160)
    small = sized(10)
    arranged.emit(*[small] * 15, sized(7), small, sized(11), *[small] * 13, sized(11))
    arranged.writer.flush()
    assert arranged.buffers() == [
        (157, DataType.DATA_BUFFER_WITH_CLEAR_END),
        (160, DataType.DATA_BUFFER),
        (2, DataType.DATA_BUFFER_WITH_CLEAR_END),
    ]


def test_a_writer_that_never_waits_lets_the_loop_turn() -> None:
    """Everybody else runs once per few buffers; these have two records each."""
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
    """However many buffers each of them opens."""
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


def test_a_writer_goes_on_in_a_buffer_that_its_reader_has_taken_from() -> None:
    """C1: without another one; for the reader each part is a buffer."""
    arranged = Arranged()
    for number in range(10):
        arranged.emit(number)
        assert arranged.partition.statistics().pool.in_use == 1
        assert arranged.take() == [number]
    assert arranged.writer.buffers_opened == 10
    assert arranged.partition.statistics().buffers_out == 10


def test_a_writer_goes_on_without_memory_in_a_buffer_that_its_reader_has_taken_from() -> None:
    """Until it is full: then it waits, as it would have."""
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
    """A9, A13: all of it in the next buffer, or cut."""
    arranged = Arranged(floating_buffers_per_gate=8)
    arranged.emit(sized(SEGMENT_BYTES // 2 - 10))
    assert arranged.take() == [sized(SEGMENT_BYTES // 2 - 10)]
    arranged.emit(sized(size), "behind", sized(size))
    arranged.writer.flush()
    assert arranged.take() == [sized(size), "behind", sized(size)]


def test_records_and_broadcasts_stay_in_order_in_buffers_that_were_taken_from() -> None:
    """D13: each way of writing ends the other's buffer."""
    arranged = Arranged(2)
    expected: list[list[Any]] = [[], []]
    taken: list[list[Any]] = [[], []]
    for number in range(12):
        if number % 3 == 2:
            run(arranged.writer.broadcast_emit(("all", number)))
            for records in expected:
                records.append(("all", number))
        else:
            arranged.emit((number % 2, number))
            expected[number % 2].append((number % 2, number))
        arranged.writer.flush()
        taken[0] += arranged.take(0)
        if number % 4 == 3:
            taken[1] += arranged.take(1)
    assert [taken[0], taken[1] + arranged.take(1)] == expected


def test_a_reader_that_wants_small_buffers_gets_them() -> None:
    """D9, E6: from the next one on; one that a longer record begins holds that record, if the
    segment has the room, and nothing else."""
    arranged = Arranged()
    arranged.views[0].notify_new_buffer_size(20)
    arranged.emit(*[sized(10)] * 4, sized(50), sized(60), sized(10), sized(SEGMENT_BYTES + 3))
    arranged.writer.flush()
    sizes = [size for size, _ in arranged.buffers()]
    assert sizes == [20, 20, 50, 60, 20, SEGMENT_BYTES - 7]


def test_a_record_longer_than_the_size_hint_does_not_wait() -> None:
    """D7: one whole segment is certain before a record is begun, so no hint, however small, makes
    it wait in its middle."""
    arranged = Arranged(segments=2, segment_bytes=20)
    arranged.views[0].notify_new_buffer_size(1)
    arranged.emit(sized(10), sized(20))
    assert arranged.writer.buffers_opened == 2
    arranged.close()


def test_a_partitioner_chooses_the_subpartition() -> None:
    arranged = Arranged(3, partitioner=RebalancePartitioner())
    arranged.emit(*range(7))
    run(arranged.writer.emit_many(range(7, 9)))
    arranged.writer.flush()
    assert [arranged.take(index) for index in range(3)] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    counts = arranged.partition.statistics().subpartitions
    assert [part.bytes_out for part in counts] == [3, 3, 3]
    assert arranged.writer.bytes_out == 9


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


# -- records that cannot be written ----------------------------------------------------------------

NO_RECORDS = [range(1), object(), 2**64, [1, {2j}], "\ud800", memoryview(b"abcd")[::2]]


@pytest.mark.parametrize("record", NO_RECORDS, ids=spelled)
@pytest.mark.parametrize("way", ["emit", "emit_many", "broadcast_emit"])
def test_a_record_that_cannot_be_serialised_is_not_written(record: object, way: str) -> None:
    """Nothing of it; what comes before and after is."""
    arranged = Arranged()
    arranged.emit("before")
    emitting = {
        "emit": lambda: arranged.writer.emit(record),
        "emit_many": lambda: arranged.writer.emit_many(["with it", record, "never reached"]),
        "broadcast_emit": lambda: arranged.writer.broadcast_emit(record),
    }[way]
    with pytest.raises(SerializationError, match=f"a record of type {type(record).__name__}"):
        run(emitting())
    arranged.emit("after")
    arranged.writer.flush()
    expected = ["before", "with it", "after"] if way == "emit_many" else ["before", "after"]
    assert arranged.take() == expected
    assert arranged.writer.records_out == len(expected)


def test_a_record_without_a_key_is_not_written() -> None:
    arranged = Arranged(2, partitioner=HashPartitioner(lambda record: record["key"]))
    arranged.emit({"key": 1})
    with pytest.raises(SerializationError, match="a key of type dict cannot be hashed"):
        run(arranged.writer.emit({"key": {}}))
    with pytest.raises(SerializationError, match="a key of type dict cannot be hashed"):
        run(arranged.writer.emit_many([{"key": 1}, {"key": {}}]))
    assert arranged.writer.records_out == 2


@pytest.mark.parametrize("yielded", [0, 1, 3])
@pytest.mark.parametrize("error_type", [TypeError, ValueError, OverflowError, BufferError, OSError])
def test_an_error_of_the_iterable_passes_unchanged(
    yielded: int, error_type: type[Exception]
) -> None:
    """It is the user's, not a record's."""
    arranged = Arranged()
    error = error_type("in the user's generator")

    def records() -> Iterator[int]:
        yield from range(yielded)
        raise error

    with pytest.raises(error_type) as raised:
        run(arranged.writer.emit_many(records()))
    assert raised.value is error
    assert raised.value.__cause__ is None
    arranged.writer.flush()
    assert arranged.take() == list(range(yielded))
    assert arranged.writer.records_out == yielded


def test_what_cannot_be_iterated_passes_unchanged() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        run(Arranged().writer.emit_many(5))  # type: ignore[arg-type]


@pytest.mark.parametrize("error_type", [TypeError, ValueError, KeyError])
@pytest.mark.parametrize("many", [True, False])
def test_an_error_of_the_partitioner_passes_unchanged(
    error_type: type[Exception], many: bool
) -> None:
    error = error_type("in the user's key function")

    def key(record: object) -> object:
        raise error

    arranged = Arranged(2, partitioner=HashPartitioner(key))
    with pytest.raises(error_type) as raised:
        run(arranged.writer.emit_many(["x"]) if many else arranged.writer.emit("x"))
    assert raised.value is error
    assert arranged.writer.records_out == 0


def test_an_iteration_that_ends_in_the_partitioner_is_an_error() -> None:
    """Of whoever awaits ``emit``."""
    arranged = Arranged(2, partitioner=HashPartitioner(lambda record: next(iter(record))))

    async def emit() -> None:
        await arranged.writer.emit(())

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        run(emit())
    assert arranged.writer.records_out == 0


@pytest.mark.parametrize("way", ["emit", "emit_many", "broadcast_emit"])
def test_a_record_over_the_limit_is_not_written(way: str) -> None:
    arranged = Arranged(record_bytes_max=200)
    arranged.emit(sized(200))
    call = {
        "emit": arranged.writer.emit,
        "emit_many": lambda record: arranged.writer.emit_many([record]),
        "broadcast_emit": arranged.writer.broadcast_emit,
    }[way]
    with pytest.raises(SerializationError, match="has 201 bytes .* the limit is 200"):
        run(call(sized(201)))
    arranged.emit("after")
    arranged.writer.flush()
    assert arranged.take() == [sized(200), "after"]
    assert arranged.writer.records_out == 2


@pytest.mark.parametrize("way", ["emit", "emit_many", "broadcast_emit"])
def test_a_record_of_too_many_elements_is_not_written(way: str) -> None:
    """What the reader would refuse; all arrays and maps together, and only in long records."""
    arranged = Arranged(record_elements_max=100)
    call = {
        "emit": arranged.writer.emit,
        "emit_many": lambda record: arranged.writer.emit_many([record]),
        "broadcast_emit": arranged.writer.broadcast_emit,
    }[way]
    fits, too_many = ((0,) * 49, {"of": (0,) * 47}, ""), ((0,) * 49, {"of": (0,) * 48}, "")
    run(call((*fits, "x" * 200)[1:]))
    run(call(fits))
    with pytest.raises(SerializationError, match=r"more than 100 elements .*record_elements_max"):
        run(call(too_many))
    run(call("after"))
    arranged.writer.flush()
    assert arranged.take() == [(*fits, "x" * 200)[1:], fits, "after"]
    assert arranged.writer.records_out == 3


@pytest.mark.parametrize("broadcast", [False, True])
def test_a_buffer_says_how_much_of_it_is_part_of_a_record(broadcast: bool) -> None:
    """D6: 0 in the buffer where a record begins, what is carried over in the next; also if all
    subpartitions share it. With other records before and behind."""
    arranged = Arranged(2, segment_bytes=64)
    emit = arranged.writer.broadcast_emit if broadcast else arranged.writer.emit
    for size in (20, 100, 10, 28, 192, 30):
        run(emit((0, sized(size - 2))))
    arranged.writer.flush()
    marks = [(0, 44), (56, 8), (2, 34), (64, 0), (64, 0), (30, 0)]
    assert arranged.marks(0) == marks
    assert arranged.marks(1) == (marks if broadcast else [])


# -- backpressure ----------------------------------------------------------------------------------


def test_a_record_waits_before_it_begins() -> None:
    """A19, D4, row 10 (soft): nothing of it is written, and it goes on with the first buffer."""
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
    """Row 8: up to 5 buffers more; the next record waits until they are paid back."""
    arranged = Arranged(segments=64, overdraft_buffers_per_partition=5)
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
    arranged = Arranged(2, buffers_per_subpartition_max=3)
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


def test_a_record_in_progress_goes_over_the_quota() -> None:
    """FLINK-27522."""
    arranged = Arranged(2, buffers_per_subpartition_max=3)
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


# -- cancellation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 64, 300])
@pytest.mark.parametrize("full_is_open", [True, False])
def test_a_record_cancelled_before_it_began_was_not_written(size: int, full_is_open: bool) -> None:
    """Whole or nothing: also when the open buffer is exactly full."""
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
    """While it lets others run: it counts, and the next one follows it."""
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
    """Also if it would begin in what is left of the open buffer: it waits before it begins."""
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


def test_cancelling_many_leaves_whole_records() -> None:
    arranged = Arranged(segments=2)
    emitting = Running(arranged.writer.emit_many(sized(16, str(n % 10)) for n in range(100)))
    assert emitting.waits_for is not None
    emitting.cancel()
    written = arranged.writer.records_out
    assert written == 8
    taken = arranged.take()
    arranged.emit("next")
    arranged.writer.flush()
    assert taken + arranged.take() == [sized(16, str(n)) for n in range(8)] + ["next"]


@pytest.mark.parametrize("way", ["emit", "emit_many", "broadcast_emit", "finish"])
def test_nothing_follows_a_torn_record(way: str) -> None:
    """A record longer than a buffer may be cut by a cancellation; the writer then refuses."""
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


# -- several tasks ---------------------------------------------------------------------------------


def test_two_tasks_do_not_mix_their_records() -> None:
    """The second one waits for the first one's record to be whole."""
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
    """Without a buffer of its own, even if there is none."""
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


def test_cancelling_the_one_that_waits_disturbs_nobody() -> None:
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


# -- broadcasting ----------------------------------------------------------------------------------


def test_a_broadcast_record_is_serialised_once_into_shared_buffers() -> None:
    """A20, D13: one buffer for all; bytes out count for each."""
    arranged = Arranged(3, partitioner=BroadcastPartitioner())
    records = [("all", number) for number in range(20)]
    arranged.emit(records[0])
    run(arranged.writer.emit_many(records[1:]))
    arranged.writer.flush()
    in_use = arranged.partition.statistics().pool.in_use
    assert in_use == arranged.writer.buffers_opened == 2
    assert [arranged.take(index) for index in range(3)] == [records] * 3
    size = sum(len(msgpack.packb(record)) for record in records)
    assert arranged.writer.bytes_out == 3 * size
    assert arranged.writer.records_out == 20
    assert arranged.partition.statistics().pool.in_use == 0


@pytest.mark.parametrize("size", [3, 40, 200])
def test_one_and_all_in_turn_keep_the_order(size: int) -> None:
    """A17, A20, D14."""
    arranged = Arranged(2, floating_buffers_per_gate=60, buffers_per_subpartition_max=60)
    expected: list[list[Any]] = [[], []]
    for number in range(6):
        record = (number % 2, number, "x" * size)
        if number % 3 == 0:
            run(arranged.writer.broadcast_emit(record))
            for taken in expected:
                taken.append(record)
        else:
            arranged.emit(record)
            expected[number % 2].append(record)
    arranged.writer.flush()
    assert [arranged.take(index) for index in range(2)] == expected


def test_a_unicast_record_lets_the_broadcast_before_it_out() -> None:
    """A17: and the other way round, as an event would."""
    arranged = Arranged(2)
    run(arranged.writer.broadcast_emit("all"))
    arranged.emit((0, "one"))
    assert [view.backlog() for view in arranged.views] == [1, 1]
    arranged.emit((1, "other"))
    run(arranged.writer.broadcast_emit("all again"))
    assert [view.backlog() for view in arranged.views] == [2, 2]


def test_a_broadcast_that_one_reader_took_goes_on_for_the_other() -> None:
    arranged = Arranged(2)
    run(arranged.writer.broadcast_emit("first"))
    assert arranged.take(0) == ["first"]
    run(arranged.writer.broadcast_emit("second"))
    arranged.emit((1, "third"))
    run(arranged.writer.broadcast_emit("fourth"))
    arranged.writer.flush()
    assert arranged.take(0) == ["second", "fourth"]
    assert arranged.take(1) == ["first", "second", (1, "third"), "fourth"]


def test_a_long_broadcast_reaches_slow_and_fast_readers() -> None:
    arranged = Arranged(2, segments=3)
    emitting = Running(arranged.writer.broadcast_emit(sized(1_000)))
    assert [view.backlog() for view in arranged.views] == [3, 3], "its full buffers are offered"
    taken: list[list[Any]] = [[], []]
    while not emitting.done:
        for index in range(2):
            taken[index] += arranged.take(index, buffers=1)
        emitting.go_on()
    arranged.writer.flush()
    for index in range(2):
        assert taken[index] + arranged.take(index) == [sized(1_000)]


# -- flushing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [-1, 0, 5.0, "adaptive"])
def test_a_flush_lets_everything_out(timeout: Any) -> None:
    """V5: asked for by the user it works with every timeout."""
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


@pytest.mark.parametrize("last", [False, True], ids=["global", "its subclass"])
def test_a_partitioner_that_always_selects_the_first_is_not_asked(last: bool) -> None:
    class ToTheLast(GlobalPartitioner):
        def select(self, record: object) -> int:
            return self.channels - 1

    arranged = Arranged(2, partitioner=ToTheLast() if last else GlobalPartitioner())
    for number in range(40):
        arranged.emit(number)
    arranged.writer.flush()
    taken = [arranged.take(0), arranged.take(1)]
    assert taken == ([[], list(range(40))] if last else [list(range(40)), []])
    assert arranged.writer.records_out == 40


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
    """Row 4: per need, not per record, buffer or channel."""
    arranged = Arranged(2, timeout=timeout)
    for number in range(10):
        arranged.emit((number % 2, sized(30)))
    assert arranged.flusher.requests == [arranged.writer]
    arranged.writer.flush()
    assert [view.next_data_type().is_buffer for view in arranged.views] == [True, True]
    arranged.take(0)
    arranged.emit((0, "more"))
    assert arranged.flusher.requests == [arranged.writer] * 2


def test_what_the_flusher_is_told_is_bounded() -> None:
    """A reader that left: its records are dropped, and nothing is remembered of them."""
    arranged = Arranged(2, timeout=5.0)
    arranged.views[0].release()
    for number in range(1_000):
        arranged.emit((0, number))
    assert len(arranged.writer._appender.unflushed) <= 2


# -- readers that leave ----------------------------------------------------------------------------


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


def test_what_is_written_for_a_reader_that_left_is_dropped() -> None:
    """The others go on; and the writer still lets the loop run."""
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
    """C21: though the buffers that it waits for are still out."""
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


# -- the end ---------------------------------------------------------------------------------------


def finish_step_by_step(view: SubpartitionView, arranged: Arranged, index: int = 0) -> list[Any]:
    """Read to the end of data and acknowledge."""
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
    """It tells what is so: the end of data is sent once, and it waits for the same."""
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


# -- counting --------------------------------------------------------------------------------------


def test_records_are_counted_whenever_somebody_can_look() -> None:
    """Invariant I1: at every suspension, in the middle of many, too."""
    arranged = Arranged(segments=2)
    emitted = 0

    def records() -> Iterator[str]:
        nonlocal emitted
        for _ in range(100):
            yield sized(16)
            emitted += 1

    emitting = Running(arranged.writer.emit_many(records()), start=False)
    while not emitting.done:
        emitting.step()
        written = arranged.partition.statistics().subpartitions[0]
        bytes_written = written.queued_bytes + written.bytes_out
        assert arranged.writer.records_out == bytes_written // 16
        if emitting.waits_for is not None:
            arranged.take(buffers=1)
    assert arranged.writer.records_out == emitted == 100


def test_progress_changes_whenever_the_writer_gets_on() -> None:
    arranged = Arranged()
    seen = {arranged.writer.progress}
    for number in range(50):
        arranged.emit(number)
        assert arranged.writer.progress not in seen
        seen.add(arranged.writer.progress)


def test_a_partition_with_the_least_memory_serves_any_order() -> None:
    """L1: n + 1 buffers, unflushed records in all of them; one reader after the other suffices."""
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
