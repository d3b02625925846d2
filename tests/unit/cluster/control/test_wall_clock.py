"""The time of day, computed from a monotonic clock."""

from __future__ import annotations

import pytest

from flinknet.cluster.control.wall_clock import JUMP_S_MIN, WallClock, describe_jump


def test_a_time_of_the_loop_is_a_time_of_day() -> None:
    wall = WallClock(1000.0)
    assert (wall.seconds(2.5), wall.ms(2.5)) == (1002.5, 1_002_500)


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_jump_is_told_once_and_followed(step_s: float) -> None:
    wall = WallClock(1000.0)
    assert wall.follow(1.0, 1001.0) == 0
    assert wall.follow(2.0, 1002.0 + step_s) == step_s
    assert wall.follow(3.0, 1003.0 + step_s) == 0
    assert wall.ms(3.0) == round((1003.0 + step_s) * 1000)


def test_a_correction_is_followed_and_not_told() -> None:
    wall = WallClock(1000.0)
    small = JUMP_S_MIN / 2
    assert wall.follow(1.0, 1001.0 - small) == 0
    assert wall.ms(1.0) == round((1001.0 - small) * 1000)


def test_a_jump_is_described_by_its_direction() -> None:
    assert describe_jump(-3600.0) == "the clock of this machine was set back by 3600.0 s"
    assert describe_jump(90.04).startswith(
        "the clock of this machine was set forward by 90.0 s, or"
    )
