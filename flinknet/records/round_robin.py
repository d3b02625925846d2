"""Round robin: iterator over channels, starting again after the last.

Theory of operation. The iterator is infinite, and implemented in C in both forms: with
``itertools`` here, and in ``round_robin.pyx`` as a counter that a compiled route reads without a
call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

__all__ = ["round_robin"]


def round_robin(channels: int, first: int) -> Iterator[int]:
    """Return an iterator over 0 to ``channels - 1``, repeated, that begins at ``first``."""
    return islice(cycle(range(channels)), first, None)
