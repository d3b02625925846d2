"""What there is to await for a record that is written already.

Theory of operation. One object stands for all of them. It is over whenever it is asked: awaiting it
is a call into C, and none of Python's. In its class ``__await__`` is a weak reference to a
generator that has ended; called, as every ``await`` does, it returns the generator, and a generator
that has ended is over at once, as often as it is asked. As it is a Coroutine, tasks can be made of
it, and be cancelled, like of any other; that changes nothing about the record.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Final
from weakref import ref

__all__ = ["WRITTEN"]


def _generate() -> Generator[Any, Any, None]:
    yield from ()


_ended = _generate()
next(_ended, None)


class _Written(Coroutine[Any, Any, None]):
    """A coroutine that is over."""

    __slots__ = ()

    __await__ = ref(_ended)  # type: ignore[assignment]

    def send(self, value: Any) -> Any:
        """Be over."""
        raise StopIteration

    def throw(self, *error: Any) -> Any:
        """Be over with an error."""
        return _generate().throw(*error)

    def close(self) -> None:
        """Be over, as ever."""


WRITTEN: Final[Coroutine[Any, Any, None]] = _Written()
