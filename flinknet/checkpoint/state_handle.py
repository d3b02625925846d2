"""A handle: the description of a subtask's written state, operator by operator.

A subtask sends it to the coordinator as bytes, which are opaque to the classes that keep pending
checkpoints. It is decoded once, when the metadata of the checkpoint is put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgpack

from flinknet.checkpoint.metadata import Section, StateKind, StatePart
from flinknet.errors import RemoteProtocolError

__all__ = ["OperatorParts", "decode_handle", "encode_handle"]

OperatorParts: TypeAlias = Sequence[tuple[str, Mapping[StateKind, StatePart]]]
"""Pairs (uid, parts) of the operators of the subtask's chain, in order."""


def encode_handle(operators: OperatorParts) -> bytes:
    """Return the bytes of a handle."""
    rows = [
        (uid, [(kind.value, part.name, part.inline, part.sections) for kind, part in parts.items()])
        for uid, parts in operators
    ]
    handle: bytes = msgpack.packb(rows)
    return handle


def decode_handle(handle: bytes) -> list[tuple[str, dict[StateKind, StatePart]]]:
    """Return the content of a handle. Raises RemoteProtocolError if it is invalid."""
    try:
        rows = msgpack.unpackb(handle, use_list=False)
        return [(str(uid), dict(map(_part, parts))) for uid, parts in rows]
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"this is not a handle of a subtask's state: {error}") from error


def _part(row: Any) -> tuple[StateKind, StatePart]:
    kind, name, inline, sections = row
    return StateKind(kind), StatePart(tuple(Section(*one) for one in sections), name, inline)
