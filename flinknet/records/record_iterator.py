"""The iterator over records, one buffer after the other: what stands in the way of every record.

Theory of operation. Most records are there already; only for the first of a buffer is there
something to wait for, which ``begin`` makes a coroutine of. Compiled, there is no object for
a record at all, and records are unpacked one by one, as they are asked for
(``record_iterator.pyx``); PyPy has awaitable calls.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self

from flinknet.interpreter import COMPILES_PYTHON
from flinknet.records.awaitable_call import AwaitableCall, Continuation
from flinknet.records.serialization.elements import UnpackRecords

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

    def hand_out(
        self,
        content: memoryview,
        start: int,
        end: int,
        number: int,
        *,
        unpacked: tuple[Any, ...],
        length_max: int,
        unpack: UnpackRecords,
    ) -> Any:
        """Have, in place of any others, records that are ``unpacked`` and behind them those that
        stand from ``start`` to ``end``, so many, in a buffer whose ``content`` is released when all
        are there. Return the first; there is at least one.

        The latter are unpacked when they are asked for, or now. What ``unpack`` raises is raised
        where the first of those is asked for that it was to unpack: here, by the iteration, or by
        ``take_left``.

        Args:
            content: memory that stays as it is until then.
            start: where the whole records begin.
            end: where they end.
            number: of them.
            unpacked: the records that come before them.
            length_max: nothing up to this is refused for its length.
            unpack: unpacks whole records.
        """
        with content:
            if start < end or number:
                unpacked += unpack(content, start, end, number)
        self._left = iter(unpacked)
        return next(self._left)

    def take_left(self) -> tuple[Any, ...]:
        """Return what it has not handed out, and have nothing any more."""
        return tuple(self._left)

    def drop(self) -> None:
        """Have nothing any more."""
        self._left = iter(())

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
