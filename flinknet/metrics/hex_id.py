"""Ids in the format of Flink's, derived from names: 32 hex digits."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["hex_id"]


def hex_id(name: str) -> str:
    """Return the id for a name; it is the same each time the job is submitted.

    For an operator's uid it serves as Flink's OperatorID, for a chain's first operator as its
    JobVertexID.
    """
    return blake2b(name.encode(errors="backslashreplace"), digest_size=16).hexdigest()
