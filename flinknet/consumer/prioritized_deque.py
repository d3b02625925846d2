"""A queue in which some elements overtake the others (Flink's PrioritizedDeque).

Prioritised elements stand in front of all others, in the order in which they came; so do the others
behind them. Channels with something to poll stand in one, and so does what a channel has received.

Invariant: the first ``prioritized`` elements, and no others, have priority.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

__all__ = ["PrioritizedDeque"]

T = TypeVar("T")


class PrioritizedDeque(deque[T]):
    """First in, first out, but for those with priority. ``append`` adds one without; the first one
    is taken with ``popleft`` if ``prioritized`` is 0, with ``pop_prioritized`` if it is not."""

    __slots__ = ("prioritized",)

    def __init__(self) -> None:
        super().__init__()
        self.prioritized = 0

    def append_prioritized(self, element: T) -> None:
        """Add an element with priority, behind those that have it already."""
        self.insert(self.prioritized, element)
        self.prioritized += 1

    def prioritize(self, element: T) -> None:
        """Give priority to an element that is here; it keeps its place if it has it already."""
        if self.index(element) >= self.prioritized:
            super().remove(element)
            self.append_prioritized(element)

    def remove(self, element: T) -> None:
        """Take an element out, wherever it is. Raises ValueError if it is not here."""
        if self.index(element) < self.prioritized:
            self.prioritized -= 1
        super().remove(element)

    def pop_prioritized(self) -> T:
        """Take the first element, which has priority."""
        self.prioritized -= 1
        return self.popleft()

    def clear(self) -> None:
        """Drop all elements."""
        super().clear()
        self.prioritized = 0
