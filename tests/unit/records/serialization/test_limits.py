from __future__ import annotations

import msgpack
import pyarrow as pa
import pytest

from flinknet.errors import SerializationError
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.limits import RecordLimits
from tests.unit.arrangements import run
from tests.unit.records.writing import Arranged, sized


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
    """The reader would refuse it.

    The elements of all arrays and maps count together, and only in long records.
    """
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


def test_records_up_to_that_length_need_no_check() -> None:
    """The smallest of the three limits decides; keys count in long records only."""
    assert RecordLimits(1_000, 100).unchecked_bytes == 100
    assert RecordLimits(50, 100).unchecked_bytes == 50
    assert RecordLimits(1 << 30, 1 << 30).unchecked_bytes == COUNTED_FROM_BYTES


def test_a_large_record_is_held_against_its_bytes_alone() -> None:
    """It has a head, and no elements."""
    limits = RecordLimits(20, 5)
    limits.check(b"\x90" * 15, b"heads")
    with pytest.raises(SerializationError, match=r"has 21 bytes .* limit is 20 \(record_bytes_max"):
        limits.check(b"\x90" * 16, b"heads")


def test_a_long_record_is_checked_even_if_it_fits_a_buffer() -> None:
    """A buffer may be longer than the records in which keys are not counted."""
    limits = RecordLimits(1 << 20, 10)
    limits.check_long(b"\xc0" * COUNTED_FROM_BYTES)
    with pytest.raises(SerializationError, match="record_elements_max"):
        limits.check_long(msgpack.packb([None] * COUNTED_FROM_BYTES))


def test_records_other_than_batches_may_be_cut_at_any_size() -> None:
    """The component that cuts it reports its error."""
    RecordLimits(1, 1).check_uncut(b"long")


def test_a_batch_that_is_to_be_cut_is_held_against_the_limit_first() -> None:
    batch = pa.record_batch({"number": pa.array(range(100), pa.int64())})
    RecordLimits(10_000, 1).check_uncut(batch)
    with pytest.raises(SerializationError, match="to split has 944 bytes; the limit is 100"):
        RecordLimits(100, 1).check_uncut(batch)


def test_a_long_record_of_few_elements_is_not_counted() -> None:
    RecordLimits(1 << 20, 1 << 20).check(b"\xc4\x05hello")
