"""The limits of clusters on Spark."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.config.loading import load_settings
from flinknet.config.spark import SparkConfig
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ship": "sometimes"}, "ship is 'sometimes': choose"),
        ({"tasks_port": 70_000}, "tasks_port is 70000"),
        ({"tasks_timeout_ms": 0.0}, "tasks_timeout_ms is 0"),
        ({"slots_look_ms": 0.0}, "slots_look_ms is 0"),
        ({"slots_timeout_ms": -1.0}, "slots_timeout_ms is -1"),
    ],
)
def test_a_limit_is_refused_with_what_to_choose(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        SparkConfig(**options)
    assert str(raised.value).startswith(message)


def test_they_are_written_as_the_other_options() -> None:
    environ = {"FLINKNET_SPARK_MASTER": "local[4]", "FLINKNET_SPARK_TASKS_TIMEOUT_MS": "1min"}
    loaded = load_settings(None, environ, {}).config.spark
    assert loaded == SparkConfig("local[4]", tasks_timeout_ms=60_000.0)
