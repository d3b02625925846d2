"""Flink's options by Flink's names: each name in its documents is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.config.flink_options import (
    FLINK_OPTIONS,
    IGNORED_OPTIONS,
    check_known,
    is_of_a_job,
    milliseconds,
    read_option,
    reason_ignored,
    truth_value,
    warn_ignored,
)
from flinknet.config.loading import options
from flinknet.errors import ConfigurationError

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"

DOCUMENTED = [
    "web.backpressure.refresh-interval",
    "web.backpressure.num-samples",
    "web.backpressure.delay-between-samples",
    "web.backpressure.cleanup-interval",
    "taskmanager.network.credit-model",
    "taskmanager.network.numberOfBuffers",
    "taskmanager.memory.segment-size",
    "taskmanager.memory.network.min",
    "taskmanager.memory.network.max",
    "taskmanager.memory.network.fraction",
    "taskmanager.memory.process.size",
    "taskmanager.memory.flink.size",
    "taskmanager.memory.managed.size",
    "taskmanager.memory.task.heap.size",
    "taskmanager.data.bind-port",
    "taskmanager.data.port",
    "taskmanager.data.ssl.enabled",
    "taskmanager.network.detailed-metrics",
    "taskmanager.network.blocking-shuffle.compression.enabled",
    "taskmanager.network.blocking-shuffle.type",
    "taskmanager.network.memory.buffers-per-channel",
    "taskmanager.network.memory.floating-buffers-per-gate",
    "taskmanager.network.memory.max-buffers-per-channel",
    "taskmanager.network.memory.buffer-debloat.enabled",
    "taskmanager.network.memory.buffer-debloat.target",
    "taskmanager.network.netty.client.connectTimeoutSec",
    "taskmanager.network.netty.client.numThreads",
    "taskmanager.network.netty.num-arenas",
    "taskmanager.network.netty.sendReceiveBufferSize",
    "taskmanager.network.netty.server.backlog",
    "taskmanager.network.netty.transport",
    "taskmanager.network.request-backoff.initial",
    "taskmanager.network.request-backoff.max",
    "taskmanager.network.retries",
    "taskmanager.network.sort-shuffle.min-buffers",
    "taskmanager.network.sort-shuffle.min-parallelism",
    "taskmanager.network.compression.codec",
    "taskmanager.network.max-num-tcp-connections",
    "taskmanager.numberOfTaskSlots",
    "taskmanager.heap.size",
    "jobmanager.memory.process.size",
    "jobmanager.rpc.address",
    "jobmanager.rpc.port",
    "rest.address",
    "rest.port",
    "rest.bind-port",
    "rest.flamegraph.enabled",
    "rest.flamegraph.cleanup-interval",
    "rest.flamegraph.refresh-interval",
    "heartbeat.interval",
    "heartbeat.timeout",
    "heartbeat.rpc-failure-threshold",
    "task.cancellation.timeout",
    "task.cancellation.interval",
    "high-availability.type",
    "high-availability.storageDir",
    "execution.buffer-timeout",
    "execution.buffer-timeout.interval",
    "execution.attached",
    "execution.batch-shuffle-mode",
    "execution.shutdown-on-attached-exit",
    "execution.checkpointing.incremental",
    "execution.checkpointing.num-retained",
    "execution.checkpointing.unaligned.forced",
    "execution.checkpointing.savepoint-dir",
    "execution.checkpointing.interval-during-backlog",
    "execution.savepoint.path",
    "state.savepoints.dir",
    "state.backend.incremental",
    "state.checkpoints.num-retained",
    "pipeline.jars",
    "pipeline.generic-types",
    "pipeline.name",
    "pipeline.auto-generate-uids",
    "python.executable",
    "python.fn-execution.bundle.size",
    "env.java.opts.all",
    "classloader.resolve-order",
    "metrics.reporters",
    "metrics.reporter.prom.port",
    "metrics.latency.granularity",
    "akka.ask.timeout",
    "io.tmp.dirs",
    "web.submit.enable",
    "web.timeout",
    "blob.server.port",
    "table.exec.mini-batch.enabled",
    "kubernetes.cluster-id",
    "yarn.application.name",
    "security.ssl.internal.enabled",
    "jobmanager.scheduler",
    "restart-strategy.exponential-delay.jitter-factor",
    "cluster.evenly-spread-out-slots",
]
"""Names from Flink's documents, of several versions."""


@pytest.mark.parametrize("key", DOCUMENTED)
def test_a_documented_option_is_taken(key: str) -> None:
    check_known(key, FLINK_OPTIONS)
    assert key in FLINK_OPTIONS or reason_ignored(key)


@pytest.mark.parametrize(("key", "option"), FLINK_OPTIONS.items(), ids=FLINK_OPTIONS)
def test_each_is_an_option_of_flinknets(key: str, option: tuple[str, object]) -> None:
    """The option accepts the values of Flink's documents in one of its units."""
    name, read = option
    assert callable(read)
    texts = {"1234", "2", "true", "region", "single", "/path", "hashmap"}
    values = []
    for text in texts:
        try:
            values.append(options()[name].parse(read(text)))
        except ValueError:
            continue
    assert values
    assert reason_ignored(key) is None or key not in IGNORED_OPTIONS


def test_times_and_truth() -> None:
    assert [milliseconds(text) for text in ("5", "5ms", "2 s", "1 min", "1 h", "1 d")] == [
        5,
        5,
        2_000,
        60_000,
        3_600_000,
        86_400_000,
    ]
    assert truth_value("TRUE")
    for read in (milliseconds, truth_value):
        with pytest.raises(ValueError, match="choose"):
            read("soon")


def test_the_documentation_has_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = [f"| `{key}` | `{option.name}` |" for key, option in FLINK_OPTIONS.items()]
    assert "\n".join(rows) in page


def test_an_option_is_read_refused_or_said_to_do_nothing() -> None:
    assert is_of_a_job("execution.checkpointing.interval")
    assert not is_of_a_job("taskmanager.memory.segment-size")
    key = "taskmanager.memory.segment-size"
    assert read_option(key, "32kb") == FLINK_OPTIONS[key].read("32kb")
    with pytest.raises(ConfigurationError, match=f"{key} is 'much': "):
        read_option(key, "much")
    with pytest.warns(UserWarning, match=r"taskmanager.cpu.cores has no effect here: a worker"):
        warn_ignored("taskmanager.cpu.cores", 1)
    check_known("network.segment_bytes", ["network.segment_bytes"])
    check_known("taskmanager.network.numberOfBuffers", [])
    with pytest.raises(ConfigurationError, match="did you mean network.segment_bytes"):
        check_known("network.segment_byte", ["network.segment_bytes"])
    with pytest.raises(ConfigurationError, match="or Flink$"):
        check_known("no.such.thing", [])
