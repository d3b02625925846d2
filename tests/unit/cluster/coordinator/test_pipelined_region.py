"""What must run together, from the edges of a job."""

from __future__ import annotations

import pytest

from flinknet.cluster.coordinator.pipelined_region import PipelinedRegion, pipelined_regions
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.records.partitioner import RebalancePartitioner
from flinknet.task.graph import JobEdge, JobGraph, JobVertex
from tests.unit.cluster.graphs import keyed_graph

MODES = {"-": ExchangeMode.PIPELINED_BOUNDED, "=": ExchangeMode.BLOCKING}


def shape(vertices: int, *edges: str) -> JobGraph:
    """A job of so many vertices with edges like ``0-1``, pipelined, or ``0=1``, blocking."""
    return JobGraph(
        "job",
        tuple(JobVertex(id, f"v{id}", 1, 128, "default", ()) for id in range(vertices)),
        tuple(
            JobEdge(
                int(source), int(target), 0, "REBALANCE", RebalancePartitioner, False, None,
                MODES[mode],
            )
            for source, mode, target in map(tuple, edges)
        ),
    )  # fmt: skip


def regions(graph: JobGraph) -> dict[str, tuple[set[int], set[str]]]:
    """By name: the vertices, and the regions that are consumed."""
    return {
        region.name: (set(region.vertices), set(region.consumes))
        for region in pipelined_regions(graph)
    }


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (shape(1), {"0": ({0}, set())}),
        (shape(3, "0-1", "1-2"), {"0": ({0, 1, 2}, set())}),
        (shape(3, "0-2", "1-2"), {"0": ({0, 1, 2}, set())}),
        (shape(4, "0-2", "1-3"), {"0": ({0, 2}, set()), "1": ({1, 3}, set())}),
        (shape(3, "0-1", "1=2"), {"0": ({0, 1}, set()), "2": ({2}, {"0"})}),
        (shape(3, "0=1", "0=2"), {"0": ({0}, set()), "1": ({1}, {"0"}), "2": ({2}, {"0"})}),
        (shape(3, "0=2", "1=2"), {"0": ({0}, set()), "1": ({1}, set()), "2": ({2}, {"0", "1"})}),
        (shape(4, "0=1", "0-2", "1-3", "2-3"), {"0": ({0, 1, 2, 3}, set())}),
    ],
    ids=[
        "one vertex", "chain", "join", "two pipelines", "one after the other", "two consumers",
        "two producers", "a blocking edge beside pipelined ones",
    ],
)  # fmt: skip
def test_pipelined_edges_join_and_blocking_ones_part(
    graph: JobGraph, expected: dict[str, tuple[set[int], set[str]]]
) -> None:
    assert regions(graph) == expected


def test_regions_that_would_wait_for_each_other_are_one() -> None:
    """0 and 3 run together, 3 waits for 1, and 1 waits for 0."""
    assert regions(shape(4, "0-3", "0=1", "1=3", "3=2")) == {
        "0": ({0, 1, 3}, set()),
        "2": ({2}, {"0"}),
    }


def test_a_region_stands_behind_those_that_it_consumes() -> None:
    """Also where its first vertex comes before theirs."""
    assert [region.name for region in pipelined_regions(shape(3, "0-2", "1=2"))] == ["1", "0"]


def test_a_job_that_can_run_today_is_one_region() -> None:
    assert pipelined_regions(keyed_graph()) == (
        PipelinedRegion("0", frozenset({0, 1}), frozenset()),
    )
