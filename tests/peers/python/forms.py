"""Conversion of records between MessagePack and JSON lines, for the peers' input and output.

Values that JSON has stand for themselves. A binary is ``{"bytes": hex}``, a map ``{"map": [[key,
value], ...]}``, an integer beyond 53 bits ``{"integer": digits}``, a float without a form in JSON
``{"float": "nan"}``, and an extension ``{"type": number, "content": value}``. The content of an
extension is the value that the specification gives for its type, and a binary for the moment in UTC
(-1) and for Arrow (127).
"""

from __future__ import annotations

import math
from typing import Any

import msgpack

RAW_TYPES = (-1, 127)


def to_json(value: Any) -> Any:
    """Return the JSON form of an unpacked record."""
    match value:
        case bytes():
            return {"bytes": value.hex()}
        case msgpack.Timestamp():
            return {"type": -1, "content": to_json(value.to_bytes())}
        case msgpack.ExtType():
            content = value.data if value.code in RAW_TYPES else unpack(value.data)
            return {"type": value.code, "content": to_json(content)}
        case list():
            return [to_json(item) for item in value]
        case dict():
            return {"map": [[to_json(key), to_json(item)] for key, item in value.items()]}
        case float() if not math.isfinite(value):
            return {"float": str(value)}
        case int() if abs(value) >= 2**53:
            return {"integer": str(value)}
    return value


def from_json(value: Any) -> Any:
    """Return the record of a JSON form, ready to be packed."""
    match value:
        case list():
            return [from_json(item) for item in value]
        case {"bytes": digits}:
            return bytes.fromhex(digits)
        case {"map": entries}:
            return {from_json(key): from_json(item) for key, item in entries}
        case {"float": word}:
            return float(word)
        case {"integer": digits}:
            return int(digits)
        case {"type": number, "content": content}:
            inner = from_json(content)
            data = inner if number in RAW_TYPES else pack(inner)
            return (
                msgpack.Timestamp.from_bytes(data)
                if number == -1
                else msgpack.ExtType(number, data)
            )
    return value


def pack(value: Any) -> bytes:
    """Return the bytes of one value."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(data: bytes) -> Any:
    """Return the value of these bytes; ValueError unless they are exactly one value."""
    (value,) = unpack_all(data)
    return value


def unpack_all(data: bytes) -> list[Any]:
    """Return consecutive values; ValueError if one is truncated."""
    unpacker = msgpack.Unpacker(strict_map_key=False, use_list=True)
    unpacker.feed(data)
    values = list(unpacker)
    if unpacker.tell() != len(data):
        raise ValueError("bytes that are no whole values")
    return values
