"""The iterator over records, one buffer after the other: what stands in the way of every record.

Theory of operation. Most records are there already; only for the first of a buffer is there
something to wait for, which ``begin`` makes a coroutine of. Compiled, there is no object for
a record at all, and records are unpacked one by one, as they are asked for
(``record_iterator.pyx``).

Who wants no more than those that are there takes them from ``ArrivedRecords``, which is the same
place in the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from operator import length_hint
from typing import Any, Self

from flinknet.records.serialization.elements import UnpackRecords

__all__ = ["ArrivedRecords", "RecordIterator"]


class RecordIterator:
    """Iterates over the records that it has, then goes on with what the coroutine returns that
    ``begin`` makes, which may give it more; it raises StopAsyncIteration at the end.

    One task iterates at a time.
    """

    __slots__ = ("_begin", "_left", "_records")

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._begin = begin
        self.drop()

    def have(
        self,
        content: memoryview,
        start: int,
        end: int,
        number: int,
        *,
        unpacked: tuple[Any, ...],
        length_max: int,
        unpack: UnpackRecords,
    ) -> None:
        """Have, in place of any others, records that are ``unpacked`` and behind them those that
        stand from ``start`` to ``end``, so many, in a buffer whose ``content`` is released when all
        are there.

        The latter are unpacked when they are asked for, or now. What ``unpack`` raises is raised
        where the first of those is asked for that it was to unpack: here, by an iteration, or by
        ``take_all``.

        Args:
            content: memory that stays as it is until then.
            start: where the whole records begin.
            end: where they end.
            number: of them.
            unpacked: the records that come before them.
            length_max: nothing up to this is refused for its length.
            unpack: unpacks whole records.
        """
        self.drop()
        with content:
            if start < end or number:
                unpacked += unpack(content, start, end, number)
        self._have(unpacked)

    def drop(self) -> None:
        """Have nothing any more."""
        self._have(())

    def _have(self, records: tuple[Any, ...]) -> None:
        self._records = records
        self._left: Iterator[Any] = iter(records)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        for record in self._left:
            return record
        return await self._begin()


class ArrivedRecords:
    """The records that an iterator over records has: those that nobody has to wait for.

    Iterating over them hands them out; ``length_hint`` says how many are left, precisely. It ends
    with them, and goes on when the iterator has more.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: RecordIterator) -> None:
        self._owner = owner

    def take_all(self) -> tuple[Any, ...]:
        """Hand all of them out at once."""
        left = tuple(self._owner._left)
        self._owner.drop()
        return left

    @property
    def last(self) -> Any:
        """The record that was handed out last, None before the first; known until all are dropped,
        taken by ``take_all``, or followed by others."""
        records = self._owner._records
        handed_out = len(records) - length_hint(self._owner._left)
        return records[handed_out - 1] if handed_out else None

    def __length_hint__(self) -> int:
        return length_hint(self._owner._left)

    def __iter__(self) -> Iterator[Any]:
        return self._owner._left  # without a call for each of them

    def __next__(self) -> Any:
        return next(self._owner._left)
