"""Budgets: what a peer may do once, and not all the time."""

from __future__ import annotations

from flinknet.connection.peer_budget import MinuteBudget, ReaderQuota
from flinknet.wire.messages import MessageType

M = MessageType
HEARTBEAT = b"\x91\x0c"


def test_a_budget_is_for_a_minute() -> None:
    budget = MinuteBudget(2)
    assert [budget.spend(now) for now in (5.0, 6.0, 64.9, 65.0, 65.1, 65.2)] == [
        True,
        True,
        False,
        True,
        True,
        False,
    ]


def test_a_quota_is_taken_and_given_back() -> None:
    quota = ReaderQuota(2)
    assert [quota.take() for _ in range(3)] == [True, True, False]
    quota.give_back()
    assert quota.take()
    assert quota.taken == 2


# -- what needs nothing behind it ------------------------------------------------------------------
