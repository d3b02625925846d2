"""Options by Flink's names, and the options of flinknet that they set.

Programs and configuration files written for Flink use its option names. An option with a
counterpart here sets it. An option without meaning here is accepted with a warning that gives the
reason. A name unknown to Flink is rejected, because it may be a typing error.

Options of a job (``parallelism.default``, ``execution.checkpointing.interval``) are set in the
program; their table is in ``flinknet/datastream/configuration.py``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from flinknet.errors import ConfigurationError

__all__ = [
    "FLINK_OPTIONS",
    "IGNORED_OPTIONS",
    "FlinkOption",
    "buffer_timeout",
    "check_known",
    "is_of_a_job",
    "milliseconds",
    "read_option",
    "reason_ignored",
    "truth_value",
    "warn_ignored",
    "whole_number",
]

_SIMILAR, _SAME = 0.6, 0.93
"""Minimum similarity of a name to another one to be treated as a typing error.

The first is for names unknown to Flink, the second for names with a prefix of Flink's options.
"""

_UNITS_MS = {
    unit: factor
    for factor, units in (
        (1, ("", "ms", "milli", "millis", "millisecond", "milliseconds")),
        (1_000, ("s", "sec", "secs", "second", "seconds")),
        (60_000, ("m", "min", "minute", "minutes")),
        (3_600_000, ("h", "hour", "hours")),
        (86_400_000, ("d", "day", "days")),
    )
    for unit in units
}
_UNITS_BYTES = {
    unit: 1024**power
    for power, units in enumerate(
        (
            ("", "b", "bytes"),
            ("k", "kb", "kibibytes"),
            ("m", "mb", "mebibytes"),
            ("g", "gb", "gibibytes"),
            ("t", "tb", "tebibytes"),
        )
    )
    for unit in units
}


def milliseconds(text: str) -> int:
    """Read a time as Flink does; ValueError describes the valid forms."""
    return _quantity(text, _UNITS_MS, "choose a time, as 500 ms or 10 s")


def buffer_timeout(text: str) -> int:
    """Read a time, or -1 for "only full buffers"."""
    return -1 if text.strip() == "-1" else milliseconds(text)


def truth_value(text: str) -> bool:
    """Read true or false; ValueError describes the valid forms."""
    if text.lower() not in ("true", "false"):
        raise ValueError("choose true or false")
    return text.lower() == "true"


def _bytes(text: str) -> int:
    return _quantity(text, _UNITS_BYTES, "choose a size, as 32kb or 64 mb")


def _seconds(text: str) -> int:
    return 1_000 * whole_number(text)


def whole_number(text: str) -> int:
    """Read an integer of 0 or more; ValueError describes the valid forms."""
    return _quantity(text, {"": 1}, "choose a whole number")


def _quantity(text: str, units: Mapping[str, int], form: str) -> int:
    found = re.fullmatch(r"\s*(\d{1,18})\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in units:
        raise ValueError(form)
    return int(found[1]) * units[found[2]]


def _credit(text: str) -> str:
    return "credit" if truth_value(text) else "off"


class FlinkOption(NamedTuple):
    """The counterpart of an option of Flink."""

    name: str
    """The option's name, such as ``network.segment_bytes``."""
    read: Callable[[str], object]
    """Converts a text written for Flink; ValueError describes the valid forms."""


_MEMORY = "taskmanager.network.memory."
_CHECKPOINTING = "execution.checkpointing."

FLINK_OPTIONS: Mapping[str, FlinkOption] = {
    "taskmanager.memory.segment-size": FlinkOption("network.segment_bytes", _bytes),
    "taskmanager.memory.min-segment-size": FlinkOption("network.debloat.segment_bytes_min", _bytes),
    "taskmanager.memory.network.min": FlinkOption("network.network_memory_bytes", _bytes),
    "taskmanager.network.credit-model": FlinkOption("network.flow_control", _credit),
    f"{_MEMORY}buffers-per-channel": FlinkOption("network.buffers_per_channel", whole_number),
    f"{_MEMORY}floating-buffers-per-gate": FlinkOption(
        "network.floating_buffers_per_gate", whole_number
    ),
    f"{_MEMORY}max-buffers-per-channel": FlinkOption(
        "network.buffers_per_subpartition_max", whole_number
    ),
    f"{_MEMORY}max-overdraft-buffers-per-gate": FlinkOption(
        "network.overdraft_buffers_per_partition", whole_number
    ),
    f"{_MEMORY}read-buffer.required-per-gate.max": FlinkOption(
        "network.required_buffers_per_gate_max", whole_number
    ),
    f"{_MEMORY}buffers-request-timeout": FlinkOption(
        "network.buffers_request_timeout_ms", milliseconds
    ),
    f"{_MEMORY}exclusive-buffers-request-timeout-ms": FlinkOption(
        "network.buffers_request_timeout_ms", milliseconds
    ),
    f"{_MEMORY}buffer-debloat.enabled": FlinkOption("network.debloat.enabled", truth_value),
    f"{_MEMORY}buffer-debloat.period": FlinkOption("network.debloat.period_ms", milliseconds),
    f"{_MEMORY}buffer-debloat.samples": FlinkOption("network.debloat.samples", whole_number),
    f"{_MEMORY}buffer-debloat.target": FlinkOption("network.debloat.target_ms", milliseconds),
    f"{_MEMORY}buffer-debloat.threshold-percentages": FlinkOption(
        "network.debloat.threshold_percent", whole_number
    ),
    "taskmanager.network.partition-request-timeout": FlinkOption(
        "network.rendezvous_timeout_ms", milliseconds
    ),
    "taskmanager.network.request-backoff.initial": FlinkOption(
        "network.connect_backoff_ms", milliseconds
    ),
    "taskmanager.network.request-backoff.max": FlinkOption(
        "network.connect_backoff_max_ms", milliseconds
    ),
    "taskmanager.network.netty.client.connectTimeoutSec": FlinkOption(
        "network.connect_timeout_ms", _seconds
    ),
    "io.tmp.dirs": FlinkOption("network.spill_directory", str),
    "taskmanager.numberOfTaskSlots": FlinkOption("cluster.slots_per_worker", whole_number),
    "taskmanager.data.port": FlinkOption("cluster.data_port", whole_number),
    "rest.port": FlinkOption("cluster.coordinator_port", whole_number),
    "rest.idleness-timeout": FlinkOption("cluster.http_request_timeout_ms", milliseconds),
    "heartbeat.interval": FlinkOption("cluster.heartbeat_interval_ms", milliseconds),
    "heartbeat.timeout": FlinkOption("cluster.heartbeat_timeout_ms", milliseconds),
    "task.cancellation.timeout": FlinkOption("cluster.cancel_timeout_ms", milliseconds),
    "slot.request.timeout": FlinkOption("cluster.restart_slots_timeout_ms", milliseconds),
    "high-availability.storageDir": FlinkOption("cluster.state_directory", str),
    "jobmanager.execution.failover-strategy": FlinkOption("cluster.failover_strategy", str),
    "jobmanager.execution.attempts-history-size": FlinkOption(
        "cluster.attempts_retained", whole_number
    ),
    "web.backpressure.num-samples": FlinkOption("cluster.stack_samples", whole_number),
    "web.backpressure.delay-between-samples": FlinkOption(
        "cluster.stack_sample_delay_ms", milliseconds
    ),
    "web.backpressure.refresh-interval": FlinkOption(
        "cluster.stack_sample_refresh_ms", milliseconds
    ),
    "rest.flamegraph.num-samples": FlinkOption("cluster.stack_samples", whole_number),
    "rest.flamegraph.delay-between-samples": FlinkOption(
        "cluster.stack_sample_delay_ms", milliseconds
    ),
    "rest.flamegraph.refresh-interval": FlinkOption(
        "cluster.stack_sample_refresh_ms", milliseconds
    ),
    "rest.flamegraph.stack-depth": FlinkOption("cluster.stack_depth_max", whole_number),
    "metrics.latency.interval": FlinkOption("metrics.latency_interval_ms", milliseconds),
    "metrics.latency.granularity": FlinkOption("metrics.latency_granularity", str.lower),
    "metrics.latency.history-size": FlinkOption("metrics.latency_history_size", whole_number),
    "metrics.reporter.prom.port": FlinkOption("cluster.metrics_port", whole_number),
    "execution.buffer-timeout": FlinkOption("network.buffer_timeout_ms", buffer_timeout),
    "execution.buffer-timeout.interval": FlinkOption("network.buffer_timeout_ms", buffer_timeout),
    f"{_CHECKPOINTING}dir": FlinkOption("checkpointing.directory", str),
    f"{_CHECKPOINTING}num-retained": FlinkOption("checkpointing.retained", whole_number),
    f"{_CHECKPOINTING}data-inline-threshold": FlinkOption("checkpointing.inline_bytes_max", _bytes),
    "state.checkpoints.dir": FlinkOption("checkpointing.directory", str),
    "state.checkpoints.num-retained": FlinkOption("checkpointing.retained", whole_number),
    "state.storage.fs.memory-threshold": FlinkOption("checkpointing.inline_bytes_max", _bytes),
    "state.backend": FlinkOption("state.backend", str),
    "state.backend.type": FlinkOption("state.backend", str),
    "state.backend.rocksdb.localdir": FlinkOption("state.rocksdb_directory", str),
    "state.backend.rocksdb.writebuffer.size": FlinkOption(
        "state.rocksdb_write_buffer_bytes", _bytes
    ),
    "state.backend.rocksdb.block.cache-size": FlinkOption(
        "state.rocksdb_block_cache_bytes", _bytes
    ),
}

_ONE_SIZE = "network memory has one size, taskmanager.memory.network.min"
_NO_JVM = "there is no Java virtual machine, and a process takes what it needs"
_BLOCKING = "exchanges are pipelined, and no result waits on disk for its readers"
_WHOLE = "a checkpoint is written whole"

IGNORED_OPTIONS: Mapping[str, str] = {
    "taskmanager.memory.network.max": _ONE_SIZE,
    "taskmanager.memory.network.fraction": _ONE_SIZE,
    "taskmanager.memory.network.": _ONE_SIZE,
    "taskmanager.memory.": _NO_JVM,
    "taskmanager.cpu.": "a worker runs one event loop, on one core",
    "taskmanager.network.numberOfBuffers": _ONE_SIZE,
    "taskmanager.network.sort-shuffle.": _BLOCKING,
    "taskmanager.network.blocking-shuffle.": _BLOCKING,
    "taskmanager.network.batch-shuffle.": _BLOCKING,
    "taskmanager.network.hybrid-shuffle.": _BLOCKING,
    "taskmanager.network.compression.": "buffers are sent uncompressed",
    "taskmanager.network.bind-policy": "processes listen on the address cluster.host",
    "taskmanager.network.detailed-metrics": "all channels have metrics",
    "taskmanager.network.max-num-tcp-connections": "two workers share one connection",
    "taskmanager.network.tcp-connection.": "two workers share one connection",
    "taskmanager.network.retries": "connecting is retried for network.rendezvous_timeout_ms",
    "taskmanager.network.netty.": "connections use asyncio, not Netty",
    "taskmanager.": "workers are configured in [cluster] and [network]",
    "jobmanager.memory.": _NO_JVM,
    "jobmanager.": "the coordinator is configured in [cluster]",
    "rest.flamegraph.": "flame graphs are always available",
    "rest.": "the control plane is configured in [cluster]",
    "web.": "the page is part of the control plane, configured in [cluster]",
    "heartbeat.": "heartbeats are configured in [cluster]",
    "high-availability.": "cluster.state_directory keeps jobs for the next coordinator",
    "task.": "tasks end within cluster.cancel_timeout_ms",
    "slot.": "jobs wait for slots as --wait-for-slots and cluster.restart_slots_timeout_ms say",
    "slotmanager.": "the coordinator requests no workers, `flinknet worker` adds them",
    "cluster.": "clusters are configured in [cluster]",
    "scheduler-mode": "all subtasks of a job run at the same time",
    "client.": "the program is the client; `flinknet run --detach` does not wait for the job",
    "metrics.": "every process serves /metrics for Prometheus",
    "traces.": "there are no traces",
    "state.backend.incremental": _WHOLE,
    "state.backend.local-recovery": "workers keep no copy of a checkpoint",
    "state.backend.": "backends are configured in [state]",
    "state.changelog.": "there is no changelog backend",
    "state.savepoints.": "a request for a savepoint names its directory",
    "state.": "state is configured in [state] and [checkpointing]",
    f"{_CHECKPOINTING}incremental": _WHOLE,
    f"{_CHECKPOINTING}savepoint-dir": "a request for a savepoint names its directory",
    f"{_CHECKPOINTING}": "checkpoints have no such setting, see [checkpointing]",
    "execution.savepoint.": "flinknet run --from-checkpoint DIR continues a job",
    "execution.attached": "execute waits for the job, and execute_async does not",
    "execution.shutdown-on-attached-exit": "a cluster that a program starts ends with it",
    "execution.target": "cluster.launcher names what starts the cluster of a job",
    "execution.batch.": _BLOCKING,
    "execution.batch-shuffle-mode": _BLOCKING,
    "execution.": "all subtasks of a job run at the same time, and have no such setting",
    "pipeline.": "operators, records and names have no such setting",
    "restart-strategy.": "a restart strategy has no such setting",
    "python.": "workers use the interpreter and the packages with which they were started",
    "env.": _NO_JVM,
    "classloader.": _NO_JVM,
    "akka.": "the control plane uses HTTP",
    "pekko.": "the control plane uses HTTP",
    "blob.": "the control plane distributes jobs and their files",
    "security.": "security is configured by cluster.token_file and [cluster.tls]",
    "historyserver.": "there is no history server",
    "queryable-state.": "state cannot be queried from outside",
    "table.": "there is no Table API",
    "sql-client.": "there is no SQL",
    "sql-gateway.": "there is no SQL",
    "yarn.": "YARN runs workers only for Spark (--on spark), and is configured there",
    "kubernetes.": "the manifests of the pods, or Spark (--on spark), configure Kubernetes",
    "mesos.": "no launcher uses Mesos",
    "zookeeper.": "there is no ZooKeeper",
    "io.": "temporary files go to network.spill_directory and TMPDIR",
    "fs.": "sources and sinks configure their file systems",
    "s3.": "object stores are configured by their own environment variables",
}
"""Options without effect here, each with the reason.

A name with a final dot stands for all options with this prefix.
"""


_OF_A_JOB = ("parallelism.", "pipeline.", "restart-strategy", "execution.")
"""Prefixes of the options that a program sets for its jobs."""


def is_of_a_job(key: str) -> bool:
    """Return whether programs set this option for their jobs, and clusters do not have it."""
    return key not in FLINK_OPTIONS and key.startswith(_OF_A_JOB)


def reason_ignored(key: str) -> str | None:
    """Return why an option of Flink has no effect here; None for a name unknown to Flink."""
    families = (
        name
        for name in IGNORED_OPTIONS
        if key == name or (name.endswith(".") and key.startswith(name))
    )
    # The longest prefix is the most specific one.
    family = max(families, key=len, default=None)
    return None if family is None else IGNORED_OPTIONS[family]


def check_known(key: str, known: Iterable[str]) -> None:
    """Raise ConfigurationError for a name that is neither in ``known`` nor an option of Flink."""
    if key in known or key in IGNORED_OPTIONS:
        return
    names = [*known, *(name for name in IGNORED_OPTIONS if not name.endswith("."))]
    is_flinks = reason_ignored(key) is not None
    # A name with a known prefix may be an option that this table does not list.
    near = get_close_matches(key, names, 1, _SAME if is_flinks else _SIMILAR)
    if near or not is_flinks:
        meant = f": did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"the option {key} is not an option of flinknet or Flink{meant}")


def read_option(key: str, written: str) -> object:
    """Return the value of an option in ``FLINK_OPTIONS``; ConfigurationError if it is invalid."""
    try:
        return FLINK_OPTIONS[key].read(written)
    except ValueError as error:
        raise ConfigurationError(f"{key} is {written!r}: {error}") from error


def warn_ignored(key: str, stacklevel: int) -> None:
    """Warn that an option has no effect, with the reason."""
    why = reason_ignored(key)
    warnings.warn(f"the option {key} has no effect here: {why}", stacklevel=stacklevel + 1)
