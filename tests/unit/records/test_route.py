from __future__ import annotations

from collections.abc import Iterator

import msgpack
import pytest

from flinknet.errors import SerializationError
from flinknet.records.partitioner import GlobalPartitioner, HashPartitioner, RebalancePartitioner
from tests.naming import spelled
from tests.unit.arrangements import Running, run
from tests.unit.records.writing import Arranged, sized


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
