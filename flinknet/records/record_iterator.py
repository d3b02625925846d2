"""Iterator over records, buffer by buffer; every record passes through it.

Theory of operation. Most records have already arrived. Only the first record of a buffer may need a
wait, for which ``begin`` creates a coroutine. The compiled form (``record_iterator.pyx``) creates
no object per record, and unpacks records one by one when they are requested.

``ArrivedRecords`` returns only the records that have arrived. It shares its position with the
iterator.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from operator import length_hint
from typing import Any, Self

from flinknet.records.serialization.elements import UnpackRecords

__all__ = ["ArrivedRecords", "RecordIterator"]


class RecordIterator:
    """Iterator over the records that it holds, and then over the records of ``begin``.

    When no record is left, the iterator awaits the coroutine of ``begin`` and returns its result.
    The coroutine may supply more records with ``have``, and raises StopAsyncIteration at the end.
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
        """Replace all records by ``unpacked``, followed by ``number`` packed records.

        The packed records are unpacked when they are requested, or now. An error of ``unpack`` is
        raised when the first record that it should unpack is requested: here, by an iteration, or
        by ``take_all``.

        Args:
            content: Buffer memory; it must not change until it is released, after the last record.
            start: The offset of the first packed record.
            end: The offset after the last packed record.
            number: The number of packed records.
            unpacked: Records that precede the packed ones.
            length_max: No value up to this length is refused for its length.
            unpack: Unpacks whole records.
        """
        self.drop()
        with content:
            if start < end or number:
                unpacked += unpack(content, start, end, number)
        self._have(unpacked)

    def drop(self) -> None:
        """Drop all records."""
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
    """Iterator over the records that have arrived, which need no wait.

    ``length_hint`` returns the exact number of records left. The iteration ends after the last
    record, and continues when the owner has more.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: RecordIterator) -> None:
        self._owner = owner

    def take_all(self) -> tuple[Any, ...]:
        """Return all records left, and drop them."""
        left = tuple(self._owner._left)
        self._owner.drop()
        return left

    @property
    def last(self) -> Any:
        """The record that was returned last; None before the first.

        It is known until the records are dropped, taken by ``take_all``, or replaced.
        """
        records = self._owner._records
        handed_out = len(records) - length_hint(self._owner._left)
        return records[handed_out - 1] if handed_out else None

    def __length_hint__(self) -> int:
        return length_hint(self._owner._left)

    def __iter__(self) -> Iterator[Any]:
        return self._owner._left  # the inner iterator, to save a call per record

    def __next__(self) -> Any:
        return next(self._owner._left)
