"""Subtasks are placed in free slots."""

from __future__ import annotations

import pytest

from flinknet.cluster.control.messages import Register
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.jobs.placement import Placement
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord, WorkerRegistry
from flinknet.datastream import StreamExecutionEnvironment
from flinknet.errors import InsufficientSlotsError
from tests.unit.cluster.graphs import keyed_graph, two_pipelines


def workers(*ids: str, slots: int = 2) -> tuple[WorkerRecord, ...]:
    registry = WorkerRegistry(
        now=0.0,
        heartbeat_interval_s=1.0,
        heartbeat_timeout_s=10.0,
        stuck_timeout_s=0.0,
        lost_retained=9,
    )
    for number, worker_id in enumerate(ids):
        registry.register(Register(worker_id, number, f"127.0.0.1:{1000 + number}", slots), 0.0)
    return registry.registered()


def test_the_placement_is_the_same_with_and_without_functions() -> None:
    graph = keyed_graph()
    shape = Submission.from_bytes(Submission.of_graph(graph).to_bytes()).shape
    offers = workers("worker-0", "worker-1")
    assert Placement.of_job(shape, "job", 0, offers) == Placement.of_job(graph, "job", 0, offers)


def test_workers_without_subtasks_are_not_in_the_placement() -> None:
    placement = Placement.of_job(keyed_graph(parallelism=1), "job", 0, workers("a", "b", "c"))
    assert list(placement.subtasks) == ["a"]
    assert placement.slots == {"a": 1}


def test_workers_are_used_in_the_order_of_their_names() -> None:
    offers = workers("worker-10", "worker-2", "worker-0", slots=1)
    placement = Placement.of_job(keyed_graph(parallelism=2), "job", 0, offers)
    assert list(placement.subtasks) == ["worker-0", "worker-2"]


def test_subtasks_of_one_group_and_index_share_a_slot() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    stream = environment.from_collection([1, 2]).rebalance().map(lambda record: record)
    stream.slot_sharing_group("apart").rebalance().filter(bool).slot_sharing_group(
        "default"
    ).print()
    graph = environment.job_graph("job")
    assert graph.slots_required() == 4
    placement = Placement.of_job(graph, "job", 0, workers("worker-0", slots=4))
    assert placement.slots == {"worker-0": 4}
    assert len(placement.subtasks["worker-0"]) > 4


LEFT, RIGHT = [(0, 0), (0, 1), (1, 0), (1, 1)], [(2, 0), (2, 1), (3, 0), (3, 1)]


def test_a_restarted_region_shares_the_slots_of_running_regions() -> None:
    graph = two_pipelines()
    offers = workers("worker-0", "worker-1", slots=1)
    placement = Placement.of_job(graph, "job", 0, offers)
    for worker in offers:
        worker.occupied["job", 0] = 1
    again = placement.redeployed(graph, "job", 3, offers, RIGHT, LEFT)
    assert again.assignment() == placement.assignment()
    assert again.assignment(3) == {
        "worker-0": [(2, 0), (3, 0)],
        "worker-1": [(2, 1), (3, 1)],
    }
    assert again.assignment(0) == {
        "worker-0": [(0, 0), (1, 0)],
        "worker-1": [(0, 1), (1, 1)],
    }
    assert again.deployed("worker-0", 0) == placement.subtasks["worker-0"][:2]
    (source, sink) = again.deployed("worker-1", 3)
    (gate,) = sink.gates
    assert [location.partition_id for location in gate.locations] == ["job/3/1/0", "job/3/1/1"]
    assert [location.address for location in gate.locations] == [w.address for w in offers]
    assert [result.consumers for result in source.results] == [("worker-0", "worker-1")]


def test_a_region_without_running_neighbours_takes_free_slots() -> None:
    """Its own slots were lost with a worker, or the subtasks that shared them have finished."""
    graph = two_pipelines()
    placement = Placement.of_job(graph, "job", 0, workers("worker-0", "worker-1", slots=1))
    offers = workers("worker-0", "worker-2", "worker-3", slots=1)
    offers[0].occupied["job", 0] = 1
    again = placement.redeployed(graph, "job", 1, offers, RIGHT, [(0, 0)])
    assert again.assignment(1) == {"worker-0": [(2, 0), (3, 0)], "worker-2": [(2, 1), (3, 1)]}
    with pytest.raises(
        InsufficientSlotsError, match="2 slots for the restarted part, but 1 are free"
    ):
        placement.redeployed(graph, "job", 1, workers("worker-9", slots=1), RIGHT, [])
    offers[1].occupied["other", 0] = offers[2].occupied["other", 0] = 1
    with pytest.raises(
        InsufficientSlotsError, match="1 slots for the restarted part, but 0 are free on 3 wor"
    ):
        placement.redeployed(graph, "job", 1, offers, RIGHT, [(0, 0)])
