"""A queue in which priority elements overtake the others (Flink's PrioritizedDeque).

Priority elements are in front of all others. Both groups are in order of arrival. It holds the
channels with buffers to poll, and the received buffers of a channel.

Invariant: the first ``prioritized`` elements, and no others, have priority.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

__all__ = ["PrioritizedDeque"]

T = TypeVar("T")


class PrioritizedDeque(deque[T]):
    """FIFO queue with priority elements in front.

    ``append`` adds an element without priority. The caller takes the first element with ``popleft``
    if ``prioritized`` is 0, and with ``pop_prioritized`` otherwise.
    """

    __slots__ = ("prioritized",)

    def __init__(self) -> None:
        super().__init__()
        self.prioritized = 0

    def append_prioritized(self, element: T) -> None:
        """Add an element with priority, behind the other priority elements."""
        self.insert(self.prioritized, element)
        self.prioritized += 1

    def prioritize(self, element: T) -> None:
        """Give priority to a queued element; it keeps its place if it has priority already."""
        if self.index(element) >= self.prioritized:
            super().remove(element)
            self.append_prioritized(element)

    def remove(self, element: T) -> None:
        """Remove an element from any place.

        Raises:
            ValueError: If it is not queued.
        """
        if self.index(element) < self.prioritized:
            self.prioritized -= 1
        super().remove(element)

    def pop_prioritized(self) -> T:
        """Take the first element, which must have priority."""
        self.prioritized -= 1
        return self.popleft()

    def clear(self) -> None:
        """Remove all elements."""
        super().clear()
        self.prioritized = 0
