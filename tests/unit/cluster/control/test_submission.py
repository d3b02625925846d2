"""A job's shape travels without its functions, and is planned on what is free."""

from __future__ import annotations

import os
from pathlib import Path

import msgpack
import pytest

from flinknet.cluster.control.messages import Register
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.worker_registry import WorkerRecord, WorkerRegistry
from flinknet.datastream import StreamExecutionEnvironment
from flinknet.errors import ConfigurationError
from flinknet.task.graph import JobGraph
from tests.unit.cluster.graphs import keyed_graph


def workers(*ids: str, slots: int = 2) -> tuple[WorkerRecord, ...]:
    registry = WorkerRegistry(now=0.0, heartbeat_interval_s=1.0, heartbeat_timeout_s=10.0)
    for number, worker_id in enumerate(ids):
        registry.register(Register(worker_id, number, f"127.0.0.1:{1000 + number}", slots), 0.0)
    return registry.registered()


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


def test_the_plan_is_the_same_with_and_without_functions() -> None:
    complete = Submission.of_graph(keyed_graph())
    shape = Submission.from_bytes(complete.to_bytes())
    offers = workers("worker-0", "worker-1")
    assert shape.plan("job", 0, offers) == complete.plan("job", 0, offers)


def test_workers_without_subtasks_are_not_in_the_plan() -> None:
    plan = Submission.of_graph(keyed_graph(parallelism=1)).plan("job", 0, workers("a", "b", "c"))
    assert list(plan) == ["a"]


def test_workers_are_used_in_the_order_of_their_names() -> None:
    offers = workers("worker-10", "worker-2", "worker-0", slots=1)
    plan = Submission.of_graph(keyed_graph(parallelism=2)).plan("job", 0, offers)
    assert list(plan) == ["worker-0", "worker-2"]


def test_subtasks_of_one_group_and_index_share_a_slot() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    stream = environment.from_collection([1, 2]).rebalance().map(lambda record: record)
    stream.slot_sharing_group("apart").rebalance().filter(bool).slot_sharing_group(
        "default"
    ).print()
    submission = Submission.of_graph(environment.job_graph("job"))
    (descriptors,) = submission.plan("job", 0, workers("worker-0", slots=4)).values()
    assert submission.shape.slots_required() == 4
    assert submission.slots_of(descriptors) == 4


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
