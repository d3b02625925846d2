"""Packing records in Python, for an interpreter that compiles it.

The bytes are those of ``c_packer.py``, which CPython packs with: the form of every number is the
shortest, that of a float has eight bytes. The tests pack every kind of record with both.

Theory of operation. A compiler that follows a loop takes the functions called in it along, unless
they have loops of their own. So ``pack`` has none: short arrays are written out, and the elements
of all else are packed by functions that do nothing but loop over them. A tuple of three numbers
takes 20 ns that way, 70 ns with a loop over its elements. Arrays and maps that are far inside
others are packed without calls, so that the depth of a record does not depend on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Any

from flinknet.records.serialization.extension_types import NESTING_MAX
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.records.serialization.value_forms import ValueForms

__all__ = ["PythonPacker"]

_BYTES = [bytes((value,)) for value in range(256)]
_UINT8, _UINT16, _UINT32, _UINT64 = Struct(">BB"), Struct(">BH"), Struct(">BI"), Struct(">BQ")
_INT8, _INT16, _INT32, _INT64 = Struct(">Bb"), Struct(">Bh"), Struct(">Bi"), Struct(">Bq")
_DOUBLE, _DOUBLE_BITS = Struct("=d"), Struct("=q")
_DEPTH_OF_CALLS = 100
"""Arrays and maps in one another that take a call each."""

_TOO_DEEP = f"arrays and maps are nested more than {NESTING_MAX} levels deep"

Form = Callable[[Any], Any]
"""See ``ValueForms``."""


class _Packed:
    """Bytes that stand in the place of a value."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class PythonPacker:
    """Packs records, and what stands in them."""

    def __init__(self, types: RecordTypes) -> None:
        self._form = ValueForms(types, self.pack).made_with(_extension)

    def pack(self, value: Any) -> bytes:
        """Return the bytes of a value; raises whatever says that there are none."""
        return _pack(value, 0, self._form)


def _pack(value: Any, depth: int, form: Form) -> bytes:
    kind = type(value)
    if kind is int:
        return _integer(value)
    if kind is float:
        # Compiled, a number's bytes are only reversed as an integer's.
        return _INT64.pack(0xCB, _DOUBLE_BITS.unpack(_DOUBLE.pack(value))[0])
    if kind is str:
        return _text(value)
    if kind is tuple or kind is list:
        return _array(value, depth + 1, form)
    if kind is dict:
        return _map(value, depth + 1, form)
    if value is None:
        return b"\xc0"
    if kind is bool:
        return b"\xc3" if value else b"\xc2"
    if kind is bytes:
        return _binary(value)
    return _other(value, depth, form)


def _array(values: Sequence[Any], depth: int, form: Form) -> bytes:
    if depth > _DEPTH_OF_CALLS:
        return _deep(values, depth, form)
    length = len(values)
    if length == 1:
        return b"\x91" + _pack(values[0], depth, form)
    if length == 2:
        return b"\x92" + _pack(values[0], depth, form) + _pack(values[1], depth, form)
    if length == 3:
        first_two = b"\x93" + _pack(values[0], depth, form) + _pack(values[1], depth, form)
        return first_two + _pack(values[2], depth, form)
    if length == 4:
        first_two = b"\x94" + _pack(values[0], depth, form) + _pack(values[1], depth, form)
        return first_two + _pack(values[2], depth, form) + _pack(values[3], depth, form)
    return _any_array(values, depth, form)


def _any_array(values: Sequence[Any], depth: int, form: Form) -> bytes:
    head = _length(0x90, 16, 0xDC, len(values))
    return head + b"".join([_pack(value, depth, form) for value in values])


def _map(values: dict[Any, Any], depth: int, form: Form) -> bytes:
    if depth > _DEPTH_OF_CALLS:
        return _deep(values, depth, form)
    packed = [_length(0x80, 16, 0xDE, len(values))]
    for key, value in values.items():
        packed.append(_pack(key, depth, form))
        packed.append(_pack(value, depth, form))
    return b"".join(packed)


def _deep(value: Any, depth: int, form: Form) -> bytes:
    """Pack an array or a map that is so deep with whatever is in it."""
    packed: list[bytes] = []
    inside: list[Iterator[Any]] = [iter((value,))]
    while inside:
        for each in inside[-1]:
            kind = type(each)
            if kind is tuple or kind is list:
                packed.append(_length(0x90, 16, 0xDC, len(each)))
                inside.append(iter(each))
                break
            if kind is dict:
                packed.append(_length(0x80, 16, 0xDE, len(each)))
                inside.append(chain.from_iterable(each.items()))
                break
            packed.append(_pack(each, 0, form))
        else:
            inside.pop()
        if depth + len(inside) - 2 > NESTING_MAX:
            raise RecursionError(_TOO_DEEP)
    return b"".join(packed)


def _other(value: Any, depth: int, form: Form) -> bytes:
    if type(value) is bytearray or type(value) is memoryview:
        return _binary(_content(value))
    found = form(value)
    return found.data if type(found) is _Packed else _pack(found, depth, form)


def _extension(code: int, content: bytes) -> _Packed:
    size = len(content)
    if size in _FIXED_EXTENSIONS:
        return _Packed(_INT8.pack(_FIXED_EXTENSIONS[size], code) + content)
    head = _UINT8.pack(0xC7, size) if size < 0x100 else _length(0, 0, 0xC8, size)
    return _Packed(head + _BYTES[code & 0xFF] + content)


_FIXED_EXTENSIONS = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}


def _integer(value: int) -> bytes:
    if value >= 0:
        if value < 0x80:
            return _BYTES[value]
        if value < 0x100:
            return _UINT8.pack(0xCC, value)
        if value < 0x10000:
            return _UINT16.pack(0xCD, value)
        if value < 0x100000000:
            return _UINT32.pack(0xCE, value)
        if value < 0x10000000000000000:
            return _UINT64.pack(0xCF, value)
    elif value >= -0x20:
        return _BYTES[value & 0xFF]
    elif value >= -0x80:
        return _INT8.pack(0xD0, value)
    elif value >= -0x8000:
        return _INT16.pack(0xD1, value)
    elif value >= -0x80000000:
        return _INT32.pack(0xD2, value)
    elif value >= -0x8000000000000000:
        return _INT64.pack(0xD3, value)
    raise OverflowError(
        "an int has at most 64 bits, -2**63 to 2**64 - 1: make it text or a Decimal"
    )


def _length(short_form: int, short_end: int, marker: int, length: int) -> bytes:
    """Return the head of something so long; the form with four bytes follows that with two."""
    if length < short_end:
        return _BYTES[short_form | length]
    if length < 0x10000:
        return _UINT16.pack(marker, length)
    if length < 0x100000000:
        return _UINT32.pack(marker + 1, length)
    raise ValueError(f"{length} elements or bytes are more than msgpack can hold")


def _text(value: str) -> bytes:
    content = value.encode()
    size = len(content)
    if 0x20 <= size < 0x100:
        return _UINT8.pack(0xD9, size) + content
    return _length(0xA0, 0x20, 0xDA, size) + content


def _binary(content: bytes) -> bytes:
    size = len(content)
    if size < 0x100:
        return _UINT8.pack(0xC4, size) + content
    return _length(0, 0, 0xC5, size) + content


def _content(value: bytearray | memoryview) -> bytes:
    if isinstance(value, memoryview) and not value.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return bytes(value)
