from __future__ import annotations

from collections.abc import Callable

__all__ = ["Turns"]


class Turns:
    """An event loop with turns and a clock that the test controls."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.later.append((self.now + delay_s, callback))

    def turn(self, seconds: float = 0.0) -> None:
        self.now += seconds
        due = [callback for when, callback in self.later if when <= self.now]
        self.later = [timer for timer in self.later if timer[0] > self.now]
        callbacks, self.soon = self.soon + due, []
        for callback in callbacks:
            callback()
