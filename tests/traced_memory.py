"""What Python objects take, traced while it is asked for."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TracedMemory", "traced_memory"]


class TracedMemory:
    """What has been allocated since the tracing began, in bytes."""

    @property
    def now(self) -> int:
        """As much of it as is still there."""
        return tracemalloc.get_traced_memory()[0]

    @property
    def peak(self) -> int:
        """The most that was there at any time."""
        return tracemalloc.get_traced_memory()[1]


@contextmanager
def traced_memory() -> Iterator[TracedMemory]:
    """Trace allocations."""
    tracemalloc.start()
    try:
        yield TracedMemory()
    finally:
        tracemalloc.stop()
