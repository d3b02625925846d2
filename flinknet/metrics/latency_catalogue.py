"""The latency of markers, with the names and labels of Flink.

Flink's scope is the scope of the job, followed by groups with a name and a value each: the source,
the operator, and the subtask of each. In Prometheus the names of the groups belong to the metric's
scope, and the values are labels. In REST both are part of the name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.latency_statistics import QUANTILES, LatencyHistogram
from flinknet.metrics.registry import Catalogue, Family, Kind, Labels, Metric, Unit, family_of
from flinknet.metrics.task_catalogue import WORKER_LABELS
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = ["LATENCY", "latency_families", "latency_values"]

_LATENCY: Metric[LatencyHistogram] = Metric(
    "latency",
    Unit.MILLISECONDS,
    "quantiles",
    "Time that latency markers took from a source to an operator",
    Kind.SUMMARY,
)

LATENCY: Catalogue[LatencyHistogram] = Catalogue(
    "Latency markers",
    (_LATENCY,),
    scope="taskmanager_job_latency_GROUPS",
    labels=(
        *WORKER_LABELS,
        "job_id",
        "job_name",
        "source_id",
        "source_subtask_index",
        "operator_id",
        "operator_subtask_index",
        "quantile",
    ),
    rest="/v1/jobs/JOB/metrics",
    rest_prefix="latency.GROUPS.",
)
"""A histogram has the labels of its groups, which ``metrics.latency_granularity`` sets."""


def latency_families(worker: Labels, subtasks: Iterable[SubtaskTotals]) -> Iterator[Family]:
    """Make the families of subtasks, with the labels of their worker."""
    samples: defaultdict[str, list[tuple[Labels, float]]] = defaultdict(list)
    counts: defaultdict[str, list[tuple[Labels, float]]] = defaultdict(list)
    for subtask in subtasks:
        job = {**worker, "job_id": subtask.job_id, "job_name": subtask.job_name}
        for histogram in subtask.latencies:
            groups = _groups(histogram)
            scope = LATENCY.scope.replace("GROUPS", "_".join(groups))
            labels = {**job, **groups}
            samples[scope] += [
                ({**labels, "quantile": str(share)}, value)
                for share, value in zip(QUANTILES.values(), _LATENCY.reader(histogram), strict=True)
            ]
            counts[scope].append((labels, histogram.markers))
    for scope, own in samples.items():
        yield family_of(_LATENCY, scope, own, counts[scope])


def latency_values(subtasks: Iterable[SubtaskTotals]) -> dict[str, float]:
    """Return the latencies by the names in Flink's REST API, as metrics of the job."""
    values: dict[str, float] = {}
    for subtask in subtasks:
        for histogram in subtask.latencies:
            groups = ".".join(f"{name}.{value}" for name, value in _groups(histogram).items())
            prefix = LATENCY.rest_prefix.replace("GROUPS", groups)
            for name, value in histogram.numbers().items():
                values[f"{prefix}{_LATENCY.name}_{name}"] = value
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
