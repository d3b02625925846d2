"""Keys that could collide: their number in a record is limited, for the reader and the writer
alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import RECORD_KEYS_MAX, NetworkConfig
from flinknet.errors import SerializationError
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES, FEW_KEYS, check_keys
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import RecordUnpacker
from flinknet.records.writer import RecordWriter
from tests.unit.arrangements import Flusher, make_partition, run, wait

PADDING = "x" * COUNTED_FROM_BYTES
PRIME = 2**61 - 1
unpacker = RecordUnpacker(record_bytes_max=1 << 22, record_elements_max=1 << 20)
pack = RecordPacker().pack


def numbers(count: int) -> dict[int, None]:
    """Return keys with colliding hashes, as Python's hash of an integer is its residue."""
    return {PRIME * (number % 8) + number // 8: None for number in range(count)}


def refused_by_reader(packed: bytes) -> bool:
    return why_refused(lambda: unpacker.record(packed)).endswith(f"more than {RECORD_KEYS_MAX}")


def refused_by_writer(packed: bytes) -> bool:
    return "(record_keys_max)" in why_refused(lambda: RecordLimits(1 << 22, 1 << 20).check(packed))


def why_refused(call: Callable[[], object]) -> str:
    try:
        call()
    except (ValueError, SerializationError) as error:
        return str(error)
    return ""


LONG: dict[str, tuple[Any, bool]] = {
    "colliding numbers": (numbers(20_000), True),
    "as many as there may be": ([numbers(RECORD_KEYS_MAX), PADDING], False),
    "one more": ([numbers(RECORD_KEYS_MAX + 1), PADDING], True),
    "together": ([numbers(3_000), [{"a": numbers(3_000)}]], True),
    "small maps": ([numbers(FEW_KEYS)] * 2_000, False),
    "maps that are no longer small": ([numbers(FEW_KEYS + 1)] * 2_000, True),
    "text": ({str(number): 0 for number in range(20_000)}, False),
    "bytes": ({bytes(str(number), "ascii"): 0 for number in range(20_000)}, False),
    "text, and a few numbers": ({str(n): 0 for n in range(20_000)} | numbers(FEW_KEYS), False),
    "text and numbers": ({str(n): 0 for n in range(20_000)} | numbers(5_000), True),
    "tuples": ({(number, None): 0 for number in range(9_000)}, True),
    "floats": ({number + 0.5: 0 for number in range(5_000)}, True),
    "a set": (set(range(20_000)), True),
    "a frozenset in a set": ({frozenset(range(20_000))}, True),
    "a frozenset as a key": ({frozenset(range(20_000)): 0}, True),
    "a set of text": ({str(number) for number in range(20_000)}, False),
    "numbers in a list": (list(range(50_000)), False),
    "floats in a list": ([number / 7 for number in range(50_000)], False),
}


@pytest.mark.parametrize(("record", "refused"), LONG.values(), ids=LONG)
def test_keys_that_could_collide_are_counted_over_a_long_record(record: Any, refused: bool) -> None:
    """The reader and the writer refuse the same records."""
    packed = pack(record)
    assert len(packed) > COUNTED_FROM_BYTES
    assert (refused_by_reader(packed), refused_by_writer(packed)) == (refused, refused)
    if not refused:
        assert len(unpacker.record(packed)) == len(record)


def test_a_short_record_is_not_counted() -> None:
    """It has no room for enough of them."""
    packed = pack(numbers(6_000))
    short = pack(dict.fromkeys(range(6_000)))
    assert len(short) <= COUNTED_FROM_BYTES < len(packed)
    assert not refused_by_reader(short)
    assert not refused_by_writer(short)
    assert refused_by_reader(packed)


def test_the_limit_can_be_raised() -> None:
    packed = pack(numbers(20_000))
    config = NetworkConfig(record_keys_max=20_000)
    assert len(RecordUnpacker.of(config).record(packed)) == 20_000
    RecordLimits(1 << 22, 1 << 20, 20_000).check(packed)


def test_each_record_of_a_large_buffer_is_counted_alone() -> None:
    """The segments are longer than the records that are not counted."""
    for counted, refused in (([numbers(3_000)] * 20, False), ([[numbers(5_000), PADDING]], True)):
        records = ["first", *counted, "last"]
        data = bytearray(5) + b"".join(map(pack, records))
        try:
            came = unpacker.whole_records(memoryview(data), 5, len(data), len(records))
        except ValueError:
            assert refused
        else:
            assert not refused
            assert len(came) == len(records)


@pytest.mark.parametrize("segment_bytes", [1 << 10, 1 << 20])
@pytest.mark.parametrize("way", ["emit", "emit_many", "broadcast_emit"])
def test_a_record_with_too_many_such_keys_is_not_written(way: str, segment_bytes: int) -> None:
    """This holds for records that fit a buffer and others. Other records beside it are written."""
    partition: ResultPartition = make_partition(1, segment_bytes=segment_bytes, segments=8)[0]
    writer = RecordWriter(
        partition,
        None,
        wait=wait,
        flusher=Flusher(),
        buffer_timeout_ms=-1,
        record_bytes_max=1 << 22,
        record_elements_max=1 << 20,
    )
    run(writer.emit("before"))
    record = numbers(20_000)
    emitting = {
        "emit": lambda: writer.emit(record),
        "emit_many": lambda: writer.emit_many(["with it", record]),
        "broadcast_emit": lambda: writer.broadcast_emit(record),
    }[way]
    with pytest.raises(SerializationError, match=r"20000 keys .* \(record_keys_max\)"):
        run(emitting())
    assert writer.records_out == (2 if way == "emit_many" else 1)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_record_do_no_harm(data: bytes) -> None:
    """The unpacker reports the error."""
    check_keys(data + msgpack.packb(PADDING) + b"\xde", 10)
    check_keys(msgpack.packb(PADDING) + b"\xde" + data, 10, records=True)
