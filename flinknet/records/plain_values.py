"""What is packed in place of a value that the packer does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["plainer"]

_KINDS: dict[type, Callable[[Any], Any]] = {
    int: int.__index__,
    float: float.__float__,
    str: str.__str__,
    bytes: bytes.__bytes__,
    bytearray: bytes,
}
"""Their subclasses are packed as what they are without their own methods."""


def plainer(value: Any) -> Any:
    """Return the value without its own class; raises TypeError if that leaves nothing to pack."""
    for kind, as_kind in _KINDS.items():
        if isinstance(value, kind):
            return as_kind(value)
    raise TypeError(f"{type(value).__name__} has no form in msgpack")
