"""A process that was held up itself must not blame others for their silence."""

from __future__ import annotations

from flinknet.cluster.control.presence import Presence


def test_a_tick_in_time_credits_nothing() -> None:
    presence = Presence(now=10.0, interval_s=1.0)
    assert presence.next_tick == 11.0
    assert [presence.tick(now) for now in (11.0, 12.5, 14.5)] == [0.0, 0.0, 0.0]
    assert presence.next_tick == 15.5


def test_a_late_tick_credits_all_of_the_gap_once() -> None:
    presence = Presence(now=10.0, interval_s=1.0)
    assert presence.tick(52.0) == 42.0
    assert presence.tick(53.0) == 0.0
