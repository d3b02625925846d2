"""Connections to the control plane are limited, and none waits for long."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinknet.cluster.control.http_connections import HttpConnections


def connections(connections_max: int = 3) -> HttpConnections[str]:
    return HttpConnections(connections_max=connections_max, request_timeout_s=10.0)


def test_a_connection_that_waits_too_long_is_overdue() -> None:
    table = connections()
    assert table.deadline is None
    assert [table.accept(name, now) for now, name in enumerate("ab")] == [None, None]
    assert table.deadline == 10.0
    assert table.overdue(9.9) == []
    assert table.overdue(10.0) == ["a"]
    assert table.overdue(11.0) == ["a", "b"]


def test_a_busy_connection_is_never_overdue_and_waits_anew_afterwards() -> None:
    table = connections()
    table.accept("a", 0.0)
    table.begin("a")
    assert table.deadline is None
    assert table.overdue(1000.0) == []
    table.end("a", 1000.0)
    assert table.deadline == 1010.0
    table.progress("a", 1005.0)
    assert table.overdue(1014.0) == []


def test_the_connection_that_has_waited_longest_makes_room() -> None:
    table = connections()
    for now, name in enumerate("abc"):
        table.accept(name, now)
    table.begin("a")
    assert table.accept("d", 3.0) == "b"
    table.end("a", 4.0)
    assert [table.accept(name, 5.0) for name in "ef"] == ["c", "d"]
    assert table.accept("g", 6.0) == "a"


def test_a_connection_is_refused_when_all_are_busy() -> None:
    table = connections()
    for name in "abc":
        table.accept(name, 0.0)
        table.begin(name)
    assert table.accept("d", 1.0) == "d"
    assert len(table) == 3
    table.lose("a")
    assert table.accept("e", 1.0) is None


class Histories(RuleBasedStateMachine):
    """Any order of events, including events of closed connections."""

    def __init__(self) -> None:
        super().__init__()
        self.table: HttpConnections[int] = HttpConnections(connections_max=4, request_timeout_s=9.0)
        self.now = 0.0
        self.made = 0

    @rule(seconds=st.floats(0, 20))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for connection in self.table.overdue(self.now):
            self.table.lose(connection)
        assert self.table.deadline is None or self.table.deadline > self.now

    @rule()
    def accept(self) -> None:
        self.made += 1
        self.table.accept(self.made, self.now)

    @rule(back=st.integers(0, 6), event=st.sampled_from(["begin", "end", "progress", "lose"]))
    def happen(self, back: int, event: str) -> None:
        connection = self.made - back
        if event in ("begin", "lose"):
            getattr(self.table, event)(connection)
        else:
            getattr(self.table, event)(connection, self.now)

    @invariant()
    def holds(self) -> None:
        self.table.check_invariants()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=50)
