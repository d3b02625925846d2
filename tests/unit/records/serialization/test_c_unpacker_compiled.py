"""The compiled unpacker makes the same values as msgpack's, and refuses the same contents.

It may report another one of several faults: it finds first that an array or a map has no room.
"""

from __future__ import annotations

import gc
import struct
import sys
from contextlib import suppress
from itertools import islice, product
from mmap import mmap
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgpack import ExtraData, ExtType, StackError

from flinknet.compiled_modules import COMPILED
from flinknet.errors import RemoteProtocolError
from flinknet.records.serialization import c_unpacker
from flinknet.records.serialization.elements import INCOMPLETE
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.records.serialization.serializer import UNPACK_ERRORS, RecordUnpacker
from tests.traced_memory import traced_memory
from tests.unit.records.serialization.record_values import TYPES, VALUES, name_of
from tests.unit.records.serialization.unpacking import (
    BYTES_MAX,
    CHANGED,
    ELEMENTS_MAX,
    HEADS,
    KNOWN_EXTENSION,
    PACKED,
    assert_same_but_for_the_fault,
    flat,
    given_any_bytes,
    outcome,
    read_extension,
    unpack_in_c,
)

if not COMPILED:
    pytest.skip("nothing is compiled", allow_module_level=True)

CompiledUnpacker: Any = c_unpacker.CUnpacker
unpacker = CompiledUnpacker(BYTES_MAX, ELEMENTS_MAX, read_extension)
unpack = unpacker.unpack
pack = RecordPacker(RecordTypes(TYPES)).pack


def assert_same(content: bytes) -> None:
    assert_same_but_for_the_fault(unpack, content)


@given(content=PACKED)
def test_any_record(content: bytes) -> None:
    assert outcome(unpack, content) == outcome(unpack_in_c, content)


@given(content=CHANGED)
def test_a_record_that_is_cut_or_goes_on(content: bytes) -> None:
    assert_same(content)


@given_any_bytes
def test_any_bytes(content: bytes) -> None:
    assert_same(content)


@pytest.mark.parametrize("head", range(256))
def test_every_first_byte(head: int) -> None:
    """It may be followed by any bytes, or by none."""
    random = Random(head)
    for size in (*range(20), 300):
        for _ in range(5):
            assert_same(bytes((head,)) + random.randbytes(size))
        assert_same(bytes((head,)) + bytes(size))
        assert_same(b"\x81" + bytes((head,)) + bytes(size))


@pytest.mark.parametrize("value", VALUES, ids=name_of)
def test_every_kind_of_record_with_any_byte_missing_or_changed(value: Any) -> None:
    content = pack({"key": value, "another key": (value,)})
    random = Random(len(content))
    for place in range(len(content)):
        assert_same(content[:place])
        changed = bytearray(content)
        for octet in (*range(0x80, 0x100, 8), *random.randbytes(8), 0xC1, 0xDD, 0xDF):
            changed[place] = octet
            assert_same(bytes(changed))


@pytest.mark.parametrize("value", VALUES, ids=name_of)
def test_every_kind_of_record_with_the_types_that_are_known(value: Any) -> None:
    """A changed byte gives another record or one of the errors of unpacking, at any place."""
    known = RecordUnpacker(record_bytes_max=1 << 16, record_elements_max=1 << 10, types=TYPES)
    content = pack((value, {"key": value}))
    random = Random(len(content))
    for place in range(len(content)):
        memory = memoryview(bytearray(5) + content)
        for octet in random.randbytes(8):
            memory[5 + place] = octet
            with suppress(RemoteProtocolError, *UNPACK_ERRORS):
                (record,) = known.whole_records(memory, 5, len(memory), 1)
                assert repr(record)


@pytest.mark.parametrize("length", [0, 1, 7, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_lengths(length: int) -> None:
    numbers = list(range(length))
    for record in (
        "a" * length, "ä" * (length // 2), b"a" * length, ExtType(KNOWN_EXTENSION, bytes(length)),
        numbers, dict(zip(numbers, numbers, strict=True)), {"k" * length: 1}, {"ä" * 9: 1},
    ):  # fmt: skip
        content = msgpack.packb(record)
        assert unpack(content) == unpack_in_c(content)
        assert outcome(unpack, content[:-1]) == ("refused", True)


@pytest.mark.parametrize("seconds", [0, 2**32 - 1, 2**34 - 1, -62_135_596_800, 253_402_300_799])
@pytest.mark.parametrize(
    "nanoseconds", [0, 1, 999, 1_000, 999_999_999, 10**9, 2**30 - 1, 2**32 - 1]
)
def test_times(seconds: int, nanoseconds: int) -> None:
    for beyond in (-1, 0, 1, 2**40, -(2**40), 2**62, 86_400 * 2**32):
        assert_same(b"\xc7\x0c\xff" + struct.pack(">Iq", nanoseconds, seconds + beyond))
    bits = (nanoseconds << 34 | seconds & (2**34 - 1)) & (2**64 - 1)
    assert_same(b"\xd7\xff" + bits.to_bytes(8, "big"))
    assert_same(b"\xd6\xff" + (seconds & (2**32 - 1)).to_bytes(4, "big"))
    for size in range(20):
        assert_same(b"\xc7" + bytes((size, 0xFF)) + bytes(size))


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ("a" * 11, "str"),
        ({"a" * 11: 1}, "str"),
        (b"a" * 11, "bin"),
        (ExtType(KNOWN_EXTENSION, bytes(11)), "ext"),
        ([1] * 11, "array"),
        (dict.fromkeys(range(8)), "map"),
    ],
    ids=["str", "key", "bin", "ext", "array", "map"],
)
def test_records_over_a_limit_are_refused(record: Any, kind: str) -> None:
    """This includes keys that are known from other records, and values far inside."""
    unpack(msgpack.packb({"a" * 11: 1}))
    limited = CompiledUnpacker(10, 10, read_extension, 7)
    for levels in (0, 5, 500):
        content = b"\x91" * levels + msgpack.packb(record)
        with pytest.raises(ValueError, match=rf"exceeds max_{kind}_len\((10|7)\)"):
            limited.unpack(content)
        with pytest.raises(ValueError, match=rf"exceeds max_{kind}_len\((10|7)\)"):
            limited.records(content, 0, len(content), 1)
    with pytest.raises(ValueError, match=r"exceeds max_array_len\(10\)"):
        limited.records(bytes(11), 0, 11, 11)


@pytest.mark.parametrize("head", [b"\xdd\x00\x0f\xff\xff", b"\xdf\x00\x07\xff\xff"])
def test_claims_get_no_more_room_than_the_content_could_fill(head: bytes) -> None:
    """This holds for any number of nested claims."""
    generous = CompiledUnpacker(1 << 30, 1 << 30, read_extension)
    content = head * 1_000 + bytes(1 << 20)
    with traced_memory() as traced:
        with pytest.raises(ValueError, match=INCOMPLETE):
            generous.unpack(content)
        assert traced.peak < 10 * len(content)


@pytest.mark.parametrize(("before", "behind"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("levels", [98, 99, 100, 101, 102, 600, 1_022, 1_023])
def test_errors_deep_inside_a_record_are_refused(levels: int, before: bytes, behind: bytes) -> None:
    """Missing bytes, or an invalid first byte there, are refused."""
    content = before * levels + b"\x05" + behind * levels
    assert flat(unpack(content)) == flat(unpack_in_c(content))
    for at in (len(before) * levels, len(content) - 1, min(len(content) - 1, len(before) * 99 + 1)):
        assert outcome(unpack, content[:at]) == ("refused", True)
    wrong = before * levels + b"\xc1" + behind * levels
    assert outcome(unpack, wrong) == outcome(unpack_in_c, wrong)
    with pytest.raises(ExtraData):
        unpack(content + b"\x01")


@pytest.mark.parametrize(("before", "behind"), HEADS.values(), ids=HEADS)
def test_a_level_too_many_is_refused(before: bytes, behind: bytes) -> None:
    """The limit is msgpack's. The array around the records of a buffer counts as one level."""
    for innermost in (b"\x05", b"\x90", b"\x80"):
        for levels in (1_022, 1_023, 1_024, 1_025):
            content = before * levels + innermost + behind * levels
            expected = outcome_of_depth(unpack_in_c, b"\x91" + content)
            assert outcome_of_depth(unpack, b"\x91" + content) == expected
            with_room = bytes(5) + content
            assert outcome_of_depth(records_behind_room, with_room) == expected
    with pytest.raises(StackError):
        unpack(before * 60_000 + b"\x00" + behind * 60_000)


def records_behind_room(data: bytes) -> Any:
    """Unpack one record, as the only one in a buffer."""
    return unpacker.records(data, 5, len(data), 1)


def outcome_of_depth(unpack_value: Any, content: bytes) -> bool:
    """Return whether a value is not too deep."""
    try:
        unpack_value(content)
    except StackError:
        return False
    return True


def test_depth_does_not_depend_on_the_stack() -> None:
    def deeper(code: int, content: bytes) -> Any:
        return deep.unpack(content)

    deep = CompiledUnpacker(1 << 30, 1 << 30, deeper)
    content = b"\x05"
    for _ in range(16):
        content = b"\x81" * 1_000 + msgpack.packb(ExtType(KNOWN_EXTENSION, content))
        content += b"\x01" * 1_000
    with pytest.raises(TypeError, match="unhashable"):
        deep.unpack(content)


# -- memory ----------------------------------------------------------------------------------------


def test_any_memory_is_unpacked_and_let_go() -> None:
    content = b"\x92\xa2ab\xc4\x02cd"
    with mmap(-1, len(content)) as mapping:
        mapping[:] = content
        for memory in (content, bytearray(content), memoryview(content), mapping):
            assert unpack(memory) == ("ab", b"cd")
            assert unpacker.records(memory, 1, len(memory), 2) == ("ab", b"cd")
    memory = bytearray(content)
    for wrong in (b"\xc1" * 8, b"\x01" * 8, b"\x95" * 8):
        memory[:] = wrong
        with pytest.raises(UNPACK_ERRORS):
            unpack(memory)
        with pytest.raises(UNPACK_ERRORS):
            unpacker.records(memory, 0, 8, 3)
    memory.clear()  # a BufferError if the memory is still referenced


def test_memory_is_not_looked_at_later() -> None:
    memory = bytearray(b"\x92\xa2ab\xc4\x02cd\x81\xa1k\xa1v")
    values = unpacker.records(memory, 0, len(memory), 2)
    memory[:] = bytes(len(memory))
    assert values == (("ab", b"cd"), {"k": "v"})


def test_records_stand_where_they_are_said_to() -> None:
    content = b"\xc1\x01\xa1b\x90\xc1"
    assert unpacker.records(content, 1, 5, 3) == (1, "b", ())
    assert unpacker.records(content, 1, 1, 0) == ()
    for number in (4, 5, 1 << 40):
        with pytest.raises(ValueError, match=f"{INCOMPLETE}|exceeds"):
            unpacker.records(content, 1, 5, number)
    for number in (0, 1, 2):
        with pytest.raises(ExtraData):
            unpacker.records(content, 1, 5, number)
    for start, end in ((-1, 3), (3, 2), (0, 7), (7, 7), (sys.maxsize, 0), (0, sys.maxsize)):
        with pytest.raises(ValueError, match="cannot stand there"):
            unpacker.records(content, start, end, 1)
    with pytest.raises(ValueError, match="cannot stand there"):
        unpacker.records(content, 1, 5, -1)


def test_an_extension_that_is_unpacked_by_the_unpacker_at_work() -> None:
    def read(code: int, content: bytes) -> Any:
        return frozenset(unpacker.unpack(content))

    unpacker = CompiledUnpacker(100, 100, read)
    packed = msgpack.packb([1, ExtType(7, b"\x92\x01\xa1a"), {"k": ExtType(7, b"\x90")}, 2])
    assert unpacker.unpack(packed) == (1, frozenset({1, "a"}), {"k": frozenset()}, 2)
    with pytest.raises(ValueError, match=INCOMPLETE):
        unpacker.unpack(msgpack.packb([1, ExtType(7, b"\x92\x01")]))


def test_an_error_of_other_code_is_passed_on() -> None:
    def fail(code: int, content: bytes) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CompiledUnpacker(100, 100, fail).unpack(b"\x92\x01\xd4\x05\x00")


# -- keys ------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.dictionaries(st.text("abcdé", max_size=40) | st.binary(max_size=9), st.integers(0, 9)),
        max_size=9,
    )
)
def test_keys_of_any_length_however_often_they_come(maps: list[Any]) -> None:
    content = msgpack.packb(maps * 2)
    assert outcome(unpack, content) == outcome(unpack_in_c, content)


def test_more_keys_than_are_known() -> None:
    maps = [{f"{'k' * (number % 27)}{number}": number} for number in range(9_000)]
    content = msgpack.packb(maps)
    for _ in range(2):
        assert list(unpack(content)) == maps


def test_a_short_text_that_comes_again_is_one_object() -> None:
    """This holds for keys and values in all records: it is made and hashed once.

    Python does not intern a text that a peer chooses.
    """
    content = msgpack.packb({"short_text_of_a_peer": ["short_text_of_a_peer"]})
    texts: list[str] = []
    for _ in range(3):
        ((key, (value,)),) = unpack(content).items()
        texts += key, value
    assert all(text is texts[1] for text in texts[2:])
    assert sys.intern("short_text_of_a_peer") is not texts[1]


def test_texts_of_flat_records_that_come_again_are_one_object() -> None:
    content = b"".join(msgpack.packb((number, "a code of a peer")) for number in range(300, 400))
    records = unpacker.records(content, 0, len(content), 100)
    assert len({id(text) for _, text in records}) <= 2  # the first one is not known yet


def test_texts_that_come_once_are_not_kept() -> None:
    for number in range(20_000):
        (text,) = unpack(msgpack.packb([f"{number} once"]))
        assert sys.getrefcount(text) == 2


@pytest.mark.parametrize("alphabet", ["ab", "aé", "\x7f\x80", "\u07ff\u0800"])
def test_texts_that_share_a_place_are_told_apart(alphabet: str) -> None:
    """There are more texts than slots, of each length, one after the other and again."""
    texts = [
        "".join(letters)
        for size in range(33)
        for letters in islice(product(alphabet, repeat=size), 200)
    ]
    content = msgpack.packb(texts)
    for _ in range(3):
        assert list(unpack(content)) == texts
    for text in texts:
        again = msgpack.packb([text, text, text])
        assert unpack(again) == (text, text, text)


SHAPES = [
    ("a", "b"),
    ("a", "c"),
    ("a", "b", "c"),
    ("a", "b" * 8, "c" * 7),
    ("a", "b" * 8, "c" * 9),
    ("k" * 31, "l" * 31),
    ("k" * 31, "l" * 32),
    ("", "a"),
    ("a", "é"),
    ("a", 1),
    tuple(f"key {number}" for number in range(32)),
    tuple(f"key {number}" for number in range(33)),
]
SHAPED = st.recursive(
    st.integers(0, 300) | st.text(max_size=9),
    lambda inside: st.sampled_from(SHAPES).flatmap(
        lambda keys: st.fixed_dictionaries(dict.fromkeys(keys, inside))
    ),
    max_leaves=40,
)


@given(st.lists(SHAPED, max_size=6).map(lambda maps: [each for each in maps for _ in range(3)]))
def test_maps_with_the_keys_of_those_before(maps: list[Any]) -> None:
    """They keep their order."""
    content = msgpack.packb(maps)
    assert repr(unpack(content)) == repr(unpack_in_c(content))


@pytest.mark.parametrize("keys", SHAPES, ids=lambda keys: f"{len(keys)} of {keys[-1]!s:.9}")
def test_a_map_with_almost_the_keys_of_those_before(keys: tuple[Any, ...]) -> None:
    """Any one of its bytes is missing or changed."""
    content = msgpack.packb(dict.fromkeys(keys, 300))
    for place in range(len(content)):
        for _ in range(3):
            assert unpack(content) == dict.fromkeys(keys, 300)
        assert_same(content[:place])
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            assert_same(bytes(changed))


def test_a_key_that_comes_twice_in_each_of_several_maps() -> None:
    for _ in range(4):
        assert unpack(b"\x83\xa1a\x01\xa1b\x02\xa1a\x03") == {"a": 3, "b": 2}


def test_keys_that_are_known_are_held_against_the_limits() -> None:
    content = msgpack.packb({"short": 1, "a longer one": 2})
    for _ in range(3):
        unpack(content)
    for bytes_max, entries_max in ((11, 2), (4, 2), (12, 1)):
        strict = CompiledUnpacker(bytes_max, 9, read_extension, entries_max)
        with pytest.raises(ValueError, match="exceeds"):
            strict.unpack(content)
    assert len(CompiledUnpacker(12, 9, read_extension, 2).unpack(content)) == 2


def test_keys_that_others_take_the_place_of_while_a_map_is_made() -> None:
    """An object's content is unpacked by the same unpacker in the middle of the map."""
    keys = [f"{number:02}" for number in range(4)]
    others = [msgpack.packb({"00": 1, "01": 2, "02": 3, str(number): 4}) for number in range(300)]

    def read(code: int, content: bytes) -> Any:
        return sum(len(unpacker.unpack(other)) for other in others for _ in range(3))

    unpacker = CompiledUnpacker(1 << 10, 1 << 10, read)
    content = msgpack.packb({key: ExtType(7, b"") for key in keys})
    for _ in range(4):
        assert unpacker.unpack(content) == dict.fromkeys(keys, 3 * 4 * len(others))


def test_nothing_is_lost_and_nothing_is_freed_twice() -> None:
    """This holds for any refused content, at any place."""
    shared = object()
    unpacker = CompiledUnpacker(1 << 20, 1 << 20, lambda code, content: shared)
    values = [ExtType(1, b""), 1.5, 2**40, "text", b"b", None]
    packed = [msgpack.packb([{"key": values}] * 3)]
    packed.append(msgpack.packb([{"a": values, "b": ExtType(1, b""), "c": 2}] * 4))
    packed.append(b"\x91" * 500 + packed[0])
    gc.collect()
    before = sys.getrefcount(shared)
    nothing = sys.getrefcount(None)
    for content in packed:
        for end in range(len(content) + 1):
            for octet in (0xC1, 0x81, 0xD4):
                changed = content[:end] + bytes((octet,)) + content[end + 1 :]
                for wrong in (content[:end], changed):
                    with suppress(*UNPACK_ERRORS):
                        unpacker.unpack(wrong)
    gc.collect()
    assert sys.getrefcount(shared) == before
    assert abs(sys.getrefcount(None) - nothing) < 100
