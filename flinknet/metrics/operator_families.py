"""The metrics of operators, under the names and labels that Flink's Prometheus reporter has.

Their scope is below that of the task; in REST it is the operator's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from flinknet.metrics.families import Family, Labels, Metric, families_of
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = ["operator_families", "operator_values"]

_SCOPE = "flink_taskmanager_job_task_operator_"

_NAMES = {
    "numRecordsIn": "records_in",
    "numRecordsInPerSecond": "records_in_per_second",
    "numRecordsOut": "records_out",
    "numRecordsOutPerSecond": "records_out_per_second",
    "currentInputWatermark": "input_watermark",
    "currentOutputWatermark": "output_watermark",
    "numLateRecordsDropped": "late_records_dropped",
}

_METRICS: tuple[Metric[OperatorTotals], ...] = tuple(
    Metric(_SCOPE + name, f"{name} (scope: taskmanager_job_task_operator)", attrgetter(field))
    for name, field in _NAMES.items()
)

_UNSUPPORTED = str.maketrans(dict.fromkeys(" .:,", "_"))
"""What Flink's REST has no place for in the name of an operator."""


def operator_families(tasks: Sequence[tuple[Labels, SubtaskTotals]]) -> Iterator[Family]:
    """What Flink exports of the operators of subtasks, each with the labels of its subtask."""
    operators = [
        ({**labels, "operator_id": hex_id(one.uid), "operator_name": one.name}, one)
        for labels, task in tasks
        for one in task.operators
    ]
    yield from families_of(_METRICS, operators)


def operator_values(task: SubtaskTotals) -> dict[str, float]:
    """The same of one subtask, by the names that Flink's REST has: ``Map.numRecordsIn``."""
    return {
        f"{one.name.translate(_UNSUPPORTED)}.{name}": value
        for one in task.operators
        for name, field in _NAMES.items()
        if (value := getattr(one, field)) is not None
    }
