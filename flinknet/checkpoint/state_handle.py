"""What a subtask tells the coordinator of the state that it has written: operator by operator.

A handle is bytes, because whoever keeps the books of a checkpoint has no use for it; it is read
once, when the checkpoint's metadata is put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgpack

from flinknet.checkpoint.metadata import Section, StateKind, StatePart
from flinknet.errors import RemoteProtocolError

__all__ = ["OperatorParts", "decode_handle", "encode_handle"]

OperatorParts: TypeAlias = Sequence[tuple[str, Mapping[StateKind, StatePart]]]
"""(uid, its parts) of each operator of the subtask's chain, in order."""


def encode_handle(operators: OperatorParts) -> bytes:
    """The handle's bytes."""
    rows = [
        (uid, [(kind.value, part.name, part.inline, part.sections) for kind, part in parts.items()])
        for uid, parts in operators
    ]
    handle: bytes = msgpack.packb(rows)
    return handle


def decode_handle(handle: bytes) -> list[tuple[str, dict[StateKind, StatePart]]]:
    """Inverse of ``encode_handle``; RemoteProtocolError if these bytes are none."""
    try:
        rows = msgpack.unpackb(handle, use_list=False)
        return [(str(uid), dict(map(_part, parts))) for uid, parts in rows]
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"this is no handle of a subtask's state: {error}") from error


def _part(row: Any) -> tuple[StateKind, StatePart]:
    kind, name, inline, sections = row
    return StateKind(kind), StatePart(tuple(Section(*one) for one in sections), name, inline)
