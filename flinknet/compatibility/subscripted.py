"""Type parameters of classes: ``DataStream[int]``, ``Trigger[tuple, TimeWindow]``.

Type checkers read ``Subscripted`` as ``typing.Generic``. At run time the parameters are erased: a
class returns itself when it is subscripted, with any number of types, as programs for PyFlink do.

Every parameter defaults to Any (PEP 696), so a program without type parameters is valid under
``mypy --strict``, too. Checkers bring their own description of ``typing_extensions``, which knows
such defaults for every version of Python; the package does not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

__all__ = ["A", "B", "C", "K", "R", "Subscripted", "T", "T_co", "T_contra", "TypeVar", "W"]

if TYPE_CHECKING:
    from typing import Generic as Subscripted

    from typing_extensions import TypeVar
else:
    from typing import TypeVar as _TypeVar

    def TypeVar(name: str, **settings: Any) -> _TypeVar:  # noqa: N802
        """Return a type variable, which no code reads at run time."""
        return _TypeVar(name)

    class Subscripted:
        """A class that returns itself when it is subscripted with types."""

        __slots__ = ()

        def __class_getitem__(cls, types: Any) -> type[Self]:
            return cls


T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True, default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)
"""The records of a stream, a source or a sink."""
A = TypeVar("A", default=Any)
B = TypeVar("B", default=Any)
C = TypeVar("C", default=Any)
"""The records that a function takes and emits, in order."""
K = TypeVar("K", default=Any)
"""The key of a record."""
R = TypeVar("R", default=Any)
"""The result of a function."""
W = TypeVar("W", default=Any)
"""The windows of a window assigner."""
