"""Format of the keyed state of one subtask in a checkpoint.

::

    "FLNKKEYS"  version u16  size of the header u32  CRC-32 of the header u32
    header: msgpack map of "operator", "uid", "max_parallelism", "key_groups" [first, end],
            "types" [[number, name]], "states" [[name, kind, serializer or nil, timed]],
            "groups" [[key group, size, CRC-32]]
    for each of the groups, in order: any number of runs
    run: number of its state u16, entries u32, size u32, then that many msgpack values: key, value

Numbers are big-endian. Groups have no gaps between them, so a reader can select the groups that it
needs. The entries of a state may come in several runs. No field refers to code: "serializer" is the
name of a class that the job must provide, and "types" are names for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any
from zlib import crc32

import msgpack

from flinknet.errors import CheckpointCorruptedError
from flinknet.state.descriptors import StateKind

__all__ = ["RUN", "GroupPlace", "KeyedHeader", "StateMeta", "parse_header", "runs_of"]

MAGIC = b"FLNKKEYS"
VERSION = 1
HEAD = Struct(">8sHII")
RUN = Struct(">HII")


@dataclass(frozen=True, slots=True)
class StateMeta:
    """Description of one state."""

    name: str
    kind: StateKind
    serializer: str | None
    timed: bool


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """One key group, and its position after the header."""

    group: int
    offset: int
    size: int
    checksum: int


@dataclass(frozen=True, slots=True)
class KeyedHeader:
    """Owner and contents of a part of keyed state."""

    operator: str
    uid: str
    max_parallelism: int
    key_groups: range
    types: tuple[tuple[int, str], ...]
    """Numbers of registered classes, with their names."""
    states: tuple[StateMeta, ...]
    groups: tuple[GroupPlace, ...]

    def to_bytes(self) -> bytes:
        """Return all bytes before the first group."""
        body: bytes = msgpack.packb(
            {
                "operator": self.operator,
                "uid": self.uid,
                "max_parallelism": self.max_parallelism,
                "key_groups": [self.key_groups.start, self.key_groups.stop],
                "types": self.types,
                "states": [
                    [state.name, state.kind.value, state.serializer, state.timed]
                    for state in self.states
                ],
                "groups": [[place.group, place.size, place.checksum] for place in self.groups],
            }
        )
        return HEAD.pack(MAGIC, VERSION, len(body), crc32(body)) + body


def parse_header(data: memoryview) -> tuple[KeyedHeader, memoryview]:
    """Return the header, and the content after it. Raises CheckpointCorruptedError."""
    if len(data) < HEAD.size:
        raise _damaged("it is too short to have a header")
    magic, version, size, checksum = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise _damaged("it does not begin with the mark of keyed state")
    if version != VERSION:
        raise CheckpointCorruptedError(
            f"keyed state in form {version} cannot be read here, because this flinknet reads form "
            f"{VERSION}: use the version of flinknet that wrote it, or a later one"
        )
    body = data[HEAD.size : HEAD.size + size]
    if len(body) < size or crc32(body) != checksum:
        raise _damaged("its header was changed or cut")
    content = data[HEAD.size + size :]
    try:
        header = _header_of(msgpack.unpackb(body, use_list=False))
    except (KeyError, TypeError, ValueError, msgpack.UnpackException) as cause:
        raise _damaged(f"its header is invalid ({type(cause).__name__}: {cause})") from cause
    # The groups fill the rest exactly, so a part that was cut is noticed before it is restored.
    if sum(place.size for place in header.groups) != len(content):
        raise _damaged("it is truncated, or has bytes behind its end")
    return header, content


def runs_of(place: GroupPlace, content: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Iterate over the runs of a group: state number, number of entries, and their bytes.

    Raises CheckpointCorruptedError.
    """
    group = content[place.offset : place.offset + place.size]
    if crc32(group) != place.checksum:
        raise _damaged(f"key group {place.group} was changed")
    position = 0
    while position < len(group):
        if len(group) - position < RUN.size:
            raise _damaged(f"key group {place.group} is truncated")
        state, entries, size = RUN.unpack_from(group, position)
        position += RUN.size
        if len(group) - position < size:
            raise _damaged(f"key group {place.group} is truncated")
        yield state, entries, group[position : position + size]
        position += size


def _header_of(fields: Any) -> KeyedHeader:
    start, stop = _whole(fields["key_groups"], 2)
    places = []
    offset = 0
    for group, size, checksum in (_whole(place, 3) for place in fields["groups"]):
        places.append(GroupPlace(group, offset, size, checksum))
        offset += size
    return KeyedHeader(
        operator=str(fields["operator"]),
        uid=str(fields["uid"]),
        max_parallelism=_whole([fields["max_parallelism"]], 1)[0],
        key_groups=range(start, stop),
        types=tuple((int(number), str(name)) for number, name in fields["types"]),
        states=tuple(
            StateMeta(str(name), StateKind(kind), _name(serializer), bool(timed))
            for name, kind, serializer, timed in fields["states"]
        ),
        groups=tuple(places),
    )


def _whole(numbers: Sequence[Any], length: int) -> Sequence[int]:
    if len(numbers) != length or any(type(each) is not int or each < 0 for each in numbers):
        raise ValueError(f"{numbers!r:.99} are not {length} numbers")
    return numbers


def _name(serializer: Any) -> str | None:
    return None if serializer is None else str(serializer)


def _damaged(what: str) -> CheckpointCorruptedError:
    return CheckpointCorruptedError(f"this is not keyed state that can be restored: {what}")
