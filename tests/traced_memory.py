"""Memory of Python objects, measured with tracemalloc."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TracedMemory", "traced_memory"]


class TracedMemory:
    """Bytes allocated since tracing began."""

    @property
    def now(self) -> int:
        """Bytes still allocated."""
        return tracemalloc.get_traced_memory()[0]

    @property
    def peak(self) -> int:
        """Peak of the allocated bytes."""
        return tracemalloc.get_traced_memory()[1]


@contextmanager
def traced_memory() -> Iterator[TracedMemory]:
    """Trace allocations inside the block."""
    tracemalloc.start()
    try:
        yield TracedMemory()
    finally:
        tracemalloc.stop()
