"""Restart strategies: contradictory values are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flinknet.config.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
)
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedDelayRestart(attempts=-1), "attempts is -1: choose 0 or more"),
        (lambda: FixedDelayRestart(delay_ms=-1.0), "delay_ms is -1.0: choose 0 or more"),
        (lambda: FailureRateRestart(failures_max=0), "failures_max is 0: choose 1 or more"),
        (lambda: FailureRateRestart(interval_ms=0.0), "interval_ms is 0.0: choose a positive"),
        (lambda: FailureRateRestart(delay_ms=-1.0), "delay_ms is -1.0: choose 0 or more"),
        (lambda: ExponentialDelayRestart(multiplier=0.5), "multiplier is 0.5: choose 1 or more"),
        (lambda: ExponentialDelayRestart(attempts=-1), "attempts is -1: choose 0 or more"),
        (
            lambda: ExponentialDelayRestart(initial_delay_ms=0.0),
            "initial_delay_ms is 0.0: choose a positive duration",
        ),
        (
            lambda: ExponentialDelayRestart(initial_delay_ms=70_000.0),
            "initial_delay_ms is 70000.0: choose at most max_delay_ms (60000.0)",
        ),
    ],
)
def test_invalid_settings_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make()
    assert message in str(raised.value)
