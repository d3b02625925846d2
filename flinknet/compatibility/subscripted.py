"""Type arguments of PyFlink's classes: ``WindowFunction[tuple, tuple, str, TimeWindow]``.

The arguments document the types that a class takes and returns; no code reads them at run time.
"""

from __future__ import annotations

from typing import Any, Self

__all__ = ["Subscripted"]


class Subscripted:
    """A class that returns itself when it is subscripted with types."""

    __slots__ = ()

    def __class_getitem__(cls, types: Any) -> type[Self]:
        return cls
