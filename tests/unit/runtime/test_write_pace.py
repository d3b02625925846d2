"""The time for writing state, by how long the loop was away."""

from __future__ import annotations

import pytest

from flinknet.runtime.write_pace import SHARE, STINT_S_MAX, WritePace


def test_the_first_stint_is_one_step() -> None:
    assert WritePace(5.0).is_over(5.0)


@pytest.mark.parametrize(
    ("away_s", "stint_s"), [(0.0, 0.0), (0.01, 0.01 * SHARE), (1.0, STINT_S_MAX)]
)
def test_a_stint_is_a_share_of_the_time_away_and_never_long(away_s: float, stint_s: float) -> None:
    pace = WritePace(0.0)
    assert pace.is_over(2.0)
    pace.resume(2.0 + away_s)
    assert pace.is_over(2.0 + away_s) == (stint_s == 0.0)
    assert pace.is_over(2.0 + away_s + stint_s * 0.9) == (stint_s == 0.0)
    assert pace.is_over(2.0 + away_s + stint_s * 1.1 + 1e-9)


def test_a_long_step_earns_nothing() -> None:
    """The writer's own time is not time of others."""
    pace = WritePace(0.0)
    pace.is_over(0.0)
    pace.resume(0.1)
    assert pace.is_over(0.5)
    pace.resume(0.501)
    assert not pace.is_over(0.501)
    assert pace.is_over(0.501 + 0.001 * SHARE + 1e-9)
