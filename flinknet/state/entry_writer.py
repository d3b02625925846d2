"""Writing the entries of a state to the bytes of their key groups: what a snapshot does per entry.

Text, whole numbers and tuples of them are their own form, so that the bytes that are written are
those that the group is made of; other keys are hashed as records' keys are. Entries of a group
that follow each other are a *run*, with one head for all of them (``snapshot_format.py``).

Entries come from an iterator, or from a dict that they were detached from before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from zlib import crc32

from flinknet.records.key_groups import key_group, mixed
from flinknet.records.value_copy import are_unchanging
from flinknet.state.snapshot_format import RUN
from flinknet.state.value_serializer import ValueSerializer

__all__ = ["RUN_BYTES", "DetachedEntries", "EntryWriter", "WrittenGroup"]

RUN_BYTES = 16_384
"""Size of a run, which is read in one step, too: about a thousand entries."""


class DetachedEntries:
    """Which objects are keys and values of a dict, which must not change before all are taken.

    They can be iterated, or written, once: each is let go of when it has been.
    """

    def __init__(self, entries: dict[Any, Any]) -> None:
        self.is_whole = False
        """Whether all have been taken."""
        self._entries: Iterator[tuple[Any, Any]] = iter(entries.items())
        self._taken: deque[tuple[Any, Any]] = deque()

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self

    def __next__(self) -> tuple[Any, Any]:
        if not self._taken:
            raise StopIteration
        return self._taken.popleft()

    def take(self, entries_max: int) -> bool:
        """Take so many more; return whether their values are such as cannot be changed in place: if
        not, all of this is to be forgotten."""
        taken = list(islice(self._entries, entries_max))
        if len(taken) < entries_max:
            self.is_whole, self._entries = True, iter(())  # the former keeps its first entry
        self._taken += taken
        return are_unchanging([value for _, value in taken])


class WrittenGroup:
    """What is written of one key group."""

    def __init__(self) -> None:
        self.pieces: list[bytes | bytearray] = []
        self.begun = bytearray()
        """A run without its head."""
        self.entries = 0
        self.size = 0
        self.checksum = 0

    def end_run(self, state: int) -> None:
        """Close the run of a state, if one was begun."""
        if not self.entries:
            return
        for piece in (RUN.pack(state, self.entries, len(self.begun)), self.begun):
            self.pieces.append(piece)
            self.size += len(piece)
            self.checksum = crc32(piece, self.checksum)
        self.begun, self.entries = bytearray(), 0


class EntryWriter:
    """Writes entries, a bit at a time; ``groups`` has what is written, by key group."""

    def __init__(self, serializer: ValueSerializer, max_parallelism: int) -> None:
        self.groups: dict[int, WrittenGroup] = {}
        self.key: Any = None
        """That of the last entry, also of one that could not be written."""
        self._encode, self._form = serializer.encode, serializer.form
        self._options = serializer.options
        self._pack = serializer.pack
        self._max_parallelism = max_parallelism

    def write(
        self,
        state: int,
        entries: Iterator[tuple[Any, Any]],
        serialised: Callable[[Any], bytes] | None,
        entries_max: int,
        bytes_max: int,
    ) -> int:
        """Write entries of a state until so many are, or so many bytes; return how many were: 0 at
        the end. ``serialised`` makes the bytes of a value first, where a user's serializer does.

        Raises whatever the serializers do."""
        return self._write(state, entries, serialised, entries_max, bytes_max)

    def write_detached(
        self,
        state: int,
        entries: DetachedEntries,
        serialised: Callable[[Any], bytes] | None,
        entries_max: int,
        bytes_max: int,
    ) -> int:
        """As ``write``."""
        return self._write(state, entries, serialised, entries_max, bytes_max)

    def _write(
        self,
        state: int,
        entries: Iterator[tuple[Any, Any]],
        serialised: Callable[[Any], bytes] | None,
        entries_max: int,
        bytes_max: int,
    ) -> int:
        groups, max_parallelism = self.groups, self._max_parallelism
        count = size = 0
        for key, value in entries:
            self.key = key
            if _is_own_form(key):
                packed = self._packed(key)
                group = mixed(crc32(packed)) % max_parallelism
            else:
                packed = self._pack(key)
                group = key_group(key, max_parallelism)
            kept = value if serialised is None else serialised(value)
            content = self._packed(kept) if _is_scalar(kept) else self._pack(kept)
            written = groups.get(group)
            if written is None:
                written = groups[group] = WrittenGroup()
            written.begun += packed
            written.begun += content
            written.entries += 1
            count += 1
            size += len(packed) + len(content)
            if len(written.begun) >= RUN_BYTES:
                written.end_run(state)
            if count >= entries_max or size >= bytes_max:
                break
        return count

    def _packed(self, value: Any) -> bytes:
        """Pack what has no list in it."""
        try:
            return self._encode(value, self._form, self._options)
        except TypeError:
            return self._pack(value)  # a number that is too large, which says so


def _is_scalar(value: Any) -> bool:
    kind = type(value)
    return kind is int or kind is str or kind is float or kind is bytes


def _is_own_form(key: Any) -> bool:
    kind = type(key)
    if kind is not tuple:
        return kind is str or kind is int
    for part in key:
        kind = type(part)
        if kind is not str and kind is not int:
            return False
    return True
