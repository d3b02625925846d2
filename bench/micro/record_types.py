"""Round trips of records that have no form in msgpack.

flinknet is compared with pickle, which PyFlink uses for such records, and with msgspec, for a
receiver that knows the type in advance. All records have the same three fields. flinknet packs
blocks of them, as ``emit_many`` does, and unpacks each block at once, as a reader does with a
buffer. pickle and msgspec process the same lists.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec

from bench.micro.workload import Workload
from flinknet import NetworkConfig
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import RecordUnpacker

__all__ = ["RECORD_TYPES"]

BLOCK_RECORDS = 128
FIRST_DAY = date(2020, 1, 1)


class Named(NamedTuple):
    """A named tuple."""

    sensor: str
    number: int
    value: float


@dataclass
class Plain:
    """A dataclass."""

    sensor: str
    number: int
    value: float


class Structured(msgspec.Struct):
    """A Struct of msgspec."""

    sensor: str
    number: int
    value: float


Make = Callable[[str, int, float], Any]
Copy = Callable[[list[Any]], Sequence[Any]]
"""Copies records by way of their bytes."""


def _dated(sensor: str, number: int, value: float) -> tuple[date, int, float]:
    return FIRST_DAY + timedelta(number % 1000), number, value


def _tuple(*fields: Any) -> tuple[Any, ...]:
    return fields


def _by_flinknet(kind: type | None) -> Copy:
    types = [] if kind is None else [kind]
    pack = RecordPacker(types).pack
    unpack = RecordUnpacker.of(NetworkConfig(), types).record
    return lambda records: unpack(pack(records))


def _by_pickle(kind: type | None) -> Copy:
    return lambda records: pickle.loads(  # noqa: S301 - its own
        pickle.dumps(records, pickle.HIGHEST_PROTOCOL)
    )


def _by_msgspec(kind: type | None) -> Copy:
    encode = msgspec.msgpack.Encoder().encode
    decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]
    return lambda records: decode(encode(records))


def _make(make: Make, copy: Copy, operations: int) -> Workload:
    records = [make(f"sensor-{number % 100}", number, number / 7) for number in range(operations)]
    starts = range(0, operations, BLOCK_RECORDS)
    blocks = [records[start : start + BLOCK_RECORDS] for start in starts]

    copies: list[Sequence[Any]] = []

    def run() -> None:
        copies[:] = [copy(block) for block in blocks]

    def verify() -> bool:
        copied = [record for block in copies for record in block]
        return copied == records and set(map(type, copied)) == set(map(type, records))

    return Workload(operations, run, verify)


_KINDS: dict[str, tuple[Make, type | None]] = {
    "tuple": (_tuple, None),
    "named tuple": (Named, Named),
    "dataclass": (Plain, Plain),
    "Struct": (Structured, Structured),
    "date": (_dated, None),
}

RECORD_TYPES: dict[str, Callable[[int], Workload]] = {
    **{name: partial(_make, make, _by_flinknet(kind)) for name, (make, kind) in _KINDS.items()},
    **{
        f"{name}, pickle": partial(_make, make, _by_pickle(kind))
        for name, (make, kind) in _KINDS.items()
    },
    "Struct, msgspec": partial(_make, Structured, _by_msgspec(Structured)),
}
