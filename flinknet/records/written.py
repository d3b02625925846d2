"""The awaitable for a record that is already written.

Theory of operation. A single object serves all records. It is always complete, so awaiting it is a
call into C, without Python code. ``__await__`` in its class is a weak reference to a finished
generator. Every ``await`` calls it and receives the generator, which ends at once, any number of
times. The object is a Coroutine, so tasks can be created from it, and be cancelled; that does not
affect the record.
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
    """A completed coroutine."""

    __slots__ = ()

    __await__ = ref(_ended)  # type: ignore[assignment]

    def send(self, value: Any) -> Any:
        """Raise StopIteration: the coroutine is complete."""
        raise StopIteration

    def throw(self, *error: Any) -> Any:
        """Raise the error."""
        return _generate().throw(*error)

    def close(self) -> None:
        """Do nothing: the coroutine is complete."""


WRITTEN: Final[Coroutine[Any, Any, None]] = _Written()
