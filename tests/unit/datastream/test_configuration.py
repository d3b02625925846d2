"""Flink's options: what means something here is set, everything else is refused."""

from __future__ import annotations

import pytest

from flinknet.config.restart_strategy import NO_RESTART, FailureRateRestart, FixedDelayRestart
from flinknet.datastream import (
    CheckpointingMode,
    Configuration,
    EmbeddedRocksDBStateBackend,
    StreamExecutionEnvironment,
)
from flinknet.errors import ConfigurationError


def configured(**options: str) -> StreamExecutionEnvironment:
    named = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(named))


def test_a_configuration_is_a_map_of_text() -> None:
    config = Configuration().set_integer("i", 3).set_boolean("b", True).set_float("f", 0.5)
    config.set_string("s", "x")
    assert config.get_integer("i", 0) == 3
    assert config.get_boolean("b", False)
    assert config.get_float("f", 0.0) == 0.5
    assert config.get_string("s", "") == "x"
    assert (config.get_integer("no", 7), config.get_boolean("no", True)) == (7, True)
    assert (config.get_float("no", 1.5), config.get_string("no", "d")) == (1.5, "d")
    assert config.key_set() == {"i", "b", "f", "s"}
    other = Configuration(config)
    assert other == config
    assert hash(other) == hash(config)
    assert other.remove_config("s")
    assert not other.remove_config("s")
    assert not other.contains_key("s")
    target: dict[str, str] = {}
    Configuration().add_all(other, "p.").add_all_to_dict(target)
    assert target == {"p.i": "3", "p.b": "true", "p.f": "0.5"}
    assert repr(Configuration.from_dict({"a": "1"})) == "Configuration({'a': '1'})"


def test_options_are_set() -> None:
    environment = configured(
        parallelism_default="3",
        pipeline_max__parallelism="64",
        pipeline_object__reuse="true",
        pipeline_operator__chaining_enabled="false",
        pipeline_auto__watermark__interval="2 s",
        metrics_latency_interval="3 s",
        execution_runtime__mode="BATCH",
        execution_buffer__timeout="1 min",
        state_backend_type="rocksdb",
        execution_checkpointing_interval="10 s",
        execution_checkpointing_mode="AT_LEAST_ONCE",
        execution_checkpointing_unaligned_enabled="false",
    )
    assert environment.get_parallelism() == environment.get_config().get_parallelism() == 3
    assert environment.get_max_parallelism() == environment.get_config().get_max_parallelism() == 64
    assert environment.get_config().is_object_reuse_enabled()
    assert not environment.is_chaining_enabled()
    assert environment.get_config().get_auto_watermark_interval() == 2000
    assert environment.get_config().get_latency_tracking_interval() == 3000
    assert environment.get_buffer_timeout() == 60_000
    assert isinstance(environment.get_state_backend(), EmbeddedRocksDBStateBackend)
    assert environment.get_checkpoint_interval() == 10_000
    assert environment.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert not environment.is_unaligned_checkpoints_enabled()


@pytest.mark.parametrize(
    ("options", "strategy"),
    [
        ({"restart-strategy": "none"}, NO_RESTART),
        (
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "2",
                "restart-strategy.fixed-delay.delay": "100 ms",
            },
            FixedDelayRestart(2, 100),
        ),
        ({"restart-strategy.type": "failure-rate"}, FailureRateRestart(1, 60_000, 1_000)),
    ],
)
def test_restart_strategies_are_set(options: dict[str, str], strategy: object) -> None:
    environment = StreamExecutionEnvironment()
    environment.configure(Configuration.from_dict(options))
    environment.from_collection([1]).print()
    assert environment.job_graph().restart == strategy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paralellism.default": "2"}, "did you mean parallelism.default"),
        ({"python.executable": "x"}, "means nothing here"),
        ({"parallelism.default": "two"}, "parallelism.default is 'two'"),
        ({"execution.runtime-mode": "TABLE"}, "choose STREAMING, BATCH, AUTOMATIC"),
        ({"execution.checkpointing.interval": "soon"}, "choose a time"),
        ({"pipeline.object-reuse": "yes"}, "choose true or false"),
        ({"state.backend": "disk"}, "choose hashmap or rocksdb"),
        ({"restart-strategy": "always"}, "choose none, fixed-delay or failure-rate"),
    ],
)
def test_what_means_nothing_is_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        StreamExecutionEnvironment().configure(Configuration.from_dict(options))


def test_object_reuse_can_be_taken_back() -> None:
    environment = configured(pipeline_object__reuse="true")
    environment.configure(Configuration().set_boolean("pipeline.object-reuse", False))
    assert not environment.get_config().is_object_reuse_enabled()
