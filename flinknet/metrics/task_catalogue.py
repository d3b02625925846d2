"""The metrics of subtasks, of their inputs and outputs, and of their operators.

Metrics of subtasks and operators have the names and labels of Flink's Prometheus reporter and REST
API, so that dashboards, alerts and clients made for Flink read them as they are. Input and output
buffers have two names, from the old scope (``buffers``) and the present one (``Shuffle.Netty``).
Each counter of a subtask also has a rate (``PerSecond``). ``mailboxLatencyMs`` is the latest value,
whereas Flink has a histogram. ``estimatedTimeToConsumeBuffersMs`` exists even without debloating
(``consumption.py``).

Metrics of gates, partitions and channels are flinknet's own. Channels are exported only if a scrape
requests them, because there may be thousands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from flinknet.metrics.busiest_channels import ChannelRow
from flinknet.metrics.gate_totals import GateTotals
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.partition_totals import PartitionTotals
from flinknet.metrics.registry import Adding, Catalogue, Family, Kind, Labels, Metric, Unit
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = [
    "CHANNEL",
    "GATE",
    "METERED",
    "OPERATOR",
    "PARTITION",
    "TASK",
    "WORKER_LABELS",
    "channel_families",
    "counts_of",
    "exchange_families",
    "find_metric",
    "task_families",
    "task_labels",
    "task_values",
]

MAX, MIN, MEAN, SHARE = Adding.MAX, Adding.MIN, Adding.MEAN, Adding.SHARE
COUNTER = Kind.COUNTER

WORKER_LABELS = ("host", "tm_id")

_REST = "/v1/jobs/JOB/vertices/VERTEX/subtasks/metrics"


def _floating_use(gate: GateTotals) -> tuple[int, int]:
    return _floating_used(gate), gate.floating_pool.size


def _exclusive_use(gate: GateTotals) -> tuple[int, int]:
    return _exclusive_used(gate), gate.exclusive_buffers


def _input_use(gate: GateTotals) -> tuple[int, int]:
    used = _floating_used(gate) + _exclusive_used(gate)
    return used, gate.floating_pool.size + gate.exclusive_buffers


def _floating_used(gate: GateTotals) -> int:
    return min(gate.floating_in_use + gate.floating_held, gate.floating_pool.size)


def _exclusive_used(gate: GateTotals) -> int:
    return gate.exclusive_in_use + gate.exclusive_held


def _output_use(partition: PartitionTotals) -> tuple[int, int]:
    return partition.pool.in_use, partition.pool.size


def _debloated_bytes(gate: GateTotals) -> int | None:
    return None if gate.debloating is None else gate.debloating.buffer_bytes


def _estimated_ms(gate: GateTotals) -> float | None:
    """Return the debloater's estimate, as Flink does, or else flinknet's own."""
    return gate.time_to_consume_ms if gate.debloating is None else gate.debloating.estimated_ms


def _consumed_in_s(one: GateTotals | ChannelRow) -> float | None:
    return None if one.time_to_consume_ms is None else one.time_to_consume_ms / 1000


def _in_both_scopes(scope: str, metric: Metric[SubtaskTotals]) -> list[Metric[SubtaskTotals]]:
    """Return a metric of buffers with Flink's old name and with the present one."""
    return [
        replace(metric, name=f"{prefix}{metric.name}")
        for prefix in ("buffers.", f"{scope}Buffers.")
    ]


def _received_bytes(gate: GateTotals) -> int:
    return gate.bytes_in_local + gate.bytes_in_remote


def _rate(place: int, counter: Metric[SubtaskTotals]) -> Metric[SubtaskTotals]:
    """Return a metric of a counter's rate, as metered by the worker."""
    return Metric(
        f"{counter.name}PerSecond",
        counter.unit.per_second,
        lambda task: task.rates[place] if task.rates else None,
        f"{counter.help}, per second of the last minute",
    )


_INPUT = "Shuffle.Netty.Input."
_OUTPUT = "Shuffle.Netty.Output."

# fmt: off
_COUNTERS: tuple[Metric[SubtaskTotals], ...] = (
    Metric("numRecordsIn", Unit.RECORDS, "io_metrics.records_in", "Records read", COUNTER),
    Metric("numRecordsOut", Unit.RECORDS, "io_metrics.records_out", "Records written", COUNTER),
    Metric("numBytesIn", Unit.BYTES, "io_metrics.bytes_in", "Bytes read", COUNTER),
    Metric("numBytesOut", Unit.BYTES, "io_metrics.bytes_out", "Bytes written", COUNTER),
    Metric("numBuffersOut", Unit.BUFFERS, "buffers_out", "Buffers taken by consumers", COUNTER, over="partitions"),
    Metric(f"{_INPUT}numBuffersInLocal", Unit.BUFFERS, "buffers_in_local", "Buffers read from producers in this worker", COUNTER, over="gates"),
    Metric(f"{_INPUT}numBuffersInRemote", Unit.BUFFERS, "buffers_in_remote", "Buffers read from other workers", COUNTER, over="gates"),
    Metric(f"{_INPUT}numBytesInLocal", Unit.BYTES, "bytes_in_local", "Bytes read from producers in this worker", COUNTER, over="gates"),
    Metric(f"{_INPUT}numBytesInRemote", Unit.BYTES, "bytes_in_remote", "Bytes read from other workers", COUNTER, over="gates"),
)
"""Counters that also have rates. Workers report the rates in this order."""

METERED = tuple(counter.name for counter in _COUNTERS)
"""Names of a subtask's counters with metered rates."""

_VALUES: tuple[Metric[SubtaskTotals], ...] = (
    Metric("busyTimeMsPerSecond", Unit.MS_PER_SECOND, "times.busy_time_ms_per_second", "Time in which the subtask was busy, per second of the last minute", adds=MEAN),
    Metric("idleTimeMsPerSecond", Unit.MS_PER_SECOND, "times.idle_time_ms_per_second", "Time in which the subtask waited for input, per second of the last minute", adds=MEAN),
    Metric("backPressuredTimeMsPerSecond", Unit.MS_PER_SECOND, "times.backpressured_time_ms_per_second", "Time in which the subtask waited for output buffers, per second of the last minute", adds=MEAN),
    Metric("softBackPressuredTimeMsPerSecond", Unit.MS_PER_SECOND, "times.soft_backpressured_time_ms_per_second", "Part of backPressuredTimeMsPerSecond before the subtask began a record", adds=MEAN),
    Metric("hardBackPressuredTimeMsPerSecond", Unit.MS_PER_SECOND, "times.hard_backpressured_time_ms_per_second", "Part of backPressuredTimeMsPerSecond in the middle of a record", adds=MEAN),
    Metric("maxSoftBackPressureTimeMs", Unit.MILLISECONDS, "times.max_soft_backpressured_time_ms", "Longest soft backpressure of the last 5 to 10 seconds", adds=MAX),
    Metric("maxHardBackPressureTimeMs", Unit.MILLISECONDS, "times.max_hard_backpressured_time_ms", "Longest hard backpressure of the last 5 to 10 seconds", adds=MAX),
    Metric("accumulateBusyTimeMs", Unit.MILLISECONDS, "times.accumulated_busy_time_ms", "Time in which the subtask was busy", COUNTER),
    Metric("accumulateIdleTimeMs", Unit.MILLISECONDS, "times.accumulated_idle_time_ms", "Time in which the subtask waited for input", COUNTER),
    Metric("accumulateBackPressuredTimeMs", Unit.MILLISECONDS, "times.accumulated_backpressured_time_ms", "Time in which the subtask waited for output buffers", COUNTER),
    Metric("isBackPressured", Unit.YES_NO, "times.is_backpressured", "Whether the subtask waits for an output buffer now", adds=MAX),
    *_in_both_scopes(_INPUT, Metric("inPoolUsage", Unit.SHARE, _input_use, "Share of input buffers that producers cannot fill: they hold data, or are held back while the gate is busy", adds=SHARE, over="gates")),
    *_in_both_scopes(_INPUT, Metric("inputQueueLength", Unit.BUFFERS, "queued_buffers", "Buffers received but not read yet", over="gates")),
    *_in_both_scopes(_INPUT, Metric("inputFloatingBuffersUsage", Unit.SHARE, _floating_use, "inPoolUsage of the floating buffers alone", adds=SHARE, over="gates")),
    *_in_both_scopes(_INPUT, Metric("inputExclusiveBuffersUsage", Unit.SHARE, _exclusive_use, "inPoolUsage of the exclusive buffers alone", adds=SHARE, over="gates")),
    *_in_both_scopes(_OUTPUT, Metric("outPoolUsage", Unit.SHARE, _output_use, "Share of output buffers in use; more than 1 with overdraft", adds=SHARE, over="partitions")),
    *_in_both_scopes(_OUTPUT, Metric("outputQueueLength", Unit.BUFFERS, "queued_buffers", "Output buffers that wait for their consumers", over="partitions")),
    Metric(f"{_INPUT}Buffers.inputQueueSize", Unit.BYTES, "queued_bytes", "Bytes received from other workers but not read yet", over="gates"),
    Metric(f"{_OUTPUT}Buffers.outputQueueSize", Unit.BYTES, "queued_bytes", "Bytes that wait for their consumers", over="partitions"),
    Metric(f"{_INPUT}debloatedBufferSize", Unit.BYTES, _debloated_bytes, "Buffer size in bytes that the subtask announces to its producers; only with debloating", adds=MAX, over="gates"),
    Metric("estimatedTimeToConsumeBuffersMs", Unit.MILLISECONDS, _estimated_ms, "Estimated time in which the subtask consumes the in-flight data", adds=MAX, over="gates"),
    Metric("currentInputWatermark", Unit.EVENT_TIME, "input_watermark", "Event time at the inputs", adds=MIN),
    Metric("mailboxQueueSize", Unit.NUMBER, "mailbox_queue_size", "Calls that wait in the mailbox for the end of a batch"),
    Metric("mailboxLatencyMs", Unit.MILLISECONDS, "mailbox_latency_ms", "Time that a call waited in the mailbox, at the last measurement", adds=MAX),
)

TASK: Catalogue[SubtaskTotals] = Catalogue(
    "Subtasks",
    (*_VALUES, *_COUNTERS, *(_rate(*counter) for counter in enumerate(_COUNTERS))),
    scope="taskmanager_job_task",
    labels=(*WORKER_LABELS, "job_id", "job_name", "task_id", "task_name", "task_attempt_id", "task_attempt_num", "subtask_index"),
    rest=_REST,
)

OPERATOR: Catalogue[OperatorTotals] = Catalogue(
    "Operators",
    (
        Metric("numRecordsIn", Unit.RECORDS, "records_in", "Records received by the operator", COUNTER),
        Metric("numRecordsInPerSecond", Unit.RECORDS_PER_SECOND, "records_in_per_second", "The same, per second of the last minute"),
        Metric("numRecordsOut", Unit.RECORDS, "records_out", "Records emitted by the operator, including its side outputs", COUNTER),
        Metric("numRecordsOutPerSecond", Unit.RECORDS_PER_SECOND, "records_out_per_second", "The same, per second of the last minute"),
        Metric("currentInputWatermark", Unit.EVENT_TIME, "input_watermark", "Event time at the input of the operator", adds=MIN),
        Metric("currentOutputWatermark", Unit.EVENT_TIME, "output_watermark", "Event time at the output of the operator", adds=MIN),
        Metric("numLateRecordsDropped", Unit.RECORDS, "late_records_dropped", "Records dropped because they were late", COUNTER),
    ),
    scope="taskmanager_job_task_operator",
    labels=(*TASK.labels, "operator_id", "operator_name"),
    rest=_REST,
    rest_prefix="OPERATOR.",
)

GATE: Catalogue[GateTotals] = Catalogue(
    "Input gates",
    (
        Metric("flinknet_gate_channels", Unit.NUMBER, "channels", "Channels of an input gate"),
        Metric("flinknet_gate_queued_buffers", Unit.BUFFERS, "queued_buffers", "Buffers received but not read yet"),
        Metric("flinknet_gate_backlog", Unit.BUFFERS, "backlog", "Buffers that wait at the producers of a gate, as last announced"),
        Metric("flinknet_gate_credit_announced", Unit.BUFFERS, "credit_announced", "Free buffers of a gate that its producers may send into"),
        Metric("flinknet_gate_credit_unannounced", Unit.BUFFERS, "credit_unannounced", "Free buffers of a gate that are not announced to its producers"),
        Metric("flinknet_gate_credit_held", Unit.BUFFERS, "credit_held", "Free buffers that a gate does not announce while its reader is busy"),
        Metric("flinknet_gate_channels_short", Unit.NUMBER, "channels_short", "Remote channels of a gate whose producers have more data than credit"),
        Metric("flinknet_gate_buffered_bytes", Unit.BYTES, "buffered_bytes", "In-flight bytes of a gate: received, or waiting at its producers"),
        Metric("flinknet_gate_time_to_consume_seconds", Unit.SECONDS, _consumed_in_s, "Estimated time in which the task consumes the in-flight bytes of a gate, along with its other gates", adds=MAX),
        Metric("flinknet_gate_received_bytes_total", Unit.BYTES, _received_bytes, "Bytes read from a gate", COUNTER),
    ),
    labels=(*TASK.labels, "gate"),
)

PARTITION: Catalogue[PartitionTotals] = Catalogue(
    "Result partitions",
    (
        Metric("flinknet_partition_queued_buffers", Unit.BUFFERS, "queued_buffers", "Buffers of a result partition that wait for its consumers"),
        Metric("flinknet_partition_blocked_subpartitions", Unit.NUMBER, "blocked", "Subpartitions that wait for their consumers to resume them"),
        Metric("flinknet_partition_pool_buffers", Unit.BUFFERS, "pool.size", "Buffers that a result partition may hold"),
        Metric("flinknet_partition_pool_buffers_in_use", Unit.BUFFERS, "pool.in_use", "Buffers that a result partition holds"),
        Metric("flinknet_partition_sent_bytes_total", Unit.BYTES, "bytes_out", "Bytes taken by consumers", COUNTER),
    ),
    labels=(*TASK.labels, "partition"),
)

CHANNEL: Catalogue[ChannelRow] = Catalogue(
    "Input channels",
    (
        Metric("flinknet_channel_queued_buffers", Unit.BUFFERS, "channel.queued_buffers", "Buffers of a channel, received but not read yet"),
        Metric("flinknet_channel_backlog", Unit.BUFFERS, "channel.backlog", "Buffers that wait at the producer of a channel, as last announced"),
        Metric("flinknet_channel_buffered_bytes", Unit.BYTES, "buffered_bytes", "In-flight bytes of a channel: received, or waiting at its producer"),
        Metric("flinknet_channel_time_to_consume_seconds", Unit.SECONDS, _consumed_in_s, "Estimated time in which the task consumes the in-flight bytes of a channel, along with its other channels", adds=MAX),
        Metric("flinknet_channel_received_bytes_total", Unit.BYTES, "channel.bytes_in", "Bytes read from a channel", COUNTER),
    ),
    labels=(*WORKER_LABELS, "gate", "channel"),
)
# fmt: on

_UNSUPPORTED = str.maketrans(dict.fromkeys(" .:,", "_"))
"""Characters of an operator's name that are not valid in Flink's REST API."""


def task_families(tasks: Sequence[tuple[Labels, SubtaskTotals]]) -> Iterator[Family]:
    """Make the families of subtasks and their operators, each with its subtask's labels."""
    yield from TASK.families(tasks)
    operators = [
        ({**labels, "operator_id": hex_id(one.uid), "operator_name": one.name}, one)
        for labels, task in tasks
        for one in task.operators
    ]
    yield from OPERATOR.families(operators)


def exchange_families(
    gates: Iterable[tuple[Labels, GateTotals]],
    partitions: Iterable[tuple[Labels, PartitionTotals]],
) -> Iterator[Family]:
    """Make the families of gates and partitions, each with its owner's labels and its name."""
    yield from GATE.families([({**labels, "gate": gate.name}, gate) for labels, gate in gates])
    yield from PARTITION.families(
        [({**labels, "partition": part.partition_id}, part) for labels, part in partitions]
    )


def channel_families(labels: Labels, channels: Iterable[ChannelRow]) -> Iterator[Family]:
    """Make the families of single channels, each with its gate and its number in it."""
    yield from CHANNEL.families(
        [
            ({**labels, "gate": row.gate, "channel": str(row.channel.channel)}, row)
            for row in channels
        ]
    )


def counts_of(task: SubtaskTotals) -> tuple[float, ...]:
    """Return the present count of each counter in ``METERED``."""
    return tuple(counter.value(task) or 0 for counter in _COUNTERS)


def task_values(task: SubtaskTotals) -> dict[str, float]:
    """Return the numbers of a subtask and its operators by their names in Flink's REST API.

    The names are of the form ``numRecordsIn`` and ``Map.numRecordsIn``.
    """
    values = TASK.values(task)
    for one in task.operators:
        prefix = operator_prefix(one)
        for name, value in OPERATOR.values(one).items():
            values[prefix + name] = value
    return values


def find_metric(tasks: Sequence[SubtaskTotals], name: str) -> tuple[Metric[Any], Sequence[Any]]:
    """Return the metric with this name in Flink's REST API, and the objects that it describes.

    The objects are the subtasks or their operators. Raises KeyError if there is no such metric.
    """
    if any(metric.name == name for metric in TASK.metrics):
        return TASK[name], tasks
    operator, _, own = name.rpartition(".")
    # As in ``task_values``, the last operator with a name counts; a chain may have several.
    of_name = [
        {operator_prefix(one): one for one in task.operators}.get(f"{operator}.") for task in tasks
    ]
    return OPERATOR[own], [one for one in of_name if one is not None]


def operator_prefix(operator: OperatorTotals) -> str:
    """Return the prefix of an operator's metrics in Flink's REST API."""
    return OPERATOR.rest_prefix.replace("OPERATOR", operator.name.translate(_UNSUPPORTED))


def task_labels(worker: Labels, task: SubtaskTotals) -> Labels:
    """Return the labels of a subtask and its worker, as in Flink's reporter."""
    task_id = f"{task.vertex:032x}"
    return {
        **worker,
        "job_id": task.job_id,
        "job_name": task.job_name,
        "task_id": task_id,
        "task_name": task.vertex_name,
        "task_attempt_id": f"{task.job_id}_{task_id}_{task.subtask_index}_{task.attempt}",
        "task_attempt_num": str(task.attempt),
        "subtask_index": str(task.subtask_index),
    }
