"""Snapshots of operator state, and its redistribution on restore.

::

    "FLNKOPER"  version u16  size u32  CRC-32 u32
    msgpack map of "operator", "uid",
            "states" [[name, mode, serializer or nil, [element, ...]]], each element as bytes

Redistribution (Flink's RoundRobinOperatorStateRepartitioner) depends on the mode. The elements of a
split list return to their subtasks if the parallelism is unchanged. Otherwise all elements are
joined in the order of the subtasks, and cut into equal parts; the first parts have one element more
if there is a remainder. Each subtask receives all joined elements of a union list. Subtask i
receives the broadcast state of old subtask i, modulo the old parallelism.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any
from zlib import crc32

import msgpack

from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.state.operator_state import (
    BroadcastState,
    OperatorListState,
    OperatorState,
    OperatorStateStore,
    StateMode,
)
from flinknet.state.state_table import TableCapture
from flinknet.texts import text_of

__all__ = ["OperatorStateSnapshot", "redistribute", "restore_operator_state"]

MAGIC = b"FLNKOPER"
VERSION = 1
HEAD = Struct(">8sHII")

SLICE_ELEMENTS = 512
"""Elements of broadcast state written in one step: half a millisecond."""

MERGE_ENTRIES = 4096


class OperatorStateSnapshot:
    """Operator state of one subtask at the time of construction."""

    def __init__(self, store: OperatorStateStore, operator: str, uid: str) -> None:
        self._store = store
        self._operator = operator
        self._uid = uid
        self._packed: list[tuple[OperatorState, str | None, list[bytes]]] = []
        self._captures: list[tuple[OperatorState, TableCapture, list[bytes]]] = []
        for state in store.states.values():
            packed = list(state.restored)
            self._packed.append((state, state.serializer_name, packed))
            if isinstance(state.state, OperatorListState):
                # Packed at once, because the function may change the elements next.
                packed.extend(self._pack(state, element) for element in state.state)
            elif isinstance(state.state, BroadcastState):
                self._captures.append((state, state.state.table.capture(), packed))

    def slices(self) -> Iterator[None]:
        """Write a bit at each step; when the iteration ends, all is written.

        Raises StateError.
        """
        try:
            for state, capture, packed in self._captures:
                for pair in capture.entries():
                    packed.append(self._pack(state, pair))
                    if len(packed) % SLICE_ELEMENTS == 0:
                        yield
        finally:
            self.close()
        for state, _, _ in self._captures:
            assert isinstance(state.state, BroadcastState), "only that is captured"
            while state.state.table.merge(MERGE_ENTRIES):
                yield

    def close(self) -> None:
        """Release the captures; idempotent."""
        for _, capture, _ in self._captures:
            capture.close()

    def pieces(self) -> list[bytes | bytearray]:
        """Return the written bytes; empty if there is no state."""
        if not self._packed:
            return []
        states = [[state.name, state.mode.value, by, packed] for state, by, packed in self._packed]
        fields = {"operator": self._operator, "uid": self._uid, "states": states}
        body: bytes = msgpack.packb(fields)
        return [HEAD.pack(MAGIC, VERSION, len(body), crc32(body)), body]

    def _pack(self, state: OperatorState, element: Any) -> bytes:
        try:
            return self._store.pack(state, element)
        except Exception as cause:
            value = element[1] if state.mode is StateMode.BROADCAST else element
            raise StateError(
                f'operator state "{state.name}" of operator "{self._operator}" (uid {self._uid}) '
                f"cannot be written to a checkpoint, at the element {reprlib.repr(element)} with a "
                f"{type(value).__name__}: {text_of(cause)}; register the class, or give the "
                f"state's descriptor a serializer"
            ) from cause


@dataclass(frozen=True, slots=True)
class Written:
    """One state of one subtask in a checkpoint."""

    mode: StateMode
    serializer: str | None
    elements: tuple[bytes, ...]


def restore_operator_state(
    store: OperatorStateStore, uid: str, parts: Sequence[bytes], index: int, parallelism: int
) -> Iterator[None]:
    """Restore the share of subtask ``index`` from the parts of all subtasks, in their order.

    An empty part stands for a subtask without state. Raises StateError or CheckpointCorruptedError.
    """
    written = []
    for part in parts:
        written.append(_parse(part, uid) if part else {})
        yield
    for name in dict.fromkeys(name for states in written for name in states):
        had = [states.get(name) for states in written]
        known = [one for one in had if one is not None]
        first = known[0]
        if any((one.mode, one.serializer) != (first.mode, first.serializer) for one in known):
            raise StateError(
                f'operator state "{name}" was written in different ways by two subtasks: the parts '
                "belong to different checkpoints"
            )
        elements = [() if one is None else one.elements for one in had]
        state = store.named(name, first.mode, first.serializer)
        state.restored = list(redistribute(first.mode, elements, index, parallelism))
        yield


def redistribute(
    mode: StateMode, had: Sequence[Sequence[bytes]], index: int, parallelism: int
) -> Sequence[bytes]:
    """Return the share of a subtask of the elements that each old subtask had."""
    if mode is StateMode.BROADCAST:
        return had[index % len(had)]
    if mode is StateMode.SPLIT and len(had) == parallelism:
        return had[index]
    row = [element for elements in had for element in elements]
    if mode is StateMode.UNION:
        return row
    share, longer = divmod(len(row), parallelism)
    start = index * share + min(index, longer)
    return row[start : start + share + (index < longer)]


def _parse(part: bytes, uid: str) -> dict[str, Written]:
    if len(part) < HEAD.size:
        raise _damaged("it is too short to have a header")
    magic, version, size, checksum = HEAD.unpack_from(part)
    if magic != MAGIC:
        raise _damaged("it does not begin with the mark of operator state")
    if version != VERSION:
        raise CheckpointCorruptedError(
            f"operator state in form {version} cannot be read here, because this flinknet reads "
            f"form {VERSION}: use the version of flinknet that wrote it, or a later one"
        )
    body = part[HEAD.size :]
    if len(body) != size or crc32(body) != checksum:
        raise _damaged("it was changed or cut")
    try:
        fields = msgpack.unpackb(body, use_list=False)
        written_by, states = fields["uid"], fields["states"]
        found = {
            str(name): Written(StateMode(mode), serializer, tuple(map(bytes, elements)))
            for name, mode, serializer, elements in states
        }
    except (KeyError, TypeError, ValueError, msgpack.UnpackException) as cause:
        raise _damaged(f"its content is invalid ({type(cause).__name__}: {cause})") from cause
    if written_by != uid:
        raise StateError(
            f"the operator state of uid {written_by} cannot be restored to uid {uid}: set the "
            "operator's uid"
        )
    return found


def _damaged(what: str) -> CheckpointCorruptedError:
    return CheckpointCorruptedError(f"this is not operator state that can be restored: {what}")
