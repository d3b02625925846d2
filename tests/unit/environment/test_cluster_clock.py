"""Times of this machine, converted to the coordinator's clock."""

from __future__ import annotations

import pytest

from flinknet.environment.cluster_clock import CLUSTER_CLOCK, ClusterClock
from flinknet.environment.processing_time import wall_clock_ms


@pytest.mark.parametrize("ahead_ms", [0, 5_000, -5_000])
def test_a_clock_that_is_ahead_is_set_back(ahead_ms: int) -> None:
    clock = ClusterClock()
    clock.ahead_ms = ahead_ms
    before = wall_clock_ms()
    shown = clock.now_ms()
    assert before <= shown + ahead_ms <= wall_clock_ms()
    assert clock.shows_at(10_000) == 10_000 - ahead_ms


def test_without_a_coordinator_it_is_the_clock_of_the_machine() -> None:
    assert CLUSTER_CLOCK.ahead_ms == 0
