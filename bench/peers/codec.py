"""How peers that carry bytes make a message of a record; bytes are one as they are.

msgspec packs, msgpack unpacks: the fastest there is, either way, if arrays arrive as tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack

from bench.harness.case import Case

__all__ = ["END", "Codec", "Pack", "codec_of", "packer", "unpack"]

END = b""
"""The message that ends a round: no record is as short."""

Pack = Callable[[Any], bytes]

PAYLOADS = ("bytes-1k", "bytes-32k", "bytes-1m")


class Codec(NamedTuple):
    """Both directions, as C code where there is anything to do."""

    pack: Pack
    unpack: Callable[[bytes], Any]


def codec_of(case: Case) -> Codec:
    """Return what a careful user would take: one packer for all records; nothing for bytes."""
    if case.name in PAYLOADS:
        return Codec(bytes, bytes)
    return Codec(packer(), unpack)


def packer() -> Pack:
    """Return a function from a record to its bytes."""
    from msgspec.msgpack import Encoder

    return Encoder().encode


def unpack(message: bytes) -> Any:
    """Return the record; arrays as tuples, as flinknet has them."""
    return msgpack.unpackb(message, use_list=False)
