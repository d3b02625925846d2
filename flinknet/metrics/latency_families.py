"""The latency of markers, under the names and labels that Flink has.

Flink's scope is that of the job, and below it groups with a name and a value each: which source,
which operator, which of its subtasks. In Prometheus the names of the groups are part of the
metric's name, and the values are labels; in REST all is one name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from flinknet.metrics.families import Family, Kind, Labels
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.latency_statistics import QUANTILES, LatencyHistogram
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = ["latency_families", "latency_values"]

_SCOPE = "flink_taskmanager_job_latency"


def latency_families(worker: Labels, subtasks: Iterable[SubtaskTotals]) -> Iterator[Family]:
    """What Flink exports of subtasks, each with the labels of its worker."""
    samples: defaultdict[str, list[tuple[Labels, float]]] = defaultdict(list)
    counts: defaultdict[str, list[tuple[Labels, float]]] = defaultdict(list)
    for subtask in subtasks:
        job = {**worker, "job_id": subtask.job_id, "job_name": subtask.job_name}
        for histogram in subtask.latencies:
            groups = _groups(histogram)
            name = "_".join((_SCOPE, *groups, "latency"))
            labels = {**job, **groups}
            samples[name] += [
                ({**labels, "quantile": str(share)}, value)
                for share, value in zip(QUANTILES.values(), histogram.quantiles, strict=True)
            ]
            counts[name].append((labels, histogram.markers))
    for name, own in samples.items():
        described = f"{name.removeprefix('flink_')} (scope: taskmanager_job_latency)"
        yield Family(name, described, Kind.SUMMARY, own, counts[name])


def latency_values(subtasks: Iterable[SubtaskTotals]) -> dict[str, float]:
    """The same by the names that Flink's REST has among those of the job."""
    values: dict[str, float] = {}
    for subtask in subtasks:
        for histogram in subtask.latencies:
            groups = [f"{name}.{value}" for name, value in _groups(histogram).items()]
            prefix = ".".join(("latency", *groups, "latency"))
            for name, value in histogram.numbers().items():
                values[f"{prefix}_{name}"] = value
    return values


def _groups(histogram: LatencyHistogram) -> Labels:
    groups = {}
    if histogram.source_uid:
        groups["source_id"] = hex_id(histogram.source_uid)
    if histogram.source_subtask_index >= 0:
        groups["source_subtask_index"] = str(histogram.source_subtask_index)
    groups["operator_id"] = hex_id(histogram.operator_uid)
    groups["operator_subtask_index"] = str(histogram.operator_subtask_index)
    return groups
