"""Stack samples of a vertex in the formats of Flink's REST API.

These are the flame graph, and the backpressure by samples of Flink before 1.13. Views are plain
JSON types.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.metrics.stack_sample_store import SampledVertex
from flinknet.cluster.coordinator.rest.flink.vertex_view import level_of
from flinknet.metrics.stack_samples import Calls
from flinknet.metrics.task_times import BackpressureLevel

__all__ = ["FlameGraphType", "flame_graph", "sampled_backpressure"]

_ENDED, _WAITING = -1, -3
"""Timestamps in place of missing samples (Flink's VertexFlameGraph)."""

_LEVELS = list(BackpressureLevel)


class FlameGraphType(Enum):
    """The kind of stacks in a flame graph."""

    FULL = "all"
    ON_CPU = "those that used the CPU"
    OFF_CPU = "those that waited"

    def has(self, *, is_on_cpu: bool) -> bool:
        """Return whether a flame graph of this type includes such a stack."""
        return self is FlameGraphType.FULL or is_on_cpu is (self is FlameGraphType.ON_CPU)


def flame_graph(
    record: JobRecord,
    sampled: SampledVertex | None,
    kind: FlameGraphType,
    subtask_index: int | None = None,
) -> dict[str, Any]:
    """Return Flink's VertexFlameGraph, of all subtasks or of one.

    It has no data while there are no samples, and after the end of the job.
    """
    if record.state.is_terminal:
        return {"endTimestamp": _ENDED, "data": None}
    if sampled is None:
        return {"endTimestamp": _WAITING, "data": None}
    stacks = (
        (stack.calls, times)
        for stack, times in sampled.samples.stacks()
        if kind.has(is_on_cpu=stack.is_on_cpu) and subtask_index in (None, stack.subtask_index)
    )
    return {"endTimestamp": sampled.taken_ms, "data": _tree(stacks)}


def sampled_backpressure(record: JobRecord, sampled: SampledVertex | None) -> dict[str, Any]:
    """Return Flink's JobVertexBackPressureInfo in the format before 1.13.

    Its ratio is the share of samples in which a subtask waited for an output buffer. ``deprecated``
    is Flink's status for no samples yet.
    """
    if sampled is None:
        return {"status": "deprecated", "subtasks": None} | level_of(None) | {"end-timestamp": None}
    looks = sampled.samples.looks()
    levels = {index: BackpressureLevel.of(1000 * one.ratio) for index, one in looks.items()}
    highest = max(levels.values(), key=_LEVELS.index, default=BackpressureLevel.OK)
    return {
        "status": "ok",
        **level_of(highest),
        "end-timestamp": sampled.taken_ms,
        "subtasks": [
            {"subtask": index, **level_of(levels[index]), "ratio": one.ratio, "samples": one.all}
            for index, one in looks.items()
        ],
    }


def _tree(stacks: Iterable[tuple[Calls, int]]) -> dict[str, Any]:
    root: dict[str, Any] = {"name": "root", "value": 0, "children": {}}
    for calls, times in stacks:
        node = root
        node["value"] += times
        for call in calls:
            children = node["children"]
            node = children.setdefault(call, {"name": call, "value": 0, "children": {}})
            node["value"] += times
    return _listed(root)


def _listed(node: dict[str, Any]) -> dict[str, Any]:
    return node | {"children": [_listed(child) for child in node["children"].values()]}
