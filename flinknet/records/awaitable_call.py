"""Awaitable calls, for an interpreter that compiles Python.

Theory of operation. An awaitable call is *new*, *begun* or *over*, and awaited once, like a
coroutine. What it does first is a plain call, with which most are over; the others go on as a
coroutine, their continuation. To PyPy's compiler such an object never leaves the loop that awaits
it, so nothing is left of it but the call, while it can look into no coroutine: that takes 50 ns,
this none. CPython, which calls Python's own coroutines from C, takes 150 ns for a coroutine and 500
for this; so there is a coroutine function wherever there is an awaitable call, for CPython.

Nobody is warned of one that is never awaited, which does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Self

from flinknet.interpreter import residual_call

__all__ = ["AwaitableCall", "Continuation", "nothing"]


class Continuation:
    """What a call returns that is not over: what is left of it."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine


async def nothing() -> None:
    """What stands for a coroutine and has not begun, or is over, has this say so: in the
    interpreter's own words."""


_OVER = nothing()
_OVER.close()


class AwaitableCall(Coroutine[Any, Any, Any]):
    """The call of ``begin(argument)``, which returns the result, or a Continuation; nothing happens
    before this is awaited, and cancelling it before that prevents the call."""

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
            if type(returned) is not Continuation:
                raise StopIteration(returned)
            self._rest = rest = returned.coroutine
        return residual_call(rest.send, None)

    def send(self, value: Any) -> Any:
        """Begin, or go on."""
        return next(self) if self._rest is None else self._rest.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error; instead of beginning, be over with it."""
        rest = self._rest
        if rest is None:
            self._rest = _OVER
            rest = nothing()
        return rest.throw(*error)

    def close(self) -> None:
        """End, or do not begin."""
        if self._rest is None:
            self._rest = _OVER
        self._rest.close()
