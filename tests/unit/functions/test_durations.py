"""Time spans."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Duration, Time


def test_durations_are_milliseconds() -> None:
    spans = [
        Duration.of_days(1),
        Duration.of_hours(1),
        Duration.of_minutes(1),
        Duration.of_seconds(1),
        Duration.of_millis(1),
    ]
    assert [span.to_millis() for span in spans] == [86_400_000, 3_600_000, 60_000, 1000, 1]


def test_times_are_milliseconds() -> None:
    spans = [Time.days(2), Time.hours(2), Time.minutes(2), Time.seconds(2), Time.milliseconds(2)]
    assert [span.to_milliseconds() for span in spans] == [
        172_800_000,
        7_200_000,
        120_000,
        2000,
        2,
    ]


@pytest.mark.parametrize("count", [1.5, "1", None, True])
def test_a_span_is_a_whole_number(count: Any) -> None:
    with pytest.raises(ConfigurationError, match="choose a whole number"):
        Duration.of_millis(count)
