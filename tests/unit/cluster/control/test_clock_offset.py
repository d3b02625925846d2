"""Clocks compared by round trips: the error of a sample, and the bound that still holds."""

from __future__ import annotations

from random import Random

import pytest

from flinknet.cluster.control.clock_offset import SAMPLES, ClockOffset

EPOCH_S = 1_000_000.0
LAN_S = 0.001


class Clocks:
    """Two clocks; the first one is ahead by ``ahead_s``."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s
        self.now = 10.0
        self.offset = ClockOffset()

    def beat(self, there_s: float, back_s: float) -> None:
        """Send a message there and back, and rest for a second."""
        self.offset.take(
            sent_s=self.now,
            received_s=self.now + there_s + back_s,
            wall_s=EPOCH_S + self.now + there_s + back_s + self.ahead_s,
            other_wall_s=EPOCH_S + self.now + there_s,
        )
        self.now += 1.0

    @property
    def is_right(self) -> bool:
        """Whether the truth lies within the bound; clocks count in doubles."""
        error_s = self.offset.error_s
        assert error_s is not None
        return abs(self.offset.offset_s - self.ahead_s) <= error_s + 1e-9


def test_no_offset_is_known_at_first() -> None:
    offset = ClockOffset()
    assert (offset.offset_s, offset.error_s, offset.correction_s) == (0.0, None, 0.0)


@pytest.mark.parametrize("ahead_s", [0.0, 0.0004, -0.0004, 0.2, -3600.0, 86_400.0])
@pytest.mark.parametrize(
    ("there_s", "back_s"), [(LAN_S, LAN_S), (0.0, LAN_S), (LAN_S, 0.0), (0.0, 0.0), (0.4, LAN_S)]
)
def test_half_of_the_round_trip_bounds_the_error(
    ahead_s: float, there_s: float, back_s: float
) -> None:
    clocks = Clocks(ahead_s)
    clocks.beat(there_s, back_s)
    assert clocks.is_right
    assert clocks.offset.error_s == pytest.approx((there_s + back_s) / 2)


@pytest.mark.parametrize("ahead_s", [0.0, 5.0])
def test_the_shortest_of_the_last_round_trips_counts(ahead_s: float) -> None:
    """This holds for any delays of the other round trips, in either direction."""
    random = Random(7)
    clocks = Clocks(ahead_s)
    for number in range(100):
        is_short = number % SAMPLES == 0
        late = (0.0, 0.0) if is_short else (random.uniform(0.0, 2.0), random.uniform(0.0, 2.0))
        clocks.beat(LAN_S + late[0], LAN_S + late[1])
        assert clocks.is_right
        assert clocks.offset.error_s == pytest.approx(LAN_S, abs=1e-6)
    for _ in range(SAMPLES):
        clocks.beat(0.1, 0.1)
    assert clocks.offset.error_s == pytest.approx(0.1), "the short ones are too old"


def test_clocks_that_may_agree_correct_nothing() -> None:
    """On one machine the delays differ slightly in the two directions, so an offset is measured."""
    clocks = Clocks(0.0)
    random = Random(3)
    for _ in range(100):
        clocks.beat(random.uniform(0.0, 0.05), random.uniform(0.0, 0.05))
        assert clocks.offset.correction_s == 0.0
    clocks = Clocks(0.3)
    clocks.beat(0.1, 0.2)
    assert clocks.offset.correction_s == clocks.offset.offset_s != 0.0


@pytest.mark.parametrize("jump_s", [0.01, -0.01, 30.0, -3600.0])
def test_a_clock_that_is_set_is_known_at_the_next_beat(jump_s: float) -> None:
    clocks = Clocks(1.0)
    for _ in range(SAMPLES):
        clocks.beat(LAN_S, LAN_S)
    clocks.ahead_s += jump_s
    clocks.beat(2 * LAN_S, 2 * LAN_S)
    assert clocks.is_right
    assert clocks.offset.error_s == pytest.approx(2 * LAN_S)


def test_clocks_that_drift_are_followed() -> None:
    """The drift is 200 parts in a million, more than that of a quartz."""
    clocks = Clocks(0.0)
    for _ in range(2_000):
        clocks.ahead_s += 0.0002
        clocks.beat(LAN_S / 10, LAN_S / 10)
        assert abs(clocks.offset.offset_s - clocks.ahead_s) < 2 * LAN_S
