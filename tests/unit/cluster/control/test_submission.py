"""A job's shape travels without its functions."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest

from flinknet.cluster.control.submission import Submission
from flinknet.config.restart_strategy import (
    NO_RESTART,
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    RestartStrategy,
)
from flinknet.errors import ConfigurationError
from flinknet.task.graph import JobGraph
from tests.unit.cluster.graphs import keyed_graph


def test_the_shape_survives_and_the_functions_stay_opaque() -> None:
    graph = keyed_graph("flights")
    submission = Submission.from_bytes(Submission.of_graph(graph).to_bytes())
    assert submission.name == "flights"
    assert submission.shape.slots_by_group() == graph.slots_by_group()
    assert [
        (vertex.id, vertex.name, vertex.parallelism, vertex.max_parallelism)
        for vertex in submission.shape.vertices
    ] == [
        (vertex.id, vertex.name, vertex.parallelism, vertex.max_parallelism)
        for vertex in graph.vertices
    ]
    assert JobGraph.from_bytes(submission.graph).vertices[0].name == graph.vertices[0].name


@pytest.mark.parametrize(
    "strategy",
    [
        NO_RESTART,
        FixedDelayRestart(3, 20.0),
        FailureRateRestart(3, 20.0, 1.0),
        ExponentialDelayRestart(1.0, 2.0, 3.0, 4.0, 5),
    ],
)
def test_the_restart_strategy_travels(strategy: RestartStrategy) -> None:
    graph = replace(keyed_graph("flights"), restart=strategy)
    assert Submission.from_bytes(Submission.of_graph(graph).to_bytes()).shape.restart == strategy


SOURCE = [0, "source", 1, 128, "default", [["uid", "source"]]]
SETTINGS = {"checkpointing": None, "restart": ["NoRestart", {}], "restore": None, "outputs": []}
EDGE = [0, 0, 0, "HASH", False, "PIPELINED_BOUNDED", None, False, 0]


def body(vertices: list[object], edges: list[object]) -> bytes:
    packed: bytes = msgpack.packb(["job", vertices, edges, SETTINGS, False, b"graph"])
    return packed


def test_a_body_is_a_job() -> None:
    shape = Submission.from_bytes(body([SOURCE, [1, *SOURCE[1:]]], [[0, 1, *EDGE[2:]]])).shape
    assert [(edge.source, edge.target) for edge in shape.edges] == [(0, 1)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgpack.packb(1),
        msgpack.packb(["job", [], [], SETTINGS, False, b""]),
        msgpack.packb(["job", [SOURCE], [], SETTINGS, False, "graph"]),
        msgpack.packb(["job", [SOURCE], [], {}, False, b"graph"]),
        msgpack.packb(["job", [SOURCE], [], {"restart": ["Exit", {}]}, False, b"graph"]),
        body([SOURCE[:3]], []),
        body([SOURCE], [[0]]),
        body([SOURCE], [[*EDGE[:5], "ON_DEMAND"]]),
        body([SOURCE], [[0, 1, *EDGE[2:]]]),
        body([SOURCE], [["0", 0, *EDGE[2:]]]),
        body([SOURCE], [[0, 0, 1, *EDGE[3:]]]),
        body([SOURCE], [[[], 0, *EDGE[2:]]]),
        body([[1, *SOURCE[1:]]], []),
    ],
)
def test_a_body_that_is_no_job_is_refused(body: bytes) -> None:
    with pytest.raises(ConfigurationError, match="body is no job"):
        Submission.from_bytes(body)


def test_a_function_that_cannot_travel_is_named() -> None:
    with Path(os.devnull).open("rb") as file:
        graph = keyed_graph(function=lambda record: (file, record))
    with pytest.raises(ConfigurationError, match='"Map" cannot be sent'):
        Submission.of_graph(graph)
