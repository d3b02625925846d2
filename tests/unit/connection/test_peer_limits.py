"""Budgets: actions that a peer may take once in a while, but not all the time."""

from __future__ import annotations

from flinknet.connection.peer_limits import RateLimit, ReaderQuota, UnmetRequestPacer
from flinknet.wire.messages import MessageType

M = MessageType
HEARTBEAT = b"\x91\x0c"


def test_a_budget_is_for_a_minute() -> None:
    budget = RateLimit(2)
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


# -- unmet requests --------------------------------------------------------------------------------


def test_unmet_requests_have_places_in_time() -> None:
    """The slots for half a second are given in advance, then one after the other.

    Unused slots are not saved.
    """
    places = UnmetRequestPacer(10)
    assert [round(places.reserve_slot(100.0) - 100.0, 9) for _ in range(7)] == [
        -0.4,
        -0.3,
        -0.2,
        -0.1,
        0.0,
        0.1,
        0.2,
    ]
    assert round(places.reserve_slot(1000.0), 9) == 999.6
