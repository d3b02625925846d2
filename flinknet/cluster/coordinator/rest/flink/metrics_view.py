"""Metrics in the formats of Flink's REST API: names, values as text, or aggregates over subtasks.

Without ``get`` the answer has all names. With ``get`` it has the values of the given names that
exist. ``subtasks`` selects subtasks by index (``0-3,7``), and ``agg`` selects the aggregates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from statistics import fmean
from typing import Any

from flinknet.errors import ConfigurationError
from flinknet.metrics.task_catalogue import task_values
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = [
    "aggregated_metrics",
    "chosen_names",
    "metric_list",
    "subtask_values",
    "watermark_list",
]

Values = Mapping[str, float]

_AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": fmean,
    "sum": sum,
}

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def chosen_names(text: str | None) -> list[str] | None:
    """Return the names in a comma-separated text; None without a text."""
    return None if text is None else [name for name in text.split(",") if name]


def metric_list(values: Values, get: Collection[str] | None) -> list[dict[str, str]]:
    """Return Flink's MetricCollectionResponseBody."""
    if get is None:
        return [{"id": name} for name in sorted(values)]
    return [{"id": name, "value": _text(values[name])} for name in get if name in values]


def subtask_values(subtasks: Sequence[SubtaskTotals]) -> dict[str, float]:
    """Return the values of a vertex, with the subtask index in each name: ``0.numRecordsIn``."""
    return {
        f"{one.subtask_index}.{name}": value
        for one in subtasks
        for name, value in task_values(one).items()
    }


def watermark_list(subtasks: Sequence[SubtaskTotals]) -> list[dict[str, str]]:
    """Return the event time at the inputs of a vertex's subtasks as metrics; sources have none."""
    names = [f"{one.subtask_index}.currentInputWatermark" for one in subtasks]
    return metric_list(subtask_values(subtasks), names)


def aggregated_metrics(
    tasks: Sequence[SubtaskTotals],
    get: Collection[str] | None,
    aggregates: Collection[str] | None = None,
    subtasks: str | None = None,
) -> list[dict[str, Any]]:
    """Return Flink's AggregatedMetricsResponseBody.

    Raises ConfigurationError for invalid parameters.
    """
    chosen = [one for one in tasks if subtasks is None or _is_in(one.subtask_index, subtasks)]
    rows = [task_values(one) for one in chosen]
    names = sorted({name for row in rows for name in row})
    if get is None:
        return [{"id": name} for name in names]
    wanted = _AGGREGATES if aggregates is None else aggregates
    unknown = set(wanted) - set(_AGGREGATES)
    if unknown:
        raise ConfigurationError(f"agg is {sorted(unknown)}: choose from {', '.join(_AGGREGATES)}")
    return [
        {"id": name}
        | {
            aggregate: float(_AGGREGATES[aggregate]([row[name] for row in rows if name in row]))
            for aggregate in wanted
        }
        for name in get
        if name in names
    ]


def _is_in(index: int, ranges: str) -> bool:
    for part in ranges.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ConfigurationError(f"subtasks is {ranges[:40]!r}: write indices such as 0-3,7")
        first = int(found[1])
        if first <= index <= int(found[2] or first):
            return True
    return False


def _text(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
