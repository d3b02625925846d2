"""Unpacking records in Python, for an interpreter that compiles it.

It makes what ``msgpack.unpackb`` makes with the options that records are read with, and refuses
what that refuses; the tests give both the same bytes. As in ``python_packer`` what is called for
every value has no loop, and short arrays are written out: 25 ns for a tuple of three numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from struct import Struct
from typing import Any

from msgpack import ExtraData, StackError, Timestamp
from msgpack.exceptions import FormatError

from flinknet.records.serialization.elements import Serialised

__all__ = ["DEPTH_MAX", "INCOMPLETE", "PythonUnpacker"]

INCOMPLETE = "Unpack failed: incomplete input"
"""How msgpack says that bytes are missing; it has no error of its own for that."""

_UINT16, _UINT32 = Struct(">H"), Struct(">I")
_INT8, _INT16, _INT32, _INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
_FLOAT, _DOUBLE, _DOUBLE_BITS = Struct(">f"), Struct("=d"), Struct("=q")
_TIMESTAMP = -1
DEPTH_MAX = 1024
"""Arrays and maps in one another that msgpack has room for."""
_DEPTH_OF_CALLS = 100
"""Those that take a call each; what is deeper does not depend on the stack."""
_ARRAY, _MAP = "array", "map"
_VALUES = {_ARRAY: 1, _MAP: 2}
"""How many values stand for an element."""

Position = tuple[Any, int]
"""A value and where it ends."""


class PythonUnpacker:
    """Unpacks one value at a time.

    Args:
        bytes_max: longer text, bytes and extensions are refused.
        elements_max: longer arrays and maps are refused.
        map_entries_max: the same for maps alone.
        read_extension: returns the value of an extension type, or raises ValueError.
    """

    def __init__(
        self,
        bytes_max: int,
        elements_max: int,
        read_extension: Callable[[int, bytes], Any],
        map_entries_max: int | None = None,
    ) -> None:
        self._bytes_max = bytes_max
        entries_max = elements_max if map_entries_max is None else map_entries_max
        self._elements_max = {_ARRAY: elements_max, _MAP: entries_max}
        self._read_extension = read_extension

    def unpack(self, content: Serialised) -> Any:
        """Return the one value that the content is.

        Raises ValueError, TypeError, OverflowError or UnpackException for what is none,
        ValueError(INCOMPLETE) if it ends before, ExtraData if there is more.
        """
        data = bytes(content)
        try:
            value, end = self._begin(data)
        except (IndexError, struct.error) as error:
            raise ValueError(INCOMPLETE) from error
        except RecursionError as error:
            raise StackError from error
        if end < len(data):
            raise ExtraData(value, data[end:])
        return value

    def _begin(self, data: bytes) -> Position:
        """The records of a buffer are the elements of one array, and most of what there is."""
        if data[0] == 0xDD:
            return self._array(data, 5, _UINT32.unpack_from(data, 1)[0], 1)
        return self._value(data, 0, 0)

    def _value(self, data: bytes, at: int, depth: int) -> Position:
        head = data[at]
        if head < 0x80:
            return head, at + 1
        if head >= 0xE0:
            return head - 0x100, at + 1
        if head >= 0xC0:
            return self._marked(data, at + 1, head, depth)
        if head >= 0xA0:
            return self._text(data, at + 1, head & 0x1F)
        if head >= 0x90:
            return self._short_array(data, at + 1, head & 0x0F, depth + 1)
        return self._map(data, at + 1, head & 0x0F, depth + 1)

    def _short_array(self, data: bytes, at: int, length: int, depth: int) -> Position:
        if depth > _DEPTH_OF_CALLS:
            return self._deep(data, at, length, depth, _ARRAY)
        if length == 2:
            first, at = self._value(data, at, depth)
            second, at = self._value(data, at, depth)
            return (first, second), at
        if length == 3:
            first, at = self._value(data, at, depth)
            second, at = self._value(data, at, depth)
            third, at = self._value(data, at, depth)
            return (first, second, third), at
        if length == 4:
            first, at = self._value(data, at, depth)
            second, at = self._value(data, at, depth)
            third, at = self._value(data, at, depth)
            fourth, at = self._value(data, at, depth)
            return (first, second, third, fourth), at
        return self._array(data, at, length, depth)

    def _marked(self, data: bytes, at: int, head: int, depth: int) -> Position:
        """Return what has a marker of its own; first those that records have most of."""
        if head == 0xCB:
            # Compiled, a number's bytes are only reversed as an integer's.
            bits = _INT64.unpack_from(data, at)[0]
            return _DOUBLE.unpack(_DOUBLE_BITS.pack(bits))[0], at + 8
        if head == 0xCE:
            return _UINT32.unpack_from(data, at)[0], at + 4
        if head == 0xCD:
            return _UINT16.unpack_from(data, at)[0], at + 2
        if head == 0xCC:
            return data[at], at + 1
        if head < 0xC4:
            if head == 0xC1:
                raise FormatError
            return (None, None, False, True)[head - 0xC0], at
        if head >= 0xD9:
            return self._long(data, at, head, depth + 1)
        if head >= 0xD4:
            return self._extension(data, at, 1 << head - 0xD4)
        if head < 0xC7:
            size, at = self._length(data, at, head - 0xC4)
            return self._part(data, at, size, "bin")
        if head < 0xCA:
            size, at = self._length(data, at, head - 0xC7)
            return self._extension(data, at, size)
        return self._number(data, at, head)

    def _number(self, data: bytes, at: int, head: int) -> Position:
        if head == 0xCA:
            return _FLOAT.unpack_from(data, at)[0], at + 4
        if head == 0xCF:
            number = _INT64.unpack_from(data, at)[0]
            return number if number >= 0 else number + (1 << 64), at + 8
        if head == 0xD0:
            return _INT8.unpack_from(data, at)[0], at + 1
        if head == 0xD1:
            return _INT16.unpack_from(data, at)[0], at + 2
        if head == 0xD2:
            return _INT32.unpack_from(data, at)[0], at + 4
        return _INT64.unpack_from(data, at)[0], at + 8

    def _long(self, data: bytes, at: int, head: int, depth: int) -> Position:
        """Return text, an array or a map whose length does not stand in its first byte."""
        if head < 0xDC:
            size, at = self._length(data, at, head - 0xD9)
            return self._text(data, at, size)
        if head < 0xDE:
            size, at = self._length(data, at, head - 0xDB)
            return self._array(data, at, size, depth)
        size, at = self._length(data, at, head - 0xDD)
        return self._map(data, at, size, depth)

    def _length(self, data: bytes, at: int, form: int) -> tuple[int, int]:
        """Return a length of one, two or four bytes, and where it ends."""
        if form == 0:
            return data[at], at + 1
        if form == 1:
            return _UINT16.unpack_from(data, at)[0], at + 2
        return _UINT32.unpack_from(data, at)[0], at + 4

    def _text(self, data: bytes, at: int, size: int) -> Position:
        content, at = self._part(data, at, size, "str")
        return content.decode(), at

    def _part(self, data: bytes, at: int, size: int, kind: str) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise ValueError(INCOMPLETE)
        if size > self._bytes_max:
            raise ValueError(f"{size} exceeds max_{kind}_len({self._bytes_max})")
        return data[at:end], end

    def _extension(self, data: bytes, at: int, size: int) -> Position:
        if size > self._bytes_max:
            raise ValueError(f"{size} exceeds max_ext_len({self._bytes_max})")
        code = _INT8.unpack_from(data, at)[0]
        content, at = self._part(data, at + 1, size, "ext")
        if code == _TIMESTAMP:
            return Timestamp.from_bytes(content).to_datetime(), at
        return self._read_extension(code, content), at

    def _array(self, data: bytes, at: int, length: int, depth: int) -> Position:
        if depth > _DEPTH_OF_CALLS:
            return self._deep(data, at, length, depth, _ARRAY)
        self._check_length(length, _ARRAY)
        values = []
        for _ in range(length):
            value, at = self._value(data, at, depth)
            values.append(value)
        return tuple(values), at

    def _map(self, data: bytes, at: int, length: int, depth: int) -> Position:
        if depth > _DEPTH_OF_CALLS:
            return self._deep(data, at, length, depth, _MAP)
        self._check_length(length, _MAP)
        values: dict[Any, Any] = {}
        for _ in range(length):
            key, at = self._value(data, at, depth)
            values[key], at = self._value(data, at, depth)
        return values, at

    def _deep(self, data: bytes, at: int, length: int, depth: int, kind: str) -> Position:
        """Return an array or a map that is so deep, with all arrays and maps in it."""
        outer: list[tuple[list[Any], int, str]] = []
        values: list[Any] = []
        self._check_length(length, kind)
        length *= _VALUES[kind]
        while True:
            while len(values) == length:
                value = (
                    tuple(values)
                    if kind is _ARRAY
                    else dict(zip(values[::2], values[1::2], strict=True))
                )
                if not outer:
                    return value, at
                values, length, kind = outer.pop()
                values.append(value)
            head = data[at]
            if not (0x80 <= head < 0xA0 or 0xDC <= head < 0xE0):
                value, at = self._value(data, at, 0)
                values.append(value)
                continue
            outer.append((values, length, kind))
            if depth + len(outer) > DEPTH_MAX:
                raise StackError
            kind = _MAP if head < 0x90 or head in (0xDE, 0xDF) else _ARRAY
            length, at = head & 0x0F, at + 1
            if head >= 0xDC:
                length, at = self._length(data, at, 1 + (head & 1))
            self._check_length(length, kind)
            values, length = [], length * _VALUES[kind]

    def _check_length(self, length: int, kind: str) -> None:
        if length > self._elements_max[kind]:
            raise ValueError(f"{length} exceeds max_{kind}_len({self._elements_max[kind]})")
