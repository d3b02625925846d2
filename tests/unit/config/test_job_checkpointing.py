"""A job's checkpoint settings: contradictory values are refused."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.config.job_checkpointing import CheckpointRetention, JobCheckpointingConfig
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval_ms": 9.0}, "the checkpoint interval is 9.0 ms: choose 10 ms or more"),
        ({"timeout_ms": 0.0}, "timeout_ms is 0.0: choose a positive duration"),
        ({"min_pause_ms": -1.0}, "min_pause_ms is -1.0: choose 0 or more"),
        ({"tolerable_failures": -1}, "tolerable_failures is -1: choose 0 or more"),
        ({"max_concurrent": 0}, "max_concurrent is 0: choose 1 or more"),
        ({"aligned_timeout_ms": -1.0}, "aligned_timeout_ms is -1.0: choose 0 or more"),
        ({"aligned_timeout_ms": 1e10}, "time-out is 1e+10 ms: choose 4294967295 ms (49 days)"),
        (
            {"unaligned": True, "mode": "at_least_once"},
            "unaligned checkpoints need the mode exactly-once: choose it, or disable them",
        ),
        ({"unaligned": True, "max_concurrent": 2}, "2 unaligned checkpoints at a time: choose one"),
        ({"mode": "twice"}, 'mode is \'twice\': choose "exactly_once" or "at_least_once"'),
    ],
)
def test_invalid_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        JobCheckpointingConfig(**{"interval_ms": 1000.0, **options})
    assert message in str(raised.value)


def test_a_pause_allows_one_at_a_time() -> None:
    def concurrent(**options: Any) -> int:
        return JobCheckpointingConfig(10.0, max_concurrent=3, **options).concurrent

    assert concurrent() == 3
    assert concurrent(min_pause_ms=1.0) == 1
    assert concurrent(min_pause_ms=1.0, unaligned=True) == 1


@pytest.mark.parametrize(
    ("retention", "failed", "cancelled"),
    [
        ("retain_on_cancellation", True, True),
        ("delete_on_cancellation", True, False),
        ("no_externalized_checkpoints", False, False),
    ],
)
def test_retained_checkpoints_of_an_ended_job(
    retention: CheckpointRetention, failed: bool, cancelled: bool
) -> None:
    """Flink's CheckpointRetentionPolicy."""
    settings = JobCheckpointingConfig(100.0, retention=retention)
    assert settings.are_retained(failed=True, cancelled=False) is failed
    assert settings.are_retained(failed=False, cancelled=True) is cancelled
    assert not settings.are_retained(failed=False, cancelled=False), "it has finished"
