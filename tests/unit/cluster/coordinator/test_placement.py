"""Subtasks are placed on what is free."""

from __future__ import annotations

from flinknet.cluster.control.messages import Register
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.placement import Placement
from flinknet.cluster.coordinator.worker_registry import WorkerRecord, WorkerRegistry
from flinknet.datastream import StreamExecutionEnvironment
from tests.unit.cluster.graphs import keyed_graph


def workers(*ids: str, slots: int = 2) -> tuple[WorkerRecord, ...]:
    registry = WorkerRegistry(
        now=0.0, heartbeat_interval_s=1.0, heartbeat_timeout_s=10.0, lost_retained=9
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
