"""What Python objects take, traced while it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flinknet.interpreter import COMPILES_PYTHON

__all__ = ["TracedMemory", "traced_memory"]


class TracedMemory:
    """What has been allocated since the tracing began, in bytes."""

    @property
    def now(self) -> int:
        """As much of it as is still there."""
        import tracemalloc

        return tracemalloc.get_traced_memory()[0]

    @property
    def peak(self) -> int:
        """The most that was there at any time."""
        import tracemalloc

        return tracemalloc.get_traced_memory()[1]


@contextmanager
def traced_memory() -> Iterator[TracedMemory]:
    """Trace allocations; with PyPy, which cannot, the test is skipped."""
    if COMPILES_PYTHON:
        pytest.skip("PyPy does not trace allocations")
    import tracemalloc

    tracemalloc.start()
    try:
        yield TracedMemory()
    finally:
        tracemalloc.stop()
