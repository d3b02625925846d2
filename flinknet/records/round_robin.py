"""Whose turn it is: channels one after the other, and again from the first.

Theory of operation. An iterator without an end, in C either way: what ``itertools`` has, or
(``round_robin.pyx``) a counter that a compiled route looks at without a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

__all__ = ["round_robin"]


def round_robin(channels: int, first: int) -> Iterator[int]:
    """Return 0 to ``channels - 1`` and again, beginning at ``first``, which is one of them."""
    return islice(cycle(range(channels)), first, None)
