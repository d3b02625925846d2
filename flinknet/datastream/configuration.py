"""Job settings with Flink's option names: PyFlink's Configuration and its valid options.

Options of a job are in ``_OPTIONS``, options of a cluster in ``flinknet/config/flink_options.py``.
An option of Flink that has no effect here is accepted with a warning, so that it is not mistaken
for one that works. Any other name is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, TypeAlias, TypeVar

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.config.flink_options import (
    FLINK_OPTIONS,
    buffer_timeout,
    check_known,
    milliseconds,
    read_option,
    truth_value,
    warn_ignored,
    whole_number,
)
from flinknet.config.restart_strategy import ATTEMPTS_UNLIMITED
from flinknet.datastream.checkpoint_config import CheckpointingMode, ExternalizedCheckpointRetention
from flinknet.datastream.restart_strategies import RestartStrategies
from flinknet.datastream.state_backends import EmbeddedRocksDBStateBackend, HashMapStateBackend
from flinknet.errors import ConfigurationError

__all__ = ["Configuration", "RuntimeExecutionMode", "configure"]


class RuntimeExecutionMode(Enum):
    """Whether a job emits its results continuously or when its input has ended."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
    """BATCH if every source is bounded, else STREAMING."""


class Configuration(PyFlinkNames):
    """Options by key; all values are strings (PyFlink's Configuration)."""

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, str] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: dict[str, str]) -> Configuration:
        """Return a configuration with these options."""
        made = cls()
        made._values.update({key: str(value) for key, value in map.items()})
        return made

    def get_string(self, key: str, default_value: str) -> str:
        """Return an option, or the default."""
        return self._values.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set an option."""
        self._values[key] = value
        return self

    def get_integer(self, key: str, default_value: int) -> int:
        """Return an option as an integer, or the default."""
        return int(self._values[key]) if key in self._values else default_value

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an option."""
        return self.set_string(key, str(int(value)))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return an option as a boolean, or the default."""
        return truth_value(self._values[key]) if key in self._values else default_value

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set an option."""
        return self.set_string(key, str(bool(value)).lower())

    def get_float(self, key: str, default_value: float) -> float:
        """Return an option as a float, or the default."""
        return float(self._values[key]) if key in self._values else default_value

    def set_float(self, key: str, value: float) -> Configuration:
        """Set an option."""
        return self.set_string(key, str(float(value)))

    def key_set(self) -> set[str]:
        """Return the keys."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Return whether the option is set."""
        return key in self._values

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Set all options of another configuration, with ``prefix`` before their keys."""
        self._values.update({(prefix or "") + key: one for key, one in other._values.items()})
        return self

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Copy all options into a dict."""
        target_dict.update(self._values)

    def remove_config(self, key: str) -> bool:
        """Remove an option; return whether it was set."""
        return self._values.pop(key, None) is not None

    def to_dict(self) -> dict[str, str]:
        """Return all options."""
        return dict(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Configuration({self._values})"


T = TypeVar("T")

Environment: TypeAlias = Any
"""A StreamExecutionEnvironment; that module imports this one."""

Set = Callable[[Environment, str], Any]


def _chaining(environment: Environment, text: str) -> None:
    if not truth_value(text):
        environment.disable_operator_chaining()


def _object_reuse(environment: Environment, text: str) -> None:
    config = environment.get_config()
    if truth_value(text):
        config.enable_object_reuse()
    else:
        config.disable_object_reuse()


def _task_threads(environment: Environment, text: str) -> None:
    config = environment.get_config()
    if truth_value(text):
        config.enable_task_threads()
    else:
        config.disable_task_threads()


def _state_backend(environment: Environment, text: str) -> None:
    backends = {"hashmap": HashMapStateBackend, "rocksdb": EmbeddedRocksDBStateBackend}
    if text not in backends:
        raise ValueError("choose hashmap or rocksdb")
    environment.set_state_backend(backends[text]())


def _of_checkpoints(method: str, read: Callable[[str], Any]) -> Set:
    return lambda environment, text: getattr(environment.get_checkpoint_config(), method)(
        read(text)
    )


def _member(kind: type[Enum]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        name = text.upper().replace("-", "_")
        if name not in kind.__members__:
            raise ValueError(f"choose {', '.join(kind.__members__)}")
        return kind[name]

    return read


def _buffer_timeout(environment: Environment, text: str) -> None:
    environment.set_buffer_timeout(buffer_timeout(text))


def _buffer_timeout_enabled(environment: Environment, text: str) -> None:
    if not truth_value(text):
        environment.set_buffer_timeout(-1)


_LAST = ("execution.buffer-timeout.enabled",)
"""Options that override others, so they are set last."""

_PROGRAM = 3
"""Number of frames from a warning in ``configure`` up to the program that it concerns."""

_CHECKPOINTING = "execution.checkpointing."


def _python_files(environment: Environment, text: str) -> None:
    for path in filter(None, text.split(",")):
        environment.add_python_file(path)


def _python_archives(environment: Environment, text: str) -> None:
    for archive in filter(None, text.split(",")):
        environment.add_python_archive(archive)


_OPTIONS: Mapping[str, Set] = {
    "python.files": _python_files,
    "python.archives": _python_archives,
    "parallelism.default": lambda env, text: env.set_parallelism(int(text)),
    "pipeline.max-parallelism": lambda env, text: env.set_max_parallelism(int(text)),
    "pipeline.object-reuse": _object_reuse,
    "pipeline.operator-chaining": _chaining,
    "pipeline.operator-chaining.enabled": _chaining,
    "pipeline.auto-watermark-interval": lambda env, text: (
        env.get_config().set_auto_watermark_interval(milliseconds(text))
    ),
    "metrics.latency.interval": lambda env, text: env.get_config().set_latency_tracking_interval(
        milliseconds(text)
    ),
    "execution.task-threads": _task_threads,
    "execution.runtime-mode": lambda env, text: env.set_runtime_mode(
        _member(RuntimeExecutionMode)(text)
    ),
    "execution.buffer-timeout": _buffer_timeout,
    "execution.buffer-timeout.enabled": _buffer_timeout_enabled,
    "execution.buffer-timeout.interval": _buffer_timeout,
    "state.backend": _state_backend,
    "state.backend.type": _state_backend,
    f"{_CHECKPOINTING}interval": _of_checkpoints("set_checkpoint_interval", milliseconds),
    f"{_CHECKPOINTING}mode": _of_checkpoints("set_checkpointing_mode", _member(CheckpointingMode)),
    f"{_CHECKPOINTING}timeout": _of_checkpoints("set_checkpoint_timeout", milliseconds),
    f"{_CHECKPOINTING}min-pause": _of_checkpoints(
        "set_min_pause_between_checkpoints", milliseconds
    ),
    f"{_CHECKPOINTING}max-concurrent-checkpoints": _of_checkpoints(
        "set_max_concurrent_checkpoints", int
    ),
    f"{_CHECKPOINTING}tolerable-failed-checkpoints": _of_checkpoints(
        "set_tolerable_checkpoint_failure_number", int
    ),
    f"{_CHECKPOINTING}unaligned": _of_checkpoints("enable_unaligned_checkpoints", truth_value),
    f"{_CHECKPOINTING}unaligned.enabled": _of_checkpoints(
        "enable_unaligned_checkpoints", truth_value
    ),
    f"{_CHECKPOINTING}aligned-checkpoint-timeout": _of_checkpoints(
        "set_aligned_checkpoint_timeout", milliseconds
    ),
    f"{_CHECKPOINTING}allow-repeated-output": _of_checkpoints(
        "set_allow_repeated_output", truth_value
    ),
    f"{_CHECKPOINTING}dir": _of_checkpoints("set_checkpoint_storage_dir", str),
    "state.checkpoints.dir": _of_checkpoints("set_checkpoint_storage_dir", str),
    f"{_CHECKPOINTING}externalized-checkpoint-retention": _of_checkpoints(
        "set_externalized_checkpoint_retention", _member(ExternalizedCheckpointRetention)
    ),
}

_RESTART = "restart-strategy"
_FIXED, _RATE = f"{_RESTART}.fixed-delay.", f"{_RESTART}.failure-rate."
_GROWING = f"{_RESTART}.exponential-delay."
_OF_RESTART = {
    _RESTART,
    f"{_RESTART}.type",
    f"{_FIXED}attempts",
    f"{_FIXED}delay",
    f"{_RATE}max-failures-per-interval",
    f"{_RATE}failure-rate-interval",
    f"{_RATE}delay",
    f"{_GROWING}initial-backoff",
    f"{_GROWING}max-backoff",
    f"{_GROWING}backoff-multiplier",
    f"{_GROWING}reset-backoff-threshold",
    f"{_GROWING}attempts-before-reset-backoff",
}


def configure(environment: Environment, configuration: Configuration) -> None:
    """Set options of a job and of its cluster, and warn about options without effect here.

    Raises ConfigurationError for a name unknown to Flink, or for an invalid value. Options that
    come earlier are then already set.
    """
    values = configuration.to_dict()
    cluster = _take_remote(values)
    known = {*_OPTIONS, *_OF_RESTART, *FLINK_OPTIONS}
    for key in values:
        check_known(key, known)
    for_cluster = {
        key: text for key, text in values.items() if key in FLINK_OPTIONS and key not in _OPTIONS
    }
    # Check the values now, although the cluster that uses them starts later.
    for key, text in for_cluster.items():
        read_option(key, text)
    for key, text in sorted(values.items(), key=lambda option: option[0] in _LAST):
        if key not in known:
            warn_ignored(key, stacklevel=_PROGRAM)
        if key in _OPTIONS:
            _read(key, text, partial(_OPTIONS[key], environment))
    _configure_restart(environment, values)
    environment.cluster_options.update(for_cluster)
    environment.cluster = cluster or environment.cluster


def _take_remote(values: dict[str, str]) -> str | None:
    """Remove and return the address of a running cluster; None if the options name none."""
    # Other targets have no effect here; ``configure`` warns about them.
    if values.get("execution.target") != "remote":
        return None
    del values["execution.target"]
    address, port = values.pop("rest.address", ""), values.pop("rest.port", "")
    if not address:
        raise ConfigurationError(
            "execution.target is 'remote', but rest.address is missing: set it to the name of a "
            "cluster, or to the host of its coordinator, with rest.port"
        )
    return f"{address}:{port}" if port else address


def _configure_restart(environment: Environment, values: dict[str, str]) -> None:
    kind = values.get(f"{_RESTART}.type", values.get(_RESTART))
    if kind is None:
        return

    def given(key: str, default: str, read: Callable[[str], T]) -> T:
        return _read(key, values.get(key, default), read)

    if kind in ("none", "off", "disable"):
        strategy = RestartStrategies.no_restart()
    elif kind in ("fixed-delay", "fixeddelay"):
        strategy = RestartStrategies.fixed_delay_restart(
            given(f"{_FIXED}attempts", "1", whole_number),
            given(f"{_FIXED}delay", "1 s", milliseconds),
        )
    elif kind in ("failure-rate", "failurerate"):
        strategy = RestartStrategies.failure_rate_restart(
            given(f"{_RATE}max-failures-per-interval", "1", whole_number),
            given(f"{_RATE}failure-rate-interval", "1 min", milliseconds),
            given(f"{_RATE}delay", "1 s", milliseconds),
        )
    elif kind in ("exponential-delay", "exponentialdelay"):
        attempts = f"{_GROWING}attempts-before-reset-backoff"
        strategy = RestartStrategies.exponential_delay_restart(
            given(f"{_GROWING}initial-backoff", "1 s", milliseconds),
            given(f"{_GROWING}max-backoff", "1 min", milliseconds),
            given(f"{_GROWING}backoff-multiplier", "1.5", _factor),
            given(f"{_GROWING}reset-backoff-threshold", "1 h", milliseconds),
            given(attempts, str(ATTEMPTS_UNLIMITED), whole_number),
        )
    else:
        raise ConfigurationError(
            f"{_RESTART}.type is {kind!r}: choose none, fixed-delay, failure-rate or "
            "exponential-delay"
        )
    environment.set_restart_strategy(strategy)


def _read(key: str, text: str, read: Callable[[str], T]) -> T:
    """Return the value of an option; ConfigurationError if ``text`` is invalid."""
    try:
        return read(text)
    except ValueError as error:
        raise ConfigurationError(f"{key} is {text!r}: {error}") from error


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("choose a number, such as 1.5") from None
