"""Types behind the names of PyFlink's classes: ``WindowFunction[tuple, tuple, str, TimeWindow]``.

They say what a class takes and gives, to who reads; nothing looks at them when it runs.
"""

from __future__ import annotations

from typing import Any, Self

__all__ = ["Subscripted"]


class Subscripted:
    """A class that is itself when it is subscripted with types."""

    __slots__ = ()

    def __class_getitem__(cls, types: Any) -> type[Self]:
        return cls
