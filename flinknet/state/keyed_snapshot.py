"""Snapshots of an operator's keyed state, and their restore.

Theory of operation. ``KeyedSnapshot`` captures every table, in constant time. ``detach`` then
collects the entries, so that the operator soon has plain tables again. ``slices`` writes the
entries. Both work in small steps. Between two steps the loop turns, and the operator continues. A
step writes SLICE_ENTRIES entries or SLICE_BYTES bytes in a fraction of a millisecond. Each entry is
appended to the bytes of its key group (``entry_writer.py``). After the last entry the captures are
closed, and the layers that they leave are merged, also in steps.

A backend's entries on disk follow the entries in memory, group by group, and are already packed.
They may exceed memory, so the bytes of each group then go through a file (``SpooledGroups``).

Snapshots run on the event loop, not in a thread. Packing holds the interpreter lock all the time,
so a thread would not be faster, and would delay the turns of the loop for longer.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from mmap import mmap
from operator import attrgetter
from typing import Any

from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.records.key_normalization import comparable_key
from flinknet.state.entry_writer import RUN_BYTES, EntryWriter, WrittenGroup
from flinknet.state.expiring_state import unexpired
from flinknet.state.keyed_state import KeyedState, StateEntry
from flinknet.state.keyed_state_backend import DiskEntry
from flinknet.state.snapshot_format import (
    GroupPlace,
    KeyedHeader,
    StateMeta,
    parse_header,
    runs_of,
)
from flinknet.state.spool_file import SpoolFile
from flinknet.state.value_serializer import ValueSerializer
from flinknet.texts import text_of

__all__ = ["KeyedPlace", "KeyedSnapshot", "SpooledGroups", "restore_keyed_state"]

SLICE_ENTRIES = 256
"""Entries written in one step: half a millisecond."""

SLICE_BYTES = 65_536
"""Bytes after which a step also ends, for large entries."""

SLICE_GROUPS = 256
"""Key groups completed in one step."""

DETACHED_ENTRIES = 65_536
"""Entries detached in one step: two milliseconds.

The number is high because the operator looks into two tables until all entries are detached.
"""

MERGE_ENTRIES = 1024
"""Entries of each state that are merged in the first step: a millisecond for large state.

Each step merges as many more than the one before, because the operator may write more entries
between two steps.
"""


class SpooledGroups:
    """The key groups of a snapshot in a temporary file, in the order of reading.

    In a checkpoint, the sizes of all groups precede the first group. For state larger than memory,
    the sizes are known only when all groups have been read. The groups therefore go through a file
    in ``directory``. Raises StateError if there is no space. ``close`` must be called; it is
    idempotent.
    """

    def __init__(self, directory: str | None) -> None:
        self.places: list[GroupPlace] = []
        self._file = SpoolFile(directory)

    def add(self, group: int, written: WrittenGroup) -> None:
        """Append a complete group to the file, and drop its pieces."""
        content = b"".join(written.pieces)
        written.pieces.clear()
        place = GroupPlace(group, self._file.size, written.size, written.checksum)
        self._file.add(content)
        self.places.append(place)

    def pieces(self) -> Iterator[bytes]:
        """Iterate over the content once; this closes the file."""
        return self._file.pieces()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedPlace:
    """Owner of keyed state: an operator, and the key groups of one of its subtasks."""

    operator: str
    uid: str
    max_parallelism: int
    key_groups: range
    types: tuple[tuple[int, str], ...] = ()
    """Numbers of registered classes, with their names."""


class CapturedState:
    """One captured state, and how it was stored at the time of the capture.

    A function may request restored state later, with a time to live or a serializer.
    """

    def __init__(self, entry: StateEntry) -> None:
        self.meta = StateMeta(entry.name, entry.kind, entry.serializer_name, entry.timed)
        self.capture = entry.table.capture()
        self.serialised = entry.serialising()
        """Applies the state's serializer to a key's entry; None if there is no serializer."""
        self._ttl_config = entry.ttl_config

    @property
    def drops_expired(self) -> bool:
        """Whether expired values are left out of the snapshot."""
        return self._ttl_config is not None and self._ttl_config.cleanup_in_full_snapshot

    def entries(self, now_ms: int) -> Iterable[tuple[Any, Any]]:
        """Iterate over the entries in memory that will be written."""
        if not self.drops_expired:
            return self.capture.entries_in_memory()
        kept = (
            (key, self.unexpired(value, now_ms)) for key, value in self.capture.entries_in_memory()
        )
        return ((key, value) for key, value in kept if value is not None)

    def unexpired(self, kept: Any, now_ms: int) -> Any:
        """Return the part of a key's entry that will be written; None for nothing."""
        assert self._ttl_config is not None, "state without a time to live does not expire"
        return unexpired(self.meta.kind, self._ttl_config, kept, now_ms)


class KeyedSnapshot:
    """Keyed state of one operator in one subtask at the time of construction.

    It is written by ``slices``, or dropped by ``close``.
    """

    def __init__(
        self, state: KeyedState, place: KeyedPlace, serializer: ValueSerializer, now_ms: int
    ) -> None:
        self._state = state
        self._place = place
        self._serializer = serializer
        self._writer = EntryWriter(serializer, place.max_parallelism)
        self._now_ms = now_ms
        self._captures = [CapturedState(entry) for entry in state.entries.values()]
        self._spooled: SpooledGroups | None = None
        self.entries = 0
        """Number of written entries."""

    def detach(self) -> Iterator[None]:
        """Separate the captures from the tables as far as possible, a bit at each step.

        This may be omitted.
        """
        for captured in self._captures:
            while captured.capture.detach(DETACHED_ENTRIES):
                yield
        yield from self._merge()

    def slices(self) -> Iterator[None]:
        """Write a bit at each step; when the iteration ends, all is written and merged.

        Raises StateError for state that cannot be written; the operator can continue then.
        """
        try:
            for number, captured in enumerate(self._captures):
                yield from self._write(number, captured)
            on_disk = self._state.backend.disk_entries([one.capture for one in self._captures])
            if on_disk is not None:
                self._spooled = SpooledGroups(self._state.backend.directory)
                yield from self._spool(on_disk, self._spooled)
        except BaseException:
            self.close()
            raise
        finally:
            self._let_go()
        yield from self._merge()

    def close(self) -> None:
        """Release the captures and the written bytes; idempotent."""
        self._let_go()
        if self._spooled is not None:
            self._spooled.close()

    def _let_go(self) -> None:
        for captured in self._captures:
            captured.capture.close()

    def _merge(self) -> Iterator[None]:
        entries_max = MERGE_ENTRIES
        while self._state.merge(entries_max):
            entries_max += MERGE_ENTRIES
            yield

    def pieces(self) -> Iterable[bytes | bytearray]:
        """Return the written bytes in consecutive pieces; empty if there is no state.

        Iterate once, before ``close``.
        """
        if not self._captures:
            return []
        if self._spooled is not None:
            return chain([self._header(self._spooled.places)], self._spooled.pieces())
        places = []
        pieces: list[bytes | bytearray] = []
        offset = 0
        for group, written in sorted(self._writer.groups.items()):
            places.append(GroupPlace(group, offset, written.size, written.checksum))
            offset += written.size
            pieces += written.pieces
        return [self._header(places), *pieces]

    def _header(self, places: Sequence[GroupPlace]) -> bytes:
        place = self._place
        return KeyedHeader(
            operator=place.operator,
            uid=place.uid,
            max_parallelism=place.max_parallelism,
            key_groups=place.key_groups,
            types=place.types,
            states=tuple(captured.meta for captured in self._captures),
            groups=tuple(places),
        ).to_bytes()

    def _write(self, number: int, captured: CapturedState) -> Iterator[None]:
        writer, detached = self._writer, captured.capture.detached
        if detached is None or captured.drops_expired:  # ``entries`` leaves expired values out
            write = partial(writer.write, number, iter(captured.entries(self._now_ms)))
        else:
            write = partial(writer.write_detached, number, detached)
        try:
            while written := write(captured.serialised, SLICE_ENTRIES, SLICE_BYTES):
                self.entries += written
                yield
        except Exception as cause:
            raise self._unwritable(captured.meta.name, writer.key, cause) from cause
        for count, group in enumerate(writer.groups.values(), 1):
            group.end_run(number)
            if count % SLICE_GROUPS == 0:
                yield

    def _spool(self, entries: Iterator[DiskEntry], spooled: SpooledGroups) -> Iterator[None]:
        """Spool all groups, each with its entries on disk after its entries in memory."""
        groups = self._writer.groups
        count = size = 0
        for group, own in groupby(entries, attrgetter("group")):
            # Groups are written in their order, also groups without entries on disk.
            yield from self._spool_below(group, spooled)
            written = groups.pop(group, None) or WrittenGroup()
            for number, run in groupby(own, attrgetter("capture")):
                captured = self._captures[number]
                for entry in run:
                    value = entry.value
                    if captured.drops_expired:
                        kept = captured.unexpired(self._serializer.unpack(value), self._now_ms)
                        if kept is None:
                            continue
                        value = self._serializer.pack(kept)
                    written.begun += entry.key
                    written.begun += value
                    written.entries += 1
                    if len(written.begun) >= RUN_BYTES:
                        written.end_run(number)
                    count += 1
                    size += len(value)
                    if count % SLICE_ENTRIES == 0 or size >= SLICE_BYTES:
                        size = 0
                        yield
                written.end_run(number)
            if written.size:
                spooled.add(group, written)
            yield
        yield from self._spool_below(self._place.max_parallelism, spooled)
        self.entries += count

    def _spool_below(self, end: int, spooled: SpooledGroups) -> Iterator[None]:
        """Spool the groups below ``end`` that have no entries on disk."""
        groups = self._writer.groups
        for count, group in enumerate(sorted(group for group in groups if group < end), 1):
            spooled.add(group, groups.pop(group))
            if count % SLICE_GROUPS == 0:
                yield

    def _unwritable(self, name: str, key: Any, cause: Exception) -> StateError:
        place = self._place
        return StateError(
            f'state "{name}" of operator "{place.operator}" (uid {place.uid}) cannot be '
            f"written to a checkpoint, at the key {reprlib.repr(key)} of type "
            f"{type(key).__name__}: {text_of(cause)}; register the class, or give the state's "
            f"descriptor a serializer"
        )


def restore_keyed_state(
    state: KeyedState,
    place: KeyedPlace,
    serializer: ValueSerializer,
    part: bytes | memoryview | mmap,
) -> Iterator[None]:
    """Restore the state for ``place`` from the part of one subtask, a bit at each step.

    Call this for the parts of all subtasks that may have any of the key groups. Raises
    CheckpointCorruptedError for invalid bytes, and StateError for the state of another operator.
    """
    # Every view is released, because a mapped part cannot be closed before.
    with memoryview(part) as data:
        header, content = parse_header(data)
        _check_place(header, place)
        entries = [_restored_entry(state, meta) for meta in header.states]
        try:
            for group in header.groups:
                if group.group in place.key_groups:
                    for number, count, run in runs_of(group, content):
                        with run:
                            _read_run(entries, number, count, run, serializer)
                        yield
        finally:
            content.release()


def _check_place(header: KeyedHeader, place: KeyedPlace) -> None:
    whose = f'operator "{place.operator}" (uid {place.uid})'
    if header.uid != place.uid:
        raise StateError(
            f"the state of uid {header.uid} cannot be that of {whose}: set the operator's uid"
        )
    if header.max_parallelism != place.max_parallelism:
        raise StateError(
            f"{whose} has max parallelism {place.max_parallelism}, but its state was written with "
            f"{header.max_parallelism}, and the key groups of keys cannot change: call "
            f"set_max_parallelism({header.max_parallelism})"
        )
    known = dict(place.types)
    for number, name in header.types:
        if known.get(number, name) != name:
            raise StateError(
                f"class number {number} is {known[number]} now, but was {name} when the state of "
                f"{whose} was written: register the classes in the same order as then, and new "
                "ones after them"
            )


def _restored_entry(state: KeyedState, meta: StateMeta) -> StateEntry:
    entry = state.entries.get(meta.name)
    if entry is None:
        entry = state.add(meta.name, meta.kind, timed=meta.timed, written_by=meta.serializer)
    if (entry.kind, entry.timed, entry.written_by) != (meta.kind, meta.timed, meta.serializer):
        raise StateError(
            f'state "{meta.name}" was written in different ways by two subtasks: the parts belong '
            "to different checkpoints"
        )
    return entry


def _read_run(
    entries: list[StateEntry],
    number: int,
    count: int,
    run: memoryview,
    serializer: ValueSerializer,
) -> None:
    if number >= len(entries):
        raise CheckpointCorruptedError(
            f"this is not keyed state that can be restored: there is no state {number}"
        )
    table = entries[number].table
    live = table.live
    try:
        # The head of an array, five bytes, makes one array of the entries.
        flat = serializer.unpack(b"".join((b"\xdd", (2 * count).to_bytes(4, "big"), run)))
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            plain = type(key) is str or type(key) is int
            live[key if plain else comparable_key(key)] = value
        table.trim()
    except StateError:
        raise
    except Exception as cause:
        raise CheckpointCorruptedError(
            f'state "{entries[number].name}" cannot be restored: {type(cause).__name__}: '
            f"{text_of(cause)}"
        ) from cause
