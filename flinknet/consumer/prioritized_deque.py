"""A queue in which some elements overtake the others (Flink's PrioritizedDeque).

Prioritised elements stand in front of all others, in the order in which they came; so do the others
behind them. Channels with something to poll stand in one, and so does what a channel has received.

Invariant: the first ``prioritized`` elements, and no others, have priority.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["PrioritizedDeque"]

T = TypeVar("T")


class PrioritizedDeque(Generic[T]):
    """First in, first out, but for those with priority."""

    __slots__ = ("_elements", "prioritized")

    def __init__(self) -> None:
        self.prioritized = 0
        self._elements: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[T]:
        return iter(self._elements)

    def append(self, element: T) -> None:
        """Add an element without priority, at the end."""
        self._elements.append(element)

    def append_prioritized(self, element: T) -> None:
        """Add an element with priority, behind those that have it already."""
        self._elements.insert(self.prioritized, element)
        self.prioritized += 1

    def prioritize(self, element: T) -> None:
        """Give priority to an element that is here; it keeps its place if it has it already."""
        if self._elements.index(element) >= self.prioritized:
            self._elements.remove(element)
            self.append_prioritized(element)

    def remove(self, element: T) -> None:
        """Take an element out, wherever it is. Raises ValueError if it is not here."""
        if self._elements.index(element) < self.prioritized:
            self.prioritized -= 1
        self._elements.remove(element)

    def popleft(self) -> T:
        """Take the first element. Raises IndexError if there is none."""
        if self.prioritized:
            self.prioritized -= 1
        return self._elements.popleft()

    def peek(self) -> T | None:
        """Return the first element, None if there is none."""
        return self._elements[0] if self._elements else None

    def clear(self) -> list[T]:
        """Take all elements."""
        elements = list(self._elements)
        self._elements.clear()
        self.prioritized = 0
        return elements
