"""The messages of peers that transfer bytes; a record of bytes is a message as it is.

msgspec packs and msgpack unpacks: each is the fastest library in its direction, if arrays arrive as
tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack

from bench.harness.case import Case

__all__ = ["END", "Codec", "Pack", "codec_of", "packer", "unpack"]

END = b""
"""The message that ends a round; no record is as short."""

Pack = Callable[[Any], bytes]

PAYLOADS = ("bytes-1k", "bytes-32k", "bytes-1m")


class Codec(NamedTuple):
    """Both directions, as C code unless there is nothing to do."""

    pack: Pack
    unpack: Callable[[bytes], Any]


def codec_of(case: Case) -> Codec:
    """Return a careful user's codec: one packer for all records, and none for bytes."""
    if case.name in PAYLOADS:
        return Codec(bytes, bytes)
    return Codec(packer(), unpack)


def packer() -> Pack:
    """Return a function that packs a record into bytes."""
    from msgspec.msgpack import Encoder

    return Encoder().encode


def unpack(message: bytes) -> Any:
    """Return the record of a message; arrays become tuples, as in flinknet."""
    return msgpack.unpackb(message, use_list=False)
