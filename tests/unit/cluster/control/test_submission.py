"""A job's shape travels without its functions."""

from __future__ import annotations

import os
from pathlib import Path

import msgpack
import pytest

from flinknet.cluster.control.submission import Submission
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
    "body",
    [
        b"",
        b"\xc1",
        msgpack.packb(1),
        msgpack.packb(["job", [], [], b""]),
        msgpack.packb(["job", [[0, "source", 1, 128, "default"]], [], "graph"]),
        msgpack.packb(["job", [[0, "source", 1]], [], b"graph"]),
        msgpack.packb(["job", [[0, "source", 1, 128, "default"]], [[0]], b"graph"]),
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
