"""Which of too many pending handshakes is closed."""

from __future__ import annotations

from flinknet.net.pending_handshakes import PendingHandshakes

TIMEOUT_S = 5.0
LATER = 1.0
"""The time after which a connection without any bytes counts as silent."""


class Socket:
    def __init__(self, name: str, *, silent: bool = True) -> None:
        self.name = name
        self.is_silent = silent

    def __repr__(self) -> str:
        return self.name


class Arranged:
    def __init__(self, limit: int = 3) -> None:
        self.pending: PendingHandshakes[Socket] = PendingHandshakes(limit, TIMEOUT_S)

    def add(self, name: str, source: str, now: float = 0.0, *, silent: bool = True) -> Socket:
        socket = Socket(name, silent=silent)
        self.pending.add(socket, source, now)
        self.pending.check_invariants()
        return socket

    def who_goes(self, newcomer: Socket, now: float = LATER) -> str | None:
        excess = self.pending.excess(now, newcomer)
        return None if excess is None else excess.name


def test_no_socket_is_dropped_while_there_is_room() -> None:
    arranged = Arranged()
    for name in "abc":
        newcomer = arranged.add(name, "one")
        assert arranged.who_goes(newcomer) is None


def test_the_oldest_that_has_said_nothing_goes() -> None:
    """All connections on loopback have one source, but honest dials send bytes."""
    arranged = Arranged()
    arranged.add("talks", "one", silent=False)
    arranged.add("silent", "one")
    arranged.add("silent, too", "one")
    assert arranged.who_goes(arranged.add("new", "one", LATER)) == "silent"


def test_the_source_that_has_the_most_pays() -> None:
    """Many connections from one host do not displace the dials of other hosts."""
    arranged = Arranged()
    arranged.add("honest and slow", "other")
    arranged.add("first", "greedy")
    arranged.add("second", "greedy")
    assert arranged.who_goes(arranged.add("new", "third", LATER)) == "first"


def test_if_all_have_said_something_the_oldest_goes() -> None:
    arranged = Arranged()
    for name in "abc":
        arranged.add(name, "one", silent=False)
    assert arranged.who_goes(arranged.add("new", "one", LATER)) == "a"


def test_very_young_sockets_are_spared_and_the_newcomer_is_refused() -> None:
    """In a storm of honest dials the event loop has not yet read their bytes."""
    arranged = Arranged()
    for name in "abc":
        arranged.add(name, "one")
    assert arranged.who_goes(arranged.add("new", "one"), now=0.05) == "new"


def test_a_completed_handshake_makes_room() -> None:
    arranged = Arranged()
    first, *_ = [arranged.add(name, "one") for name in "abc"]
    assert arranged.pending.discard(first)
    assert not arranged.pending.discard(first)
    assert first not in arranged.pending
    arranged.pending.check_invariants()
    assert arranged.who_goes(arranged.add("new", "one", LATER)) is None
    assert len(arranged.pending) == 3


def test_the_oldest_silent_one_of_some_is_found() -> None:
    arranged = Arranged()
    talks = arranged.add("talks", "one", silent=False)
    other = arranged.add("other", "one")
    silent = arranged.add("silent", "one")
    young = arranged.add("young", "one", LATER)
    find = arranged.pending.oldest_silent
    assert find(LATER, {talks, silent, young}) is silent
    assert find(LATER, {talks, other, silent}) is other
    assert find(LATER, {talks, young}) is None
