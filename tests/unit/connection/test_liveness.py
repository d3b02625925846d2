"""Signs of life: when a heartbeat is due, and when a peer is given up."""

from __future__ import annotations

from flinknet.connection.liveness import Liveness

INTERVAL, TIMEOUT = 10.0, 60.0


def ticks(liveness: Liveness, *, until: float, unsent_bytes: int = 0) -> list[str]:
    """Tick once per interval from 0; return the time and reason of each tick that gives the peer
    up."""
    said = []
    now = 0.0
    while now <= until:
        reason = liveness.tick(now, bytes_out=9999, unsent_bytes=unsent_bytes)
        if reason is not None:
            said.append(f"{now:.0f}: {reason}")
        now += INTERVAL
    return said


def test_a_heartbeat_is_due_after_an_interval_in_which_nothing_was_sent() -> None:
    liveness = Liveness(INTERVAL, TIMEOUT)
    assert not liveness.heartbeat_due(100, 2)
    assert liveness.heartbeat_due(100, 2)
    assert liveness.heartbeat_due(102, 2)  # the heartbeat itself does not count
    assert not liveness.heartbeat_due(150, 2)
    assert liveness.heartbeat_due(150, 2)


def test_a_heartbeat_that_could_not_be_written_yet_is_not_followed_by_another() -> None:
    liveness = Liveness(INTERVAL, TIMEOUT)
    assert liveness.heartbeat_due(0, 2)
    assert not liveness.heartbeat_due(0, 2)


def test_a_silent_peer_is_given_up_after_the_timeout() -> None:
    assert ticks(Liveness(INTERVAL, TIMEOUT), until=70) == [
        "60: has sent nothing for 60 s",
        "70: has sent nothing for 70 s",
    ]


def test_a_peer_that_is_heard_is_alive() -> None:
    liveness = Liveness(INTERVAL, TIMEOUT)
    now = 0.0
    for _ in range(20):
        assert liveness.tick(now, bytes_out=9999, unsent_bytes=0) is None
        liveness.heard_at = now + INTERVAL / 2
        now += INTERVAL


def test_a_peer_that_takes_nothing_is_given_up_though_it_speaks() -> None:
    liveness = Liveness(INTERVAL, TIMEOUT)
    said = []
    now = 0.0
    while now <= 60:
        liveness.heard_at = now
        said.append(liveness.tick(now, bytes_out=9999, unsent_bytes=5000))
        now += INTERVAL
    assert said == [None] * 6 + ["has taken none of 5000 bytes for 60 s"]


def test_a_slow_peer_is_not_given_up() -> None:
    """It takes a few bytes in each interval."""
    liveness = Liveness(INTERVAL, TIMEOUT)
    now = 0.0
    for unsent in range(500_000, 480_000, -1000):
        liveness.heard_at = now
        assert liveness.tick(now, bytes_out=500_000, unsent_bytes=unsent) is None
        now += INTERVAL


def test_a_link_that_is_always_busy_is_not_given_up() -> None:
    """The socket holds the same number of bytes at each tick, but these are different bytes."""
    liveness = Liveness(INTERVAL, TIMEOUT)
    for tick in range(20):
        liveness.heard_at = tick * INTERVAL
        reason = liveness.tick(tick * INTERVAL, bytes_out=500_000 * tick, unsent_bytes=500_000)
        assert reason is None


def test_a_side_that_was_blocked_reads_before_it_judges() -> None:
    """A user function that blocks this side's event loop for minutes says nothing about the
    peer."""
    liveness = Liveness(INTERVAL, TIMEOUT)
    liveness.tick(0.0, bytes_out=9999, unsent_bytes=100)
    assert liveness.tick(600.0, bytes_out=9999, unsent_bytes=100) is None
    assert liveness.tick(610.0, bytes_out=9999, unsent_bytes=100) is None
    assert liveness.tick(620.0, bytes_out=9999, unsent_bytes=100) is None


def test_a_peer_that_may_have_paused_reading_is_not_judged() -> None:
    liveness = Liveness(INTERVAL, TIMEOUT)
    for tick in range(20):
        assert (
            liveness.tick(tick * INTERVAL, bytes_out=9999, unsent_bytes=100, judges=False) is None
        )


def test_a_timeout_of_zero_never_gives_up() -> None:
    assert ticks(Liveness(INTERVAL, 0.0), until=10_000, unsent_bytes=1) == []
