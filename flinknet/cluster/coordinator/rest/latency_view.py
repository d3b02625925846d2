"""Latencies of markers from sources to operators, with the operators' names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flinknet.graph.graph import JobGraph
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = ["latency_rows"]


def latency_rows(graph: JobGraph, subtasks: Iterable[SubtaskTotals]) -> list[dict[str, Any]]:
    """Return a row per histogram, as plain JSON types; times are in milliseconds.

    ``source`` is null if all sources are counted together, and ``source_subtask`` if all subtasks
    of a source are.
    """
    names = {one.uid: one.name for vertex in graph.vertices for one in vertex.operators}
    return [
        {
            "source": names.get(one.source_uid),
            "source_id": hex_id(one.source_uid) if one.source_uid else None,
            "source_subtask": one.source_subtask_index if one.source_subtask_index >= 0 else None,
            "operator": names.get(one.operator_uid),
            "operator_id": hex_id(one.operator_uid),
            "subtask": one.operator_subtask_index,
            "markers": one.markers,
            "last": one.last,
            **one.numbers(),
        }
        for subtask in subtasks
        for one in subtask.latencies
    ]
