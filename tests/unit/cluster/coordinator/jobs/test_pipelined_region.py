"""The regions of subtasks that must run together, from the edges of a job."""

from __future__ import annotations

import pytest

from flinknet.cluster.coordinator.jobs.pipelined_region import PipelinedRegion, pipelined_regions
from flinknet.graph.graph import JobEdge, JobGraph, JobVertex
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.records.partitioner import RebalancePartitioner
from tests.unit.cluster.graphs import keyed_graph

MODES = {"-": ExchangeMode.PIPELINED_BOUNDED, "=": ExchangeMode.BLOCKING}


def shape(*parallelism: int, edges: str = "", pointwise: str = "") -> JobGraph:
    """Return a job of vertices of this parallelism.

    Edges like ``0-1`` are pipelined, edges like ``0=1`` are blocking. Edges in ``pointwise``
    connect each subtask with some of the others, not with all.
    """
    return JobGraph(
        "job",
        tuple(
            JobVertex(id, f"v{id}", number, 128, "default", ())
            for id, number in enumerate(parallelism)
        ),
        tuple(
            JobEdge(
                int(source), int(target), 0, "REBALANCE", RebalancePartitioner, is_pointwise, None,
                MODES[mode],
            )
            for some, is_pointwise in ((edges, False), (pointwise, True))
            for source, mode, target in map(tuple, some.split())
        ),
    )  # fmt: skip


def regions(graph: JobGraph) -> dict[str, tuple[set[str], set[str]]]:
    """Return by name the subtasks, and the consumed regions."""
    return {
        region.name: ({f"{v}-{i}" for v, i in region.subtasks}, set(region.consumes))
        for region in pipelined_regions(graph)
    }


NONE: set[str] = set()


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (shape(1), "0"),
        (shape(1, 1, 1, edges="0-1 1-2"), "012"),
        (shape(1, 1, 1, edges="0-2 1-2"), "012"),
        (shape(1, 1, 1, 1, edges="0-2 1-3"), "02 13"),
        (shape(1, 1, 1, edges="0-1 1=2"), "01 2<0"),
        (shape(1, 1, 1, edges="0=1 0=2"), "0 1<0 2<0"),
        (shape(1, 1, 1, edges="0=2 1=2"), "0 1 2<01"),
        (shape(1, 1, 1, 1, edges="0=1 0-2 1-3 2-3"), "0123"),
    ],
    ids=[
        "one vertex", "chain", "join", "two pipelines", "one after the other", "two consumers",
        "two producers", "a blocking edge beside pipelined ones",
    ],
)  # fmt: skip
def test_pipelined_edges_join_and_blocking_ones_part(graph: JobGraph, expected: str) -> None:
    """``"01 2<0"`` are two regions, vertices 0 and 1, and vertex 2 that consumes the first."""
    split = (one.partition("<") for one in expected.split())
    assert regions(graph) == {
        f"{vertices[0]}-0": ({f"{id}-0" for id in vertices}, {f"{id}-0" for id in consumed})
        for vertices, _, consumed in split
    }


def test_regions_that_would_wait_for_each_other_are_one() -> None:
    """0 and 3 run together, 3 waits for 1, and 1 waits for 0."""
    assert regions(shape(1, 1, 1, 1, edges="0-3 0=1 1=3 3=2")) == {
        "0-0": ({"0-0", "1-0", "3-0"}, NONE),
        "2-0": ({"2-0"}, {"0-0"}),
    }


def test_a_region_follows_the_regions_that_it_consumes() -> None:
    """This holds even if its first vertex comes before theirs."""
    assert [region.name for region in pipelined_regions(shape(1, 1, 1, edges="0-2 1=2"))] == [
        "1-0",
        "0-0",
    ]


def test_a_keyed_job_is_one_region() -> None:
    assert pipelined_regions(keyed_graph()) == (
        PipelinedRegion("0-0", frozenset({(0, 0), (1, 0), (1, 1)}), frozenset()),
    )


def test_a_pointwise_edge_joins_the_subtasks_that_it_connects() -> None:
    """There are four pipelines side by side, and each two of them share the last subtask."""
    assert regions(shape(4, 4, pointwise="0-1")) == {
        f"0-{index}": ({f"0-{index}", f"1-{index}"}, NONE) for index in range(4)
    }
    assert regions(shape(4, 4, 2, pointwise="0-1 1-2")) == {
        "0-0": ({"0-0", "0-1", "1-0", "1-1", "2-0"}, NONE),
        "0-2": ({"0-2", "0-3", "1-2", "1-3", "2-1"}, NONE),
    }


def test_an_edge_between_all_subtasks_joins_all_pipelines() -> None:
    (one,) = pipelined_regions(shape(3, 3, 3, edges="1-2", pointwise="0-1"))
    assert one.subtasks == {(vertex, index) for vertex in range(3) for index in range(3)}


def test_a_vertex_without_exchanges_is_a_region_for_each_subtask() -> None:
    assert regions(shape(2)) == {"0-0": ({"0-0"}, NONE), "0-1": ({"0-1"}, NONE)}


def test_a_region_consumes_the_regions_whose_subtasks_it_reads() -> None:
    assert regions(shape(2, 2, 2, edges="1=2", pointwise="0=1")) == {
        "0-0": ({"0-0"}, NONE),
        "0-1": ({"0-1"}, NONE),
        "1-0": ({"1-0"}, {"0-0"}),
        "1-1": ({"1-1"}, {"0-1"}),
        "2-0": ({"2-0"}, {"1-0", "1-1"}),
        "2-1": ({"2-1"}, {"1-0", "1-1"}),
    }


def test_two_circles_of_waiting_are_two_regions() -> None:
    """0 and 2 wait for each other over 1, and 3 and 5 wait for each other over 4."""
    assert regions(shape(1, 1, 1, 1, 1, 1, edges="0=1 1=2 0-2 3=4 4=5 3-5")) == {
        "0-0": ({"0-0", "1-0", "2-0"}, NONE),
        "3-0": ({"3-0", "4-0", "5-0"}, NONE),
    }
