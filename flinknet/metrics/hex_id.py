"""Ids in the form that Flink's have, made of names: 32 hex digits."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["hex_id"]


def hex_id(name: str) -> str:
    """The id of whoever has the name; it is the same each time the job is submitted. Of an
    operator's uid it is Flink's OperatorID, and of a chain's first operator its JobVertexID."""
    return blake2b(name.encode(errors="backslashreplace"), digest_size=16).hexdigest()
