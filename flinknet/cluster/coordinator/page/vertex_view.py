"""One vertex on the web page: a row for each subtask, and metrics to plot.

Rows are arrays in the order of ``COLUMNS``, so that names are not repeated for thousands of
subtasks. Values that a subtask has not reported are null. The interpretation of its pools comes
from the diagnosis, which covers a longer time than the rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.rest.flink.job_view import vertex_id
from flinknet.cluster.coordinator.rest.flink.metrics_view import aggregated_metrics
from flinknet.cluster.coordinator.rest.flink.states import task_states
from flinknet.cluster.coordinator.rest.latency_view import latency_rows
from flinknet.diagnosis.pool_usage import PoolMeaning
from flinknet.diagnosis.reading import TaskReading
from flinknet.diagnosis.topology import TaskKey
from flinknet.graph.graph import JobVertex
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.task_catalogue import find_metric, task_values
from flinknet.metrics.task_times import BackpressureLevel
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = ["COLUMNS", "vertex_view"]

_COUNTED = ("records_in", "records_out", "bytes_in", "bytes_out")

_LIVE = (
    "busy",
    "backpressured",
    "idle",
    "level",
    "records_in_per_s",
    "records_out_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "in_pool",
    "out_pool",
    "floating",
    "exclusive",
    "queued_in",
    "queued_out",
    "backlog",
    "credit_announced",
    "credit_unannounced",
    "credit_held",
    "channels_short",
    "meaning",
    "mailbox_ms",
    "watermark_ms",
)

COLUMNS = ("subtask", "worker", "state", *_COUNTED, *_LIVE)


def vertex_view(
    record: JobRecord,
    vertex: JobVertex,
    live: Mapping[TaskKey, TaskReading],
    meanings: Mapping[TaskKey, PoolMeaning],
    metrics: Sequence[str],
) -> dict[str, Any]:
    """Return all subtasks, and values and totals of the named ``metrics``.

    The answer also has the names of all metrics.
    """
    states = task_states(record)
    rows = []
    for index in range(vertex.parallelism):
        key = vertex.id, index
        counters = record.present.counters.get(key)
        reading = live.get(key)
        rows.append(
            [
                index,
                record.execution.worker_of(key),
                states[key],
                *(_counted(counters)),
                *([None] * len(_LIVE) if reading is None else _live(reading, meanings.get(key))),
            ]
        )
    tasks = [one.latest for (number, _), one in sorted(live.items()) if number == vertex.id]
    return {
        "id": vertex_id(vertex),
        "number": vertex.id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "columns": COLUMNS,
        "rows": rows,
        "latency": latency_rows(record.submission.shape, tasks),
        "metric_names": sorted(task_values(tasks[0])) if tasks else [],
        "metrics": _plotted(tasks, metrics) if metrics else [],
    }


def _plotted(tasks: Sequence[SubtaskTotals], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return metrics over the subtasks, each with its total."""
    rows = aggregated_metrics(tasks, names)
    for row in rows:
        metric, objects = find_metric(tasks, row["id"])
        row["total"] = metric.total(objects)
        row["adds"] = metric.adds.value
        row["unit"] = metric.unit.value
        row["help"] = metric.help
    return rows


def _counted(counters: IOMetrics | None) -> list[int | None]:
    return [None if counters is None else getattr(counters, name) for name in _COUNTED]


def _live(reading: TaskReading, meaning: PoolMeaning | None) -> list[Any]:
    usage = reading.usage.rounded()
    backpressured = reading.share(reading.backpressured_s)
    moved = (reading.records_in, reading.records_out, reading.bytes_in, reading.bytes_out)
    return [
        round(reading.share(reading.busy_s), 4),
        round(backpressured, 4),
        round(reading.share(reading.idle_s), 4),
        BackpressureLevel.of(1000 * backpressured).name,
        *(round(reading.per_second(count), 1) for count in moved),
        *usage[:4],
        usage.queued_in,
        usage.queued_out,
        usage.backlog,
        usage.credit_announced,
        usage.credit_unannounced,
        usage.credit_held,
        usage.channels_short,
        None if meaning is None else meaning.name,
        round(reading.latest.mailbox_latency_ms, 2),
        reading.latest.input_watermark,
    ]
