"""Marker latencies with the operators' names."""

from __future__ import annotations

import json

import pytest

from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.rest.latency_view import latency_rows
from flinknet.config import LatencyGranularity, MetricsConfig
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.latency_statistics import LatencyStatistics
from flinknet.wire.events import LatencyMarker
from tests.unit.cluster.graphs import keyed_graph
from tests.unit.metrics.samples import subtask


@pytest.mark.parametrize(
    ("granularity", "source", "source_subtask"),
    [
        ("single", (None, None), None),
        ("operator", ("Collection", hex_id("0.0")), None),
        ("subtask", ("Collection", hex_id("0.0")), 4),
    ],
)
def test_a_row_names_both_ends(
    granularity: LatencyGranularity,
    source: tuple[str | None, str | None],
    source_subtask: int | None,
) -> None:
    shape = Submission.from_bytes(Submission.of_graph(keyed_graph()).to_bytes()).shape
    latency = LatencyStatistics("1.0", 1, MetricsConfig(latency_granularity=granularity))
    latency.take(LatencyMarker(10, "0.0", 4), 17)
    (row,) = latency_rows(shape, [subtask(1, latencies=latency.histograms()), subtask()])
    json.dumps(row)
    assert (row["source"], row["source_id"]) == source
    assert row["source_subtask"] == source_subtask
    assert (row["operator"], row["operator_id"], row["subtask"]) == ("Reduce", hex_id("1.0"), 1)
    assert (row["markers"], row["last"], row["median"], row["p999"]) == (1, 7, 7, 7)
