"""Steps: calls to await, made for an interpreter that compiles Python.

Theory of operation. A step is *new*, *begun* or *over*, and awaited once, like a coroutine. What it
does first is a plain call, with which most steps are over; the others go on as a coroutine. To
PyPy's compiler such an object never leaves the loop that awaits it, so nothing is left of it but
the call, while it can look into no coroutine: that takes 50 ns, a step none. CPython, which calls
Python's own coroutines from C, takes 150 ns for a coroutine and 500 for a step; so there is a
coroutine function wherever there is a step, for CPython.

Nobody is warned of a step that is never awaited, which does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Self

from flinknet.interpreter import apart

__all__ = ["Rest", "Step"]


class Rest:
    """What a step returns that is not over: what is left of it."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine


async def _nothing() -> None:
    """What has not begun, or is over, says so in the interpreter's own words."""


_OVER = _nothing()
_OVER.close()


class Step(Coroutine[Any, Any, Any]):
    """The call of ``begin(argument)``, which returns the result, or a Rest; nothing happens before
    the step is awaited, and cancelling it before that prevents the call."""

    def __init__(self, begin: Callable[[Any], Any], argument: Any) -> None:
        self._begin = begin
        self._argument = argument
        self._rest: Coroutine[Any, Any, Any] | None = None

    def __await__(self) -> Self:
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        rest = self._rest
        if rest is None:
            self._rest = _OVER
            try:
                returned = self._begin(self._argument)
            except StopIteration as error:
                raise RuntimeError("coroutine raised StopIteration") from error
            if type(returned) is not Rest:
                raise StopIteration(returned)
            self._rest = rest = returned.coroutine
        return apart(rest.send, None)

    def send(self, value: Any) -> Any:
        """Begin, or go on."""
        return next(self) if self._rest is None else self._rest.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error; instead of beginning, be over with it."""
        rest = self._rest
        if rest is None:
            self._rest = _OVER
            rest = _nothing()
        return rest.throw(*error)

    def close(self) -> None:
        """End, or do not begin."""
        if self._rest is None:
            self._rest = _OVER
        self._rest.close()
