"""A case: the records that every system has to transfer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

__all__ = ["Block", "Case", "Tally", "Weigh", "fingerprint", "record_bytes"]

Block = Sequence[Any]
"""Records that are made before the measurement and then sent repeatedly."""

Weigh = Callable[[Any], int]
"""The work of a consumer for a record; returns its contribution to the checksum."""


def _arrow_message(record: Any) -> bytes:
    """Return the IPC message of an Arrow record batch, for which msgpack has no form."""
    message: bytes = record.serialize().to_pybytes()
    return message


_pack: Callable[[Any], bytes] = msgpack.Packer(default=_arrow_message).pack


class Tally(NamedTuple):
    """The number and the checksum of the records that one side has sent or received in a round."""

    records: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Case:
    """The records of a case, the same in every process and in every invocation.

    ``make_block`` makes them. ``weigh`` looks at one field of a record. It is C code, because every
    system pays for it with every record. ``key`` extracts the key of a keyed exchange; without it
    the records are dealt out in turn. All three functions must be picklable, because a case is sent
    to the processes that run it.
    """

    name: str
    summary: str
    make_block: Callable[[], Block]
    weigh: Weigh
    key: Callable[[Any], Any] | None = None


def fingerprint(record: Any) -> int:
    """Return a checksum of every field of a record: the ``weigh`` of the checking round."""
    return crc32(_pack(record))


def record_bytes(block: Block) -> float:
    """Return the mean size of a record as msgpack, on which MB/s is based for every system."""
    return sum(len(_pack(record)) for record in block) / len(block)
