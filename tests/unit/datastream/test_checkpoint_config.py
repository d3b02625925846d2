"""The checkpoint settings of a job, by PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.config.restart_strategy import NO_RESTART, ExponentialDelayRestart
from flinknet.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    GeneratorSource,
    StreamExecutionEnvironment,
)
from flinknet.errors import ConfigurationError


def program() -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment()
    environment.from_source(GeneratorSource(str, 1)).print()
    return environment


def test_without_checkpoints_there_is_nothing() -> None:
    environment = program()
    config = environment.get_checkpoint_config()
    assert not config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    assert config.job_checkpointing() is None
    assert config.get_checkpoint_timeout() == 600_000
    graph = environment.job_graph()
    assert (graph.checkpointing, graph.restart) == (None, NO_RESTART)


def test_settings_are_sent_with_the_job_and_survive_restarts() -> None:
    environment = program()
    assert environment.enable_checkpointing(200) is environment
    config = environment.get_checkpoint_config()
    assert (config.get_checkpoint_interval(), config.is_checkpointing_enabled()) == (200, True)
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    config.set_checkpoint_timeout(3000).set_min_pause_between_checkpoints(20)
    config.set_max_concurrent_checkpoints(2).set_tolerable_checkpoint_failure_number(3)
    assert (config.get_checkpoint_timeout(), config.get_min_pause_between_checkpoints()) == (
        3000,
        20,
    )
    assert config.get_max_concurrent_checkpoints() == 2
    assert config.get_tolerable_checkpoint_failure_number() == 3
    config.set_checkpoint_storage_dir("/checkpoints")
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    graph = environment.job_graph()
    assert graph.checkpointing == JobCheckpointingConfig(
        200,
        "at_least_once",
        timeout_ms=3000,
        min_pause_ms=20,
        max_concurrent=2,
        tolerable_failures=3,
        directory="/checkpoints",
    )
    assert graph.restart == ExponentialDelayRestart()


def test_unaligned_checkpoints_in_pyflinks_names() -> None:
    config = program().get_checkpoint_config()
    config.set_checkpoint_interval(200)
    assert not config.is_unaligned_checkpoints_enabled()
    assert config.get_aligned_checkpoint_timeout() == timedelta(0)
    config.enable_unaligned_checkpoints().set_aligned_checkpoint_timeout(timedelta(seconds=1.5))
    assert config.is_unaligned_checkpoints_enabled()
    assert config.get_aligned_checkpoint_timeout() == timedelta(milliseconds=1500)
    assert config.job_checkpointing() == JobCheckpointingConfig(
        200, unaligned=True, aligned_timeout_ms=1500.0
    )
    config.disable_unaligned_checkpoints().set_aligned_checkpoint_timeout(30)
    assert config.job_checkpointing() == JobCheckpointingConfig(200, aligned_timeout_ms=30)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: config.set_checkpoint_interval(1), "interval is 1 ms: choose 10 ms"),
        (lambda config: config.set_checkpoint_timeout(0), "timeout_ms is 0: choose a positive"),
        (lambda config: config.set_max_concurrent_checkpoints(0), "max_concurrent is 0"),
    ],
)
def test_invalid_settings_are_refused_by_the_setter(
    change: Callable[[CheckpointConfig], object], message: str
) -> None:
    config = CheckpointConfig()
    with pytest.raises(ConfigurationError, match=message):
        change(config)
    assert config.job_checkpointing() is None


def test_when_checkpoints_outlive_their_job_in_pyflinks_names() -> None:
    config = CheckpointConfig().set_checkpoint_interval(100)
    retention = ExternalizedCheckpointRetention
    assert config.get_externalized_checkpoint_retention() is retention.RETAIN_ON_CANCELLATION
    for one in retention:
        config.set_externalized_checkpoint_retention(one)
        assert config.get_externalized_checkpoint_retention() is one
        settings = config.job_checkpointing()
        assert settings is not None
        assert settings.retention == one.value
