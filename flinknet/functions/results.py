"""The types of the results that functions return."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterable
from typing import Any, Protocol, TypeAlias

from flinknet.compatibility.subscripted import T

__all__ = ["MaybeAwaitable", "Results", "ResultsOrTagged", "Tagged"]


class _Tag(Protocol):
    """An ``OutputTag``, which is defined above the functions."""

    @property
    def tag_id(self) -> str: ...


Tagged: TypeAlias = tuple[_Tag, Any]
"""A tag and a value for its side output."""

MaybeAwaitable: TypeAlias = Awaitable[T] | T
"""The result of a plain function or of a coroutine function."""

Results: TypeAlias = Iterable[T] | AsyncIterable[T] | Awaitable[Iterable[T] | None] | None
"""Any number of records; None means none."""

ResultsOrTagged: TypeAlias = (
    Iterable[T | Tagged] | AsyncIterable[T | Tagged] | Awaitable[Iterable[T | Tagged] | None] | None
)
"""Any number of records, and of values for side outputs."""
