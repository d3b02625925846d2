"""Entry writer: packs the entries of a state into the bytes of their key groups.

Text, integers and tuples of them are their own key form, so their group is computed from the bytes
that are written anyway. Other keys are hashed as keys of records are. Consecutive entries of a
group form a *run* with a common head (``snapshot_format.py``). The entries come from an iterator,
or were detached from a dict.
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
"""Size of a run: about a thousand entries. A run is also read in one step."""


class DetachedEntries:
    """The key and value objects of a dict, which must not change until all are taken.

    The entries can be iterated or written once; each is released afterwards.
    """

    def __init__(self, entries: dict[Any, Any]) -> None:
        self.is_whole = False
        """Whether all entries have been taken."""
        self._entries: Iterator[tuple[Any, Any]] = iter(entries.items())
        self._taken: deque[tuple[Any, Any]] = deque()

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self

    def __next__(self) -> tuple[Any, Any]:
        if not self._taken:
            raise StopIteration
        return self._taken.popleft()

    def take(self, entries_max: int) -> bool:
        """Take up to ``entries_max`` more entries; return whether their values are unchangeable.

        If they are not, discard this object: the operator may change values that were taken.
        """
        taken = list(islice(self._entries, entries_max))
        if len(taken) < entries_max:
            # An exhausted dict iterator keeps its first entry, so it is dropped.
            self.is_whole, self._entries = True, iter(())
        self._taken += taken
        return are_unchanging([value for _, value in taken])


class WrittenGroup:
    """The written bytes of one key group."""

    def __init__(self) -> None:
        self.pieces: list[bytes | bytearray] = []
        self.begun = bytearray()
        """A run without its head."""
        self.entries = 0
        self.size = 0
        self.checksum = 0

    def end_run(self, state: int) -> None:
        """End the run of a state, if one was begun."""
        if not self.entries:
            return
        for piece in (RUN.pack(state, self.entries, len(self.begun)), self.begun):
            self.pieces.append(piece)
            self.size += len(piece)
            self.checksum = crc32(piece, self.checksum)
        self.begun, self.entries = bytearray(), 0


class EntryWriter:
    """Writer of entries in small steps; ``groups`` maps key groups to the written bytes."""

    def __init__(self, serializer: ValueSerializer, max_parallelism: int) -> None:
        self.groups: dict[int, WrittenGroup] = {}
        self.key: Any = None
        """The key of the last entry, also of one that could not be written."""
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
        """Write entries of a state, up to a number of entries or bytes; return their number.

        The result is 0 at the end. ``serialised`` applies a user's serializer to a value first.
        Raises the errors of the serializers.
        """
        return self._write(state, entries, serialised, entries_max, bytes_max)

    def write_detached(
        self,
        state: int,
        entries: DetachedEntries,
        serialised: Callable[[Any], bytes] | None,
        entries_max: int,
        bytes_max: int,
    ) -> int:
        """Write detached entries, as ``write`` does."""
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
        """Pack a value without a list in it."""
        try:
            return self._encode(value, self._form, self._options)
        except TypeError:
            return self._pack(value)  # an integer that is too large, which raises here


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
