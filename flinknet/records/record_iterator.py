"""The iterator over records, one batch after the other: what stands in the way of every record.

Theory of operation. Most records are there already; only for the first of a batch is there
something to wait for, which ``begin`` makes a coroutine of. Compiled, there is no object for
a record at all (``record_iterator.pyx``); PyPy has awaitable calls.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self

from flinknet.interpreter import COMPILES_PYTHON
from flinknet.records.awaitable_call import AwaitableCall, Continuation

__all__ = ["RecordIterator"]


class RecordIterator:
    """Iterates over the records that it has, then goes on with what the coroutine returns that
    ``begin`` makes, which may give it more; it raises StopAsyncIteration at the end.

    One task iterates at a time.
    """

    __slots__ = ("_begin", "_left")

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._begin = begin
        self._left: Iterator[Any] = iter(())

    def hand_out(self, records: tuple[Any, ...]) -> Any:
        """Have these, at least one, in place of any others, and return the first."""
        self._left = iter(records)
        return next(self._left)

    def take_left(self) -> tuple[Any, ...]:
        """Return what it has not handed out, and have nothing any more."""
        return tuple(self._left)

    def __aiter__(self) -> Self:
        return self

    if COMPILES_PYTHON:

        def __anext__(self) -> Coroutine[Any, Any, Any]:
            return AwaitableCall(RecordIterator._begin_next, self)

        def _begin_next(self) -> Any:
            for record in self._left:
                return record
            return Continuation(self._begin())

    else:

        async def __anext__(self) -> Any:
            for record in self._left:
                return record
            return await self._begin()
