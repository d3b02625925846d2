"""A case: the records that every system has to move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

__all__ = ["Block", "Case", "Tally", "Weigh", "fingerprint", "record_bytes"]

Block = Sequence[Any]
"""Records that are made before anything is measured and then sent over and over."""

Weigh = Callable[[Any], int]
"""What a consumer does with every record: its contribution to the checksum."""


def _arrow_message(record: Any) -> bytes:
    """A record that msgpack has no form for is an Arrow record batch: its IPC message."""
    message: bytes = record.serialize().to_pybytes()
    return message


_pack: Callable[[Any], bytes] = msgpack.Packer(default=_arrow_message).pack


class Tally(NamedTuple):
    """What one side has sent or received in a round."""

    records: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Case:
    """The records of a case: the same in every process and in every invocation.

    ``make_block`` makes them. ``weigh`` looks at one field; it is C code, because every system pays
    for it with every record. ``key`` is how a keyed exchange splits the records; without one they
    are dealt out in turn. All three are module-level functions or picklable ones: a case is sent to
    the processes that run it.
    """

    name: str
    summary: str
    make_block: Callable[[], Block]
    weigh: Weigh
    key: Callable[[Any], Any] | None = None


def fingerprint(record: Any) -> int:
    """Return a checksum of every field of a record: the ``weigh`` of the round that checks."""
    return crc32(_pack(record))


def record_bytes(block: Block) -> float:
    """Return the mean size of a record as msgpack: what MB/s counts, for every system alike."""
    return sum(len(_pack(record)) for record in block) / len(block)
