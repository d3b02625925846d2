"""The limits of latency marker measurements, and of the reading of workers."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.config.loading import load_settings
from flinknet.config.metrics import MetricsConfig
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latency_granularity": "all"}, "latency_granularity is 'all': choose"),
        ({"latency_interval_ms": -1}, "latency_interval_ms is -1: choose 0 or more"),
        ({"latency_history_size": 0}, "latency_history_size is 0: choose 1 or more"),
        ({"latency_histograms_max": 0}, "latency_histograms_max is 0: choose 1 or more"),
        ({"turn_channels": 0}, "turn_channels is 0: choose 1 or more"),
        ({"turn_ms": 0.0}, "turn_ms is 0.0: choose"),
    ],
)
def test_a_limit_is_refused_with_what_to_choose(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        MetricsConfig(**options)
    assert str(raised.value).startswith(message)


def test_they_are_written_as_the_other_options() -> None:
    environ = {"FLINKNET_METRICS_LATENCY_INTERVAL_MS": "1s"}
    flags = {"metrics.latency_granularity": "subtask"}
    loaded = load_settings(None, environ, flags).config.metrics
    assert loaded == MetricsConfig(latency_interval_ms=1000, latency_granularity="subtask")
