"""Flink's options: set, accepted with a warning that says why they have no effect, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flinknet.cluster import run_job
from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.config.loading import with_flink_options
from flinknet.config.restart_strategy import (
    NO_RESTART,
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
)
from flinknet.datastream import (
    CheckpointingMode,
    Configuration,
    EmbeddedRocksDBStateBackend,
    StreamExecutionEnvironment,
)
from flinknet.datastream.executor import embedded_config, set_executor
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
        ({"restart-strategy.type": "exponential-delay"}, ExponentialDelayRestart()),
        (
            {
                "restart-strategy.type": "exponential-delay",
                "restart-strategy.exponential-delay.initial-backoff": "2 s",
                "restart-strategy.exponential-delay.max-backoff": "1 min",
                "restart-strategy.exponential-delay.backoff-multiplier": "3",
                "restart-strategy.exponential-delay.reset-backoff-threshold": "2 h",
                "restart-strategy.exponential-delay.attempts-before-reset-backoff": "5",
            },
            ExponentialDelayRestart(2_000, 60_000, 3, 7_200_000, 5),
        ),
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
        ({"taskmanager.memory.segmnt-size": "2"}, "did you mean taskmanager.memory.segment-size"),
        ({"my.own.option": "x"}, "my.own.option is not an option of flinknet or Flink"),
        ({"taskmanager.memory.segment-size": "big"}, "is 'big': choose a size, as 32kb"),
        ({"web.backpressure.num-samples": "1 s"}, "choose a whole number"),
        ({"parallelism.default": "two"}, "parallelism.default is 'two'"),
        ({"execution.runtime-mode": "TABLE"}, "choose STREAMING, BATCH, AUTOMATIC"),
        ({"execution.checkpointing.interval": "soon"}, "choose a time"),
        ({"pipeline.object-reuse": "yes"}, "choose true or false"),
        ({"state.backend": "disk"}, "choose hashmap or rocksdb"),
        ({"restart-strategy": "always"}, "choose none, fixed-delay, failure-rate or exp"),
        *(
            ({"restart-strategy": kind, f"restart-strategy.{kind}.{key}": "many"}, message)
            for kind, key, message in (
                ("fixed-delay", "attempts", "fixed-delay.attempts is 'many': choose a whole numb"),
                ("fixed-delay", "delay", "fixed-delay.delay is 'many': choose a time"),
                ("failure-rate", "max-failures-per-interval", "is 'many': choose a whole number"),
                (
                    "exponential-delay",
                    "backoff-multiplier",
                    "is 'many': choose a number, such as 1.5",
                ),
                ("exponential-delay", "attempts-before-reset-backoff", "choose a whole number"),
            )
        ),
    ],
)
def test_an_invalid_option_is_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        StreamExecutionEnvironment().configure(Configuration.from_dict(options))


def test_object_reuse_can_be_taken_back() -> None:
    environment = configured(pipeline_object__reuse="true")
    environment.configure(Configuration().set_boolean("pipeline.object-reuse", False))
    assert not environment.get_config().is_object_reuse_enabled()


@pytest.mark.parametrize(
    ("options", "timeout"),
    [
        ({"execution.buffer-timeout": "10 ms"}, 10),
        ({"execution.buffer-timeout": "-1"}, -1),
        ({"execution.buffer-timeout.enabled": "false"}, -1),
        (
            {
                "execution.buffer-timeout.enabled": "false",
                "execution.buffer-timeout.interval": "5 ms",
            },
            -1,
        ),
        ({"execution.buffer-timeout.enabled": "true"}, "adaptive"),
    ],
)
def test_the_buffer_timeout_is_told(options: dict[str, str], timeout: object) -> None:
    environment = StreamExecutionEnvironment()
    environment.configure(Configuration.from_dict(options))
    assert environment.get_buffer_timeout() == timeout


def test_the_buffer_timeout_is_the_configurations_if_the_program_sets_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = FlinknetConfig(network=NetworkConfig(buffer_timeout_ms=7))
    assert StreamExecutionEnvironment(own).get_buffer_timeout() == 7
    monkeypatch.setenv("FLINKNET_NETWORK_BUFFER_TIMEOUT_MS", "8")
    assert StreamExecutionEnvironment().get_buffer_timeout() == 8
    set_executor(lambda graph, control: None, FlinknetConfig())  # type: ignore[arg-type, return-value]
    try:
        assert StreamExecutionEnvironment().get_buffer_timeout() == "adaptive"
    finally:
        set_executor(None)


def test_options_of_the_cluster_are_those_of_the_job_that_starts_one() -> None:
    """They replace values configured elsewhere, and the program's own slots are no default."""
    environment = configured(
        taskmanager_memory_segment__size="64kb",
        taskmanager_network_credit__model="false",
        web_backpressure_refresh__interval="30000",
        taskmanager_numberOfTaskSlots="3",
    )
    environment.from_collection([1]).print()
    graph = environment.job_graph()
    config = with_flink_options(embedded_config(graph), dict(graph.cluster_options))
    assert config.network.segment_bytes == 65_536
    assert config.network.flow_control == "off"
    assert config.cluster.stack_sample_refresh_ms == 30_000
    assert config.cluster.slots_per_worker == 3
    assert config.cluster.workers == FlinknetConfig().cluster.workers


def test_a_job_that_cannot_be_configured_so_is_refused_before_a_cluster_starts() -> None:
    environment = configured(taskmanager_memory_segment__size="1")
    environment.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"option taskmanager.memory.segment-size"):
        run_job(environment.job_graph())


@pytest.mark.parametrize("key", ["python.executable", "taskmanager.memory.process.size"])
@pytest.mark.parametrize(
    "set_options",
    [
        StreamExecutionEnvironment().configure,
        StreamExecutionEnvironment.get_execution_environment,
    ],
)
def test_an_option_without_effect_is_accepted_with_a_warning(
    key: str, set_options: Callable[[Configuration], object]
) -> None:
    configuration = Configuration.from_dict({key: "x"})
    with pytest.warns(UserWarning, match=f"the option {key} has no effect here: ") as said:
        set_options(configuration)
    assert said[0].filename == __file__
