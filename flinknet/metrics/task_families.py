"""The metrics of subtasks, under the names and labels that Flink's Prometheus reporter has.

So dashboards and alerts made for Flink read them as they are. Input and output buffers have two
names, those of the old scope (``buffers``) and of the present one (``Shuffle_Netty``). What Flink
counts is named twice, too, once with its rate (``PerSecond``). ``mailboxLatencyMs`` is the last
one; Flink has a histogram. ``estimatedTimeToConsumeBuffersMs`` is there without debloating, too
(``consumption.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TypeAlias, TypeVar

from flinknet.metrics.families import Family, Labels, Metric, families_of
from flinknet.metrics.gate_totals import GateTotals
from flinknet.metrics.worker_statistics import METERED, SubtaskTotals

__all__ = [
    "exclusive_usage",
    "floating_usage",
    "in_pool_usage",
    "out_pool_usage",
    "task_families",
    "task_labels",
    "task_values",
]

T = TypeVar("T")

_SCOPE = "flink_taskmanager_job_task_"
_INPUT = "Shuffle_Netty_Input_"
_OUTPUT = "Shuffle_Netty_Output_"

_Value: TypeAlias = Callable[[SubtaskTotals], float | None]

_COUNTERS = {
    "records_in": "numRecordsIn",
    "records_out": "numRecordsOut",
    "bytes_in": "numBytesIn",
    "bytes_out": "numBytesOut",
    "buffers_out": "numBuffersOut",
    "buffers_in_local": _INPUT + "numBuffersInLocal",
    "buffers_in_remote": _INPUT + "numBuffersInRemote",
    "bytes_in_local": _INPUT + "numBytesInLocal",
    "bytes_in_remote": _INPUT + "numBytesInRemote",
}

_TIMES = {
    "busyTimeMsPerSecond": "busy_time_ms_per_second",
    "idleTimeMsPerSecond": "idle_time_ms_per_second",
    "backPressuredTimeMsPerSecond": "backpressured_time_ms_per_second",
    "softBackPressuredTimeMsPerSecond": "soft_backpressured_time_ms_per_second",
    "hardBackPressuredTimeMsPerSecond": "hard_backpressured_time_ms_per_second",
    "maxSoftBackPressureTimeMs": "max_soft_backpressured_time_ms",
    "maxHardBackPressureTimeMs": "max_hard_backpressured_time_ms",
    "accumulateBusyTimeMs": "accumulated_busy_time_ms",
    "accumulateIdleTimeMs": "accumulated_idle_time_ms",
    "accumulateBackPressuredTimeMs": "accumulated_backpressured_time_ms",
    "isBackPressured": "is_backpressured",
}


def _share(used: Iterable[int], total: Iterable[int]) -> float:
    whole = sum(total)
    return sum(used) / whole if whole else 0.0


def floating_usage(task: SubtaskTotals) -> float:
    """Part of the floating buffers of all gates that producers cannot fill: those that hold data,
    and those that are held back while a gate is busy."""
    return _share(map(_floating_used, task.gates), (gate.floating_pool.size for gate in task.gates))


def exclusive_usage(task: SubtaskTotals) -> float:
    """The same of the exclusive buffers."""
    return _share(map(_exclusive_used, task.gates), (gate.exclusive_buffers for gate in task.gates))


def in_pool_usage(task: SubtaskTotals) -> float:
    """The same of all buffers of all gates."""
    return _share(
        (_floating_used(gate) + _exclusive_used(gate) for gate in task.gates),
        (gate.floating_pool.size + gate.exclusive_buffers for gate in task.gates),
    )


def _floating_used(gate: GateTotals) -> int:
    return min(gate.floating_in_use + gate.floating_held, gate.floating_pool.size)


def _exclusive_used(gate: GateTotals) -> int:
    return gate.exclusive_in_use + gate.exclusive_held


def out_pool_usage(task: SubtaskTotals) -> float:
    """Buffers in use for each one that the pools of all result partitions may have."""
    parts = task.partitions
    return _share((part.pool.in_use for part in parts), (part.pool.size for part in parts))


def _input_queue_length(task: SubtaskTotals) -> int:
    return sum(gate.queued_buffers for gate in task.gates)


def _input_queue_size(task: SubtaskTotals) -> int:
    return sum(gate.queued_bytes for gate in task.gates)


def _output_queue_length(task: SubtaskTotals) -> int:
    return sum(part.queued_buffers for part in task.partitions)


def _output_queue_size(task: SubtaskTotals) -> int:
    return sum(part.queued_bytes for part in task.partitions)


def _debloated_buffer_size(task: SubtaskTotals) -> int | None:
    sizes = [gate.debloating.buffer_bytes for gate in task.gates if gate.debloating is not None]
    return max(sizes, default=None)


def _estimated_ms(task: SubtaskTotals) -> float | None:
    return max((time for time in map(_gate_ms, task.gates) if time is not None), default=None)


def _gate_ms(gate: GateTotals) -> float | None:
    """By the debloater, which is Flink's, if there is one."""
    return gate.time_to_consume_ms if gate.debloating is None else gate.debloating.estimated_ms


_IN_OLD_AND_NEW: Sequence[tuple[str, str, _Value]] = (
    (_INPUT, "inPoolUsage", in_pool_usage),
    (_INPUT, "inputQueueLength", _input_queue_length),
    (_INPUT, "inputFloatingBuffersUsage", floating_usage),
    (_INPUT, "inputExclusiveBuffersUsage", exclusive_usage),
    (_OUTPUT, "outPoolUsage", out_pool_usage),
    (_OUTPUT, "outputQueueLength", _output_queue_length),
)

_VALUES: dict[str, _Value] = {
    **{name: attrgetter(f"times.{field}") for name, field in _TIMES.items()},
    **{f"buffers_{name}": value for _, name, value in _IN_OLD_AND_NEW},
    **{f"{scope}Buffers_{name}": value for scope, name, value in _IN_OLD_AND_NEW},
    _INPUT + "Buffers_inputQueueSize": _input_queue_size,
    _OUTPUT + "Buffers_outputQueueSize": _output_queue_size,
    _INPUT + "debloatedBufferSize": _debloated_buffer_size,
    "estimatedTimeToConsumeBuffersMs": _estimated_ms,
    "currentInputWatermark": attrgetter("input_watermark"),
    "mailboxQueueSize": attrgetter("mailbox_queue_size"),
    "mailboxLatencyMs": attrgetter("mailbox_latency_ms"),
}


def _metric(name: str, value: Callable[[T], float | None]) -> Metric[T]:
    return Metric(_SCOPE + name, f"{name.rsplit('_', 1)[-1]} (scope: taskmanager_job_task)", value)


def _at(place: int) -> Callable[[Sequence[float]], float]:
    return itemgetter(place)


_METRICS = tuple(_metric(name, value) for name, value in _VALUES.items())
_NAMES = [_COUNTERS[field] for field in METERED]
_COUNTS = [_metric(name, _at(place)) for place, name in enumerate(_NAMES)]
_RATES = [_metric(name + "PerSecond", _at(place)) for place, name in enumerate(_NAMES)]


def task_families(tasks: Sequence[tuple[Labels, SubtaskTotals]]) -> Iterator[Family]:
    """What Flink exports of subtasks, each with its labels."""
    yield from families_of(_METRICS, tasks)
    counts: list[tuple[Labels, Sequence[float]]] = [(who, task.counts()) for who, task in tasks]
    rates: list[tuple[Labels, Sequence[float]]] = [(who, task.rates) for who, task in tasks]
    yield from families_of(_COUNTS, counts)
    yield from families_of(_RATES, rates)


def task_values(task: SubtaskTotals) -> dict[str, float]:
    """The same by the names that Flink's REST has: ``Shuffle.Netty.Input.numBytesInLocal``."""
    values = {metric.name: metric.value(task) for metric in _METRICS}
    values |= {metric.name: metric.value(task.counts()) for metric in _COUNTS}
    if task.rates:
        values |= {metric.name: metric.value(task.rates) for metric in _RATES}
    return {
        name.removeprefix(_SCOPE).replace("_", "."): value
        for name, value in values.items()
        if value is not None
    }


def task_labels(worker: Labels, task: SubtaskTotals) -> Labels:
    """The labels of a subtask, those of its worker included, as Flink's reporter has them."""
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
