"""Flink's names of marker latencies, in Prometheus and in REST."""

from __future__ import annotations

import pytest

from flinknet.config import LatencyGranularity, MetricsConfig
from flinknet.metrics.exporter import render
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.latency_catalogue import latency_families, latency_values
from flinknet.metrics.latency_statistics import LatencyStatistics
from flinknet.metrics.registry import Kind
from flinknet.metrics.turns import Turns
from flinknet.metrics.worker_statistics import SubtaskTotals
from flinknet.wire.events import LatencyMarker
from tests.unit.metrics.samples import subtask
from tests.unit.metrics.test_exporter import parsed

WORKER = {"host": "127.0.0.1", "tm_id": "worker-0"}
SOURCE, OPERATOR = hex_id("numbers"), hex_id("map")
SCOPE = "flink_taskmanager_job_latency_"


def measured(granularity: LatencyGranularity = "operator", index: int = 0) -> SubtaskTotals:
    config = MetricsConfig(latency_granularity=granularity)
    statistics = LatencyStatistics("map", index, config)
    for number in range(1, 101):
        statistics.take(LatencyMarker(0, "numbers", 5), number)
    return subtask(index, latencies=statistics.histograms())


@pytest.mark.parametrize(
    ("granularity", "name", "labels"),
    [
        ("single", "operator_id_operator_subtask_index_latency", {}),
        ("operator", "source_id_operator_id_operator_subtask_index_latency", {"source_id": SOURCE}),
        (
            "subtask",
            "source_id_source_subtask_index_operator_id_operator_subtask_index_latency",
            {"source_id": SOURCE, "source_subtask_index": "5"},
        ),
    ],
)
def test_the_scope_follows_from_the_granularity(
    granularity: LatencyGranularity, name: str, labels: dict[str, str]
) -> None:
    (family,) = latency_families(WORKER, [measured(granularity)])
    own = {**labels, "operator_id": OPERATOR, "operator_subtask_index": "0"}
    job = {**WORKER, "job_id": "0815", "job_name": "sums"}
    assert (family.name, family.kind) == (SCOPE + name, Kind.SUMMARY)
    assert family.counts == [({**job, **own}, 100)]
    assert {sample["quantile"]: value for sample, value in family.samples} == {
        "0.5": 50,
        "0.75": 75,
        "0.9": 90,
        "0.95": 95,
        "0.98": 98,
        "0.99": 99,
        "0.999": 100,
    }
    assert all(sample == {**job, **own, "quantile": sample["quantile"]} for sample, _ in family[3])


async def test_prometheus_reads_a_summary() -> None:
    families = latency_families(WORKER, [measured(index=0), measured(index=1)])
    text = b"".join([piece async for piece in render(families, Turns())])
    found = parsed(text)["summary"]
    name = SCOPE + "source_id_operator_id_operator_subtask_index_latency"
    assert [value for _, value in found[f"{name}_count"]] == [100, 100]
    assert len(found[name]) == 14


def test_rest_has_one_name_for_each_number() -> None:
    values = latency_values([measured(), subtask()])
    prefix = f"latency.source_id.{SOURCE}.operator_id.{OPERATOR}.operator_subtask_index.0.latency"
    assert {name.removeprefix(prefix): value for name, value in values.items()} == {
        "_min": 1,
        "_max": 100,
        "_mean": 50.5,
        "_stddev": pytest.approx(28.866, abs=0.001),
        "_median": 50,
        "_p75": 75,
        "_p90": 90,
        "_p95": 95,
        "_p98": 98,
        "_p99": 99,
        "_p999": 100,
    }
