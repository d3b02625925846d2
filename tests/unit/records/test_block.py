from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import accumulate, count, islice
from random import Random
from typing import Any

import msgpack
import pytest

from flinknet.errors import SerializationError
from flinknet.records.block import BlockPacker, chunks, record_ends
from flinknet.records.partitioner import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.records.serialization.extension_types import NESTING_MAX
from flinknet.records.serialization.packer import RecordPacker
from tests.unit.arrangements import Running, run
from tests.unit.records.writing import EMITTING_MANY, Arranged, sized

ROOM = 1 << 20


@pytest.mark.parametrize("number", [1, 15, 16, 128])
def test_a_block_is_what_its_records_are_one_by_one(number: int) -> None:
    """This holds for any length of the array's header."""
    records = [(number, "text", [None]) for number in range(number)]
    block = BlockPacker(RecordPacker().pack, ROOM).pack(records)
    assert bytes(block) == b"".join(map(msgpack.packb, records))


def test_the_number_of_records_follows_their_size() -> None:
    blocks = BlockPacker(RecordPacker().pack, ROOM)
    assert not blocks.worthwhile
    assert blocks.records_in_block() == 0
    blocks.observe(100)
    assert blocks.worthwhile
    assert blocks.records_in_block() == 81
    blocks.observe(10)
    assert blocks.records_in_block() == 128
    blocks.pack([sized(100)] * 10 + [sized(900)] * 10)
    assert blocks.records_in_block() == 16
    blocks.observe(2_049)
    assert not blocks.worthwhile


def test_a_block_is_not_larger_than_a_record_may_be() -> None:
    """Therefore no record in it is larger either."""
    blocks = BlockPacker(RecordPacker().pack, 200)
    blocks.observe(10)
    assert blocks.records_in_block() == 20


def test_a_block_is_cut_between_records() -> None:
    """The records may have any content."""
    records = [0, (1, [2.5, None]), {"key": b"x" * 300}, "text" * 20, {1: {2: 3}}, ()]
    packed = [RecordPacker().pack(record) for record in records]
    assert record_ends(memoryview(b"".join(packed))) == list(accumulate(map(len, packed)))


def test_records_are_cut_into_lists() -> None:
    numbers = list(range(2_000))
    assert [number for chunk in chunks(iter(numbers)) for number in chunk] == numbers
    assert all(0 < len(chunk) <= 512 for chunk in chunks(numbers))
    assert next(chunks(count())) == list(range(512))
    assert list(chunks([])) == []
    assert list(chunks(numbers)) == list(chunks(iter(numbers)))


def test_records_before_an_error_come_first() -> None:
    def failing() -> Iterator[int]:
        yield from range(3)
        raise OSError("of the iterable")

    found = chunks(failing())
    assert next(found) == [0, 1, 2]
    with pytest.raises(OSError, match="of the iterable"):
        next(found)


# -- blocks in a writer ----------------------------------------------------------------------------

MAKERS: dict[str, Callable[[], Partitioner]] = {
    "custom": lambda: CustomPartitioner(lambda key, n: key % n, lambda record: record[0] // 7),
    "global": GlobalPartitioner,
    "hash": lambda: HashPartitioner(lambda record: record[0] % 11),
    "rebalance": RebalancePartitioner,
}


def mixed(random: Random) -> Iterator[tuple[int, str]]:
    """Return records that are small for a while, then large, then small again."""
    number = 0
    while True:
        size = random.choice([0, 3, 3, 20, 100, 400])
        for _ in range(random.randrange(1, 300)):
            yield number, "x" * (size + random.randrange(3))
            number += 1


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("way", MAKERS)
def test_blocks_arrive_as_records_do(emit_many: Any, way: str, seed: int) -> None:
    """Each goes to its chosen channel, in order and with any size."""
    channels = 3
    records = list(islice(mixed(Random(seed)), 2_500))
    chooser = MAKERS[way]()
    chooser.setup(channels)
    expected: list[list[Any]] = [[] for _ in range(channels)]
    for record in records:
        expected[chooser.select(record)].append(record)
    arranged = Arranged(channels, partitioner=MAKERS[way](), segment_bytes=512)
    emitting = Running(emit_many(arranged.writer, records))
    taken: list[list[Any]] = [[] for _ in range(channels)]
    while not emitting.done:
        for index in range(channels):
            taken[index] += arranged.take(index)
        emitting.go_on()
    arranged.writer.flush()
    for index in range(channels):
        taken[index] += arranged.take(index)
    assert taken == expected
    assert arranged.writer.records_out == len(records)
    arranged.close()


def test_broadcast_blocks_reach_every_channel() -> None:
    """Q1: they are serialized once."""
    arranged = Arranged(2, segment_bytes=512)
    records = list(islice(mixed(Random(1)), 300))
    for record in records[:5]:
        run(arranged.writer.broadcast_emit(record))
    arranged.writer.flush()
    assert arranged.take(0) == arranged.take(1) == records[:5]
    arranged.close()


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("partitioner", [ForwardPartitioner, BroadcastPartitioner])
@pytest.mark.parametrize("segment_bytes", [4_096, 90_000])
def test_a_list_whose_records_change_in_size_is_written_in_order(
    emit_many: Any, partitioner: Callable[[], Partitioner], segment_bytes: int
) -> None:
    """Many are small, many large, and both by turns; one list follows the other."""
    small, large = list(range(300)), [b"x" * 20_000, b"y" * 17_000] * 40
    mixed = [each for pair in zip(small, large, strict=False) for each in pair]
    arranged = Arranged(partitioner=partitioner(), segment_bytes=segment_bytes)
    for records in (small, large, mixed, small, []):
        emitting = Running(emit_many(arranged.writer, records))
        taken: list[Any] = []
        while not emitting.done:
            taken += arranged.take()
            emitting.go_on()
        arranged.writer.flush()
        assert taken + arranged.take() == records
    arranged.close()


def depth_of(value: Any) -> int:
    """Return the depth of nested arrays."""
    depth = 0
    while isinstance(value, tuple):
        (value,) = value
        depth += 1
    return depth


@pytest.mark.parametrize("levels", [250, 255, 256, NESTING_MAX - 1, NESTING_MAX, NESTING_MAX + 1])
def test_a_record_is_as_deep_in_a_block_as_alone(levels: int) -> None:
    """The writer refuses the records that the reader refuses, with the same limit, wherever the
    record is."""
    deep: Any = 0
    for _ in range(levels):
        deep = [deep]
    writes = {
        "in a block": lambda writer: writer.emit_many([1] * 8 + [deep] + [2] * 8),
        "alone": lambda writer: writer.emit(deep),
        "to all": lambda writer: writer.broadcast_emit(deep),
    }
    for way, write in writes.items():
        arranged = Arranged(segment_bytes=4_096)
        with (
            pytest.raises(SerializationError, match=f"nested more than {NESTING_MAX} levels deep")
            if (levels > NESTING_MAX)
            else nullcontext()
        ):
            run(write(arranged.writer))
        arranged.writer.flush()
        arrived = list(map(depth_of, arranged.take()))
        before, behind = ([0] * 8, [0] * 8) if way == "in a block" else ([], [])
        assert arrived == (before if levels > NESTING_MAX else [*before, levels, *behind])
        arranged.close()


def test_a_bad_record_in_a_block_ends_it() -> None:
    """The records before it in its channel are written, the records behind it are not."""
    arranged = Arranged(segment_bytes=4_096)
    with pytest.raises(Exception, match="a record of type object cannot be serialised"):
        run(arranged.writer.emit_many([*range(600), object(), 7]))
    arranged.writer.flush()
    assert arranged.take() == list(range(600))
    assert arranged.writer.records_out == 600
    arranged.close()
