"""Dropped records are filled again, and kept records do not change."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.compiled_modules import COMPILED
from flinknet.config import REUSED_RECORDS_BYTES, NetworkConfig
from flinknet.net.memory_bound import ExchangeShape, memory_bound
from flinknet.records.serialization import c_unpacker
from tests.traced_memory import traced_memory
from tests.unit.records.serialization.flat_records import FLAT, NUMBERS, OTHERS
from tests.unit.records.serialization.unpacking import read_extension

if not COMPILED:
    pytest.skip("nothing is compiled", allow_module_level=True)

Unpacker: Any = c_unpacker.CUnpacker
unpacker = Unpacker(1 << 16, 1 << 16, read_extension)

BATCHES = st.lists(
    st.lists(FLAT, max_size=4) | st.lists(NUMBERS, max_size=4) | st.lists(FLAT | OTHERS), max_size=9
)


def batch_of(records: Any) -> tuple[Any, ...]:
    content = b"".join(map(msgpack.packb, records))
    unpacked: tuple[Any, ...] = unpacker.records(content, 0, len(content), len(records))
    return unpacked


def drop(_: Any) -> None:
    """Keep nothing."""


def in_turn(batch: tuple[Any, ...]) -> list[Any]:
    return list(batch[::2])


def inner(batch: tuple[Any, ...]) -> list[Any]:
    """Return a value out of each record."""
    return [record[-1] if isinstance(record, tuple) and record else record for record in batch]


KEPT: list[Callable[[tuple[Any, ...]], Any]] = [drop, tuple, in_turn, inner]


@given(batches=BATCHES, data=st.data())
def test_retained_records_do_not_change(batches: list[list[Any]], data: st.DataObject) -> None:
    """Batches, some of their records or values out of them may be kept, for any time."""
    kept: list[tuple[Any, str]] = []
    for records in batches:
        batch = batch_of(records)
        assert repr(batch) == repr(tuple(records))
        some = data.draw(st.sampled_from(KEPT))(batch)
        kept.append((some, repr(some)))
        del batch, some
        if data.draw(st.booleans()):
            kept.pop(data.draw(st.integers(0, len(kept) - 1)))
        for value, before in kept:
            assert repr(value) == before


def rows(seed: int, number: int = 100) -> list[tuple[int, int, float]]:
    random = Random(seed)
    return [(random.getrandbits(20) + 300, -300 - seed, random.random()) for _ in range(number)]


reused = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="an int's layout is known up to CPython 3.13"
)


@reused
def test_a_batch_that_was_dropped_is_filled_again() -> None:
    """Its records and the numbers in them are filled again."""
    places = {id(part) for record in batch_of(rows(1)) for part in (record, *record)}
    again = batch_of(rows(2))
    assert again == tuple(rows(2))
    assert {id(part) for record in again for part in (record, *record)} == places


@reused
def test_a_reader_that_holds_the_last_batch_fills_the_one_before() -> None:
    """The loop ``async for batch in reader.batches()`` does so."""
    batch = batch_of(rows(1))
    first = {id(record) for record in batch}
    batch = batch_of(rows(2))
    batch = batch_of(rows(3))
    assert {id(record) for record in batch} == first
    assert batch == tuple(rows(3))


@reused
def test_batches_of_records_of_another_length_do_not_drive_each_other_out() -> None:
    """Two gates of a worker may have different records."""
    pairs = [(number, 1.5) for number in range(1_000, 1_100)]
    ids = {id(record) for record in batch_of(rows(1))}
    batch_of(pairs)
    assert {id(record) for record in batch_of(rows(2))} == ids


def test_small_numbers_and_short_text_are_the_ones_that_all_have() -> None:
    for _ in range(3):
        for values in ((5, -5, 256, 0), ("", chr(97))):
            (record,) = batch_of([(*values, None, True)])
            for value, one in zip(record, (*values, None, True), strict=True):
                assert value is one


@pytest.mark.parametrize("bits", range(1, 65))
@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_takes_the_place_of_any_other(bits: int, sign: int) -> None:
    """It may have fewer or more digits or another sign, and it works like a new number."""
    new = sign * (2**bits - 1) if sign > 0 or bits < 64 else -(2**63)
    for old_bits in range(1, 65):
        for old in (2**old_bits - 1, -(2 ** (old_bits - 1)), 0.5, None, "text"):
            batch_of([(old,)])
            ((number,),) = batch_of([(new,)])
            assert number == new
            assert hash(number) == hash(new)
            assert (number + 1, -number, number * number) == (new + 1, -new, new * new)
            assert str(number) == str(new)


def test_the_garbage_collector_has_nothing_to_do_with_flat_records() -> None:
    batch = batch_of([*rows(1), (1, ("nested", 1.5))])
    assert not any(map(gc.is_tracked, batch))
    assert not gc.is_tracked(batch[-1][1])
    assert gc.is_tracked(batch_of([(1, {"a": [{}]})])[0])


def test_no_more_is_kept_than_two_batches_of_each_length() -> None:
    with traced_memory() as traced:
        one = batch_of(rows(1, 2_000))
        size = traced.peak
        kept = [batch_of(rows(seed, 2_000)) for seed in range(10)]
        del one, kept
        gc.collect()
        before = traced.now
        for seed in range(30):
            batch_of(rows(seed, 2_000))
        assert traced.now <= before + size
        assert before <= 3 * size


def unpack_two(record: bytes, size: int) -> None:
    """Unpack two batches of that record, with ``size`` bytes each, held at the same time."""
    number = size // len(record)
    any_size = Unpacker(1 << 20, 1 << 20, read_extension)
    both = [any_size.records(record * number, 0, len(record) * number, number) for _ in range(2)]
    assert len(both[0]) == number


LARGEST = [b"\x91\x91\x91\x91\x05", b"\x91\xa2ab", b"\x91\xcd\x10\x00", b"\xcd\x10\x00"]
"""The records that take the most memory for their bytes."""


def kept_after(lengths: Iterable[int], size: int) -> list[int]:
    """Return the memory kept after batches of records of these lengths, and after each of the
    largest."""
    kept = []
    with traced_memory() as traced:
        for length in lengths:
            unpack_two(bytes([0x90 + length]) + b"\xcd\x10\x00" * length, size)
        for record in LARGEST:
            unpack_two(record, size)
            gc.collect()
            kept.append(traced.now)
    return kept


@pytest.mark.parametrize("size", [20_000, 100_000, REUSED_RECORDS_BYTES // 2])
def test_retained_records_of_all_lengths_stay_within_the_bound(size: int) -> None:
    """This holds for any number of lengths."""
    bound = memory_bound(
        NetworkConfig(), ExchangeShape(0, 0, 0, 1, 0, 0, readers=1, keyed_partitions=0)
    ).records_reused
    kept = kept_after(range(1, 16), size)
    assert size < max(kept) <= bound


def test_nothing_is_kept_of_a_batch_that_is_larger_than_all_that_may_be() -> None:
    size = REUSED_RECORDS_BYTES + 64
    assert max(kept_after((), size)) < size // 100


@pytest.mark.parametrize(
    "content", [b"\x93\x01\x02", b"\x92\x01\xc1", b"\xce\x00", b"\x93\xcb\x00"]
)
def test_an_invalid_record_leaves_nothing_behind(content: bytes) -> None:
    """This also holds in the middle of a batch. The next batch is read correctly."""
    good = b"".join(map(msgpack.packb, rows(1)))
    for _ in range(3):
        with pytest.raises((ValueError, msgpack.UnpackException)):
            unpacker.records(good + content, 0, len(good) + len(content), 101)
        assert batch_of(rows(2)) == tuple(rows(2))
