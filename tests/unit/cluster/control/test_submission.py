"""A job's shape is sent without its functions."""

from __future__ import annotations

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest

from flinknet.cluster.control.job_files import JobFile, check_files, pack_job
from flinknet.cluster.control.submission import Submission
from flinknet.config.restart_strategy import (
    NO_RESTART,
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    RestartStrategy,
)
from flinknet.errors import ConfigurationError
from flinknet.graph.graph import JobGraph
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
    return framed(["job", vertices, edges, SETTINGS, False])


def framed(shape: object, graph: bytes = b"graph") -> bytes:
    """Make a body with any shape."""
    packed: bytes = msgpack.packb(shape)
    return len(packed).to_bytes(4, "big") + packed + graph


def test_a_body_is_a_job() -> None:
    shape = Submission.from_bytes(body([SOURCE, [1, *SOURCE[1:]]], [[0, 1, *EDGE[2:]]])).shape
    assert [(edge.source, edge.target) for edge in shape.edges] == [(0, 1)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\1\xc1",
        b"\0\0\0\1",
        b"\xff\xff\xff\xff\1",
        framed(1),
        framed(["job", [], [], SETTINGS, False]),
        framed(["job", [SOURCE], [], SETTINGS, False], b""),
        framed(["job", [SOURCE], [], {}, False]),
        framed(["job", [SOURCE], [], {"restart": ["Exit", {}]}, False]),
        framed(["job", [SOURCE], [], {**SETTINGS, "restore": {"path": 1}}, False]),
        framed(["job", [SOURCE], [], {**SETTINGS, "outputs": [[1, "sink", True]]}, False]),
        framed(["job", [SOURCE], [], {**SETTINGS, "wait_for_slots_ms": float("nan")}, False]),
        framed([1, [SOURCE], [], SETTINGS, False]),
        body([[*SOURCE[:2], 0, *SOURCE[3:]]], []),
        body([[*SOURCE[:2], 1 << 16, *SOURCE[3:]]], []),
        body([[*SOURCE[:4], [], *SOURCE[5:]]], []),
        body([SOURCE], [EDGE]),
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
    with pytest.raises(ConfigurationError, match="body is not a job"):
        Submission.from_bytes(body)


@pytest.mark.parametrize("limit", [None, 1])
def test_files_that_are_damaged_are_found_before_a_worker_has_them(limit: int | None) -> None:
    """This includes files with a description that exceeds the limit of a shape."""
    job = pack_job((JobFile("python", "a.py", "", b"X = 1"),), b"graph")
    damaged = job if limit else job.replace(b"python", b"Python")
    with pytest.raises(ConfigurationError, match="files that come with the job are damaged"):
        check_files(damaged, limit)
    shape = framed(["job", [SOURCE], [], SETTINGS, False], damaged)
    if not limit:
        with pytest.raises(ConfigurationError, match="files that come with the job are damaged"):
            Submission.from_bytes(shape)


@pytest.mark.parametrize(
    "sent", [b"\x80", b"\x90", b"\xc0", b"\xa0"], ids=["map", "array", "nil", "text"]
)
@pytest.mark.parametrize("over", [0, 1])
def test_the_cost_of_a_submission_is_bounded(sent: bytes, over: int) -> None:
    """The option bounds it for any content. A larger body is refused before it is read."""
    limit = 200_000
    elements = limit - 5 + over
    shape = b"\xdd" + elements.to_bytes(4, "big") + sent * elements
    body = len(shape).to_bytes(4, "big") + shape + bytes(1_000_000)
    tracemalloc.start()
    try:
        said = "job_shape_bytes_max" if over else "not a job"
        with pytest.raises(ConfigurationError, match=said):
            Submission.from_bytes(body, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    graph = 1_000_000
    assert peak < graph + (80 * limit if not over else limit)


def test_a_function_that_cannot_travel_is_named() -> None:
    with Path(os.devnull).open("rb") as file:
        graph = keyed_graph(function=lambda record: (file, record))
    with pytest.raises(ConfigurationError, match='"Map" cannot be sent'):
        Submission.of_graph(graph)
