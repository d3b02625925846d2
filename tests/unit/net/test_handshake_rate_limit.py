"""Turns of TLS handshakes: a limited number in a second, and sources in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from flinknet.net.handshake_rate_limit import HandshakeRateLimit


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        self._due.append((when, callback))
        return asyncio.Handle

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted(one for one in self._due if one[0] <= end):
            self._due.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = end


def test_a_flood_begins_no_more_handshakes_than_a_second_has() -> None:
    clock, begun = Clock(), list[float]()
    turns = HandshakeRateLimit(clock, 64)
    for _ in range(1000):
        turns.take("10.0.0.1", lambda: begun.append(clock.now))
    assert len(begun) == 33, "half a second's at once"
    for second in range(1, 4):
        clock.advance(1.0)
        assert abs(len(begun) - 33 - 64 * second) <= 1


def test_a_flood_of_one_source_delays_another_by_one_turn() -> None:
    clock, begun = Clock(), list[str]()
    turns = HandshakeRateLimit(clock, 64)
    for _ in range(200):
        turns.take("10.0.0.1", partial(begun.append, "flood"))
    turns.take("10.0.0.2", partial(begun.append, "good"))
    before = len(begun)
    clock.advance(2 / 64)
    assert begun[before:] == ["flood", "good"]


def test_a_socket_that_has_left_uses_no_slot() -> None:
    clock, begun = Clock(), list[str]()
    turns = HandshakeRateLimit(clock, 2)
    for name in "abc":
        turns.take("10.0.0.1", partial(begun.append, name))
    gone = partial(begun.append, "gone")
    turns.take("10.0.0.2", gone)
    turns.leave("10.0.0.2", gone)
    turns.leave("10.0.0.2", gone)
    clock.advance(5.0)
    assert begun == ["a", "b", "c"]
    assert len(turns) == 0
