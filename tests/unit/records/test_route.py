from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import msgpack
import pytest

from flinknet.errors import SerializationError
from flinknet.records.partitioner import (
    AdaptiveRebalancePartitioner,
    BroadcastPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.records.written import WRITTEN
from tests.naming import spelled
from tests.unit.arrangements import Running, run
from tests.unit.records.writing import EMITTING_MANY, Arranged, Halving, sized


def test_records_arrive_in_order() -> None:
    arranged = Arranged()
    records = [None, True, -5, 2.5, "text", b"bytes", (1, (2,)), {"key": (1,)}]
    arranged.emit(*records)
    arranged.writer.flush()
    assert arranged.take() == records
    assert arranged.writer.records_out == len(records)
    assert arranged.writer.bytes_out == sum(len(msgpack.packb(record)) for record in records)


def test_a_partitioner_chooses_the_subpartition() -> None:
    arranged = Arranged(3, partitioner=RebalancePartitioner())
    arranged.emit(*range(7))
    run(arranged.writer.emit_many(range(7, 9)))
    arranged.writer.flush()
    assert [arranged.take(index) for index in range(3)] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    counts = arranged.partition.statistics().subpartitions
    assert [part.bytes_out for part in counts] == [3, 3, 3]
    assert arranged.writer.bytes_out == 9


NO_RECORDS = [range(1), object(), 2**64, [1, {2j}], "\ud800", memoryview(b"abcd")[::2]]


@pytest.mark.parametrize("record", NO_RECORDS, ids=spelled)
@pytest.mark.parametrize("way", ["emit", "emit_many", "broadcast_emit"])
def test_a_record_that_cannot_be_serialised_is_not_written(record: object, way: str) -> None:
    """No part of it is written. The records before and behind it are."""
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
    """It is the user's error, not that of a record."""
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


def test_a_value_that_cannot_be_iterated_passes_unchanged() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        run(Arranged().writer.emit_many(5))  # type: ignore[arg-type]


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("error_type", [TypeError, ValueError, KeyError])
@pytest.mark.parametrize("many", [True, False])
def test_an_error_of_the_partitioner_passes_unchanged(
    emit_many: Any, error_type: type[Exception], many: bool
) -> None:
    error = error_type("in the user's key function")

    def key(record: object) -> object:
        raise error

    arranged = Arranged(2, partitioner=HashPartitioner(key))
    with pytest.raises(error_type) as raised:
        run(emit_many(arranged.writer, ["x"]) if many else arranged.writer.emit("x"))
    assert raised.value is error
    assert arranged.writer.records_out == 0


def test_an_iteration_that_ends_in_the_partitioner_is_an_error() -> None:
    """The caller that awaits ``emit`` gets the error."""
    arranged = Arranged(2, partitioner=HashPartitioner(lambda record: next(iter(record))))

    async def emit() -> None:
        await arranged.writer.emit(())

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        run(emit())
    assert arranged.writer.records_out == 0


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


def test_records_are_counted_at_every_suspension() -> None:
    """Invariant I1: this holds at every suspension, in the middle of many records, too."""
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


# -- one by one, in blocks, and in two pieces ------------------------------------------------------

TO_ONE: list[Callable[[], Partitioner]] = [ForwardPartitioner, BroadcastPartitioner]
EVERY_WAY = [*TO_ONE, RebalancePartitioner, AdaptiveRebalancePartitioner]


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("make_partitioner", EVERY_WAY, ids=spelled)
@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize("segment_bytes", [2_000, 100_000])
def test_each_way_writes_any_record(
    emit_many: Any, make_partitioner: Callable[[], Partitioner], many: bool, segment_bytes: int
) -> None:
    """Small ones are packed many at once, others need msgpack's other packer, and large ones are
    not packed. They come in any order."""
    kinds: list[list[Any]] = [[*range(300)], [{1: "one"}, "between"], [b"x" * 20_000] * 5]
    records = [record for kind in (*kinds, *kinds[::-1]) for record in kind]
    arranged = Arranged(
        1,
        partitioner=make_partitioner(),
        segment_bytes=segment_bytes,
        segments=200,
        floating_buffers_per_gate=150,
        buffers_per_subpartition_max=150,
    )
    if many:
        run(emit_many(arranged.writer, records))
    else:
        arranged.emit(*records)
    arranged.writer.flush()
    assert arranged.take() == records
    assert arranged.writer.records_out == len(records)
    arranged.close()


def test_packed_records_are_written_in_pieces_of_64_kib() -> None:
    records = [(number % 2, "x" * 1000) for number in range(200)]
    arranged = Arranged(2, segment_bytes=1 << 15)
    writes = list(arranged.writer.pack(records))
    assert len(writes) > 2
    assert all(packed.bytes <= (1 << 16) + 1100 for packed in writes)
    for packed in writes:
        run(packed.write())
    arranged.writer.flush()
    for index in (0, 1):
        assert arranged.take(index) == [record for record in records if record[0] == index]
    arranged.close()


@pytest.mark.parametrize("make_partitioner", EVERY_WAY, ids=spelled)
def test_records_that_fit_are_written_by_the_call(
    make_partitioner: Callable[[], Partitioner],
) -> None:
    """This includes large records. Only a record that needs a buffer has to be awaited."""
    arranged = Arranged(partitioner=make_partitioner(), segment_bytes=100_000)
    arranged.emit(b"x" * 99_000, b"y" * 20_000)
    for record in ("small", b"z" * 20_000):
        assert arranged.writer.emit(record) is WRITTEN
    arranged.writer.flush()
    assert arranged.take()[2:] == ["small", b"z" * 20_000]
    assert arranged.writer.records_out == 4


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("many", [True, False])
def test_blocks_are_as_large_as_what_is_left_of_a_buffer(emit_many: Any, many: bool) -> None:
    """This also holds if records grow, and in the shares of many channels of which few have many
    records."""
    arranged = Arranged(
        4,
        partitioner=HashPartitioner(lambda record: record % 7),
        segment_bytes=500,
        segments=200,
        floating_buffers_per_gate=100,
        buffers_per_subpartition_max=100,
    )
    records = [*range(1_000), *range(1 << 40, (1 << 40) + 1_000)]
    run(emit_many(arranged.writer, records if many else iter(records)))
    arranged.writer.flush()
    taken = [arranged.take(index) for index in range(4)]
    select = arranged.writer.partitioner.select
    assert taken == [[each for each in records if select(each) == index] for index in range(4)]


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("many", [True, False])
def test_the_parts_of_a_record_are_records_of_their_own(emit_many: Any, many: bool) -> None:
    """Each goes to its own output and counts; a large one is not packed."""
    arranged = Arranged(
        2,
        partitioner=Halving(),
        segments=80,
        segment_bytes=2_000,
        floating_buffers_per_gate=60,
        buffers_per_subpartition_max=60,
    )
    pairs = [(1, "one"), (b"x" * 20_000, {2: b"y"}), ("last", None)]
    if many:
        run(emit_many(arranged.writer, iter(pairs)))
    else:
        arranged.emit(*pairs)
    arranged.writer.flush()
    assert [arranged.take(index) for index in range(2)] == [
        [*part] for part in zip(*pairs, strict=True)
    ]
    assert arranged.writer.records_out == 6


def test_no_part_is_written_if_one_cannot_be() -> None:
    arranged = Arranged(2, partitioner=Halving(), record_bytes_max=100)
    for pair in (("fits", object()), ("fits", "x" * 100)):
        with pytest.raises(SerializationError):
            run(arranged.writer.emit(pair))
    arranged.writer.flush()
    assert [arranged.take(index) for index in range(2)] == [[], []]


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("make_partitioner", EVERY_WAY, ids=spelled)
def test_large_records_alone_are_written_as_they_are(
    emit_many: Any,
    make_partitioner: Callable[[], Partitioner],
) -> None:
    arranged = Arranged(partitioner=make_partitioner(), segment_bytes=60_000)
    run(emit_many(arranged.writer, [b"x" * 20_000] * 5))
    arranged.writer.flush()
    assert arranged.take() == [b"x" * 20_000] * 5


@pytest.mark.parametrize("make_partitioner", TO_ONE, ids=spelled)
def test_all_before_a_record_that_cannot_be_serialised_are_written(
    make_partitioner: Callable[[], Partitioner],
) -> None:
    """This holds although a block is packed with one call, including that record."""
    arranged = Arranged(partitioner=make_partitioner(), segment_bytes=2_000)
    with pytest.raises(SerializationError, match="type object"):
        run(arranged.writer.emit_many([*range(100), object(), 0]))
    arranged.writer.flush()
    assert arranged.take() == [*range(100)]
    assert arranged.writer.records_out == 100


@pytest.mark.parametrize("partitioner", [RebalancePartitioner, partial(HashPartitioner, abs)])
@pytest.mark.parametrize("way", ["emit", "emit_many"])
@pytest.mark.parametrize(("channels", "between_turns"), [(2, 4_096), (16, 8_192)])
def test_the_loop_turns_though_no_builder_is_full(
    way: str, partitioner: Callable[[], Partitioner], channels: int, between_turns: int
) -> None:
    """The loop turns after 4,096 records, or with many channels after 512 for each.

    Other work, such as a due flush, would otherwise wait for a buffer of records for each channel.
    """
    arranged = Arranged(
        channels, partitioner=partitioner(), segments=channels + 1, segment_bytes=1 << 17
    )
    arranged.emit(*range(100))
    assert arranged.writer.buffers_opened == channels
    records = range(4 * between_turns)
    turned_at = [arranged.writer.records_out]
    for call in (
        map(arranged.writer.emit, records)
        if way == "emit"
        else [arranged.writer.emit_many(list(records))]
    ):
        emitting = Running(call, start=False)
        emitting.step()
        while not emitting.done:
            assert emitting.waits_for is None
            turned_at.append(arranged.writer.records_out)
            emitting.step()
    assert arranged.writer.buffers_opened == channels
    distances = [after - before for before, after in pairwise(turned_at)]
    assert len(distances) in (3, 4)
    assert max(distances) <= between_turns + 512
    assert min(distances[1:]) >= between_turns
    arranged.close()
