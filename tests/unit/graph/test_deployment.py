"""Deployment: slots, placement, and the wiring of partitions to gates."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.datastream import StreamExecutionEnvironment
from flinknet.errors import InsufficientSlotsError
from flinknet.graph.deployment import (
    SubtaskDescriptor,
    WorkerOffer,
    descriptors_of_fields,
    descriptors_to_fields,
    plan_deployment,
)
from flinknet.graph.graph import JobGraph
from flinknet.partition.exchange_mode import ExchangeMode


def workers(count: int, slots: int) -> list[WorkerOffer]:
    return [WorkerOffer(f"w{i}", f"127.0.0.1:{7000 + i}", slots) for i in range(count)]


def exchange(sources: int, targets: int, how: str) -> JobGraph:
    environment = StreamExecutionEnvironment()
    stream = environment.from_collection([]).set_parallelism(sources)
    getattr(stream, how)().print().set_parallelism(targets)
    return environment.job_graph()


def by_name(plan: dict[str, tuple[SubtaskDescriptor, ...]]) -> dict[str, SubtaskDescriptor]:
    return {one.name: one for descriptors in plan.values() for one in descriptors}


def test_subtasks_of_a_slot_share_a_worker() -> None:
    plan = plan_deployment(exchange(4, 4, "rebalance"), "job", 0, workers(2, 2))

    assert [one.name for one in plan["w0"]] == [
        "Source: Collection (1/4)",
        "Source: Collection (3/4)",
        "Sink: Print (1/4)",
        "Sink: Print (3/4)",
    ]
    assert [one.index for one in plan["w1"]] == [1, 3, 1, 3]


def test_slots_are_spread_over_the_workers() -> None:
    plan = plan_deployment(exchange(2, 2, "rebalance"), "job", 0, workers(3, 2))

    assert [len(plan[worker]) for worker in ("w0", "w1", "w2")] == [2, 2, 0]


def test_workers_with_different_slots() -> None:
    offers = [WorkerOffer("small", "127.0.0.1:1", 1), WorkerOffer("big", "127.0.0.1:2", 3)]

    plan = plan_deployment(exchange(4, 4, "rebalance"), "job", 0, offers)

    assert Counter(one.index for one in plan["small"]) == {0: 2}
    assert Counter(one.index for one in plan["big"]) == {1: 2, 2: 2, 3: 2}


def test_slot_sharing_groups_have_slots_of_their_own() -> None:
    environment = StreamExecutionEnvironment()
    stream = environment.from_collection([]).set_parallelism(2)
    stream.rebalance().print().set_parallelism(2).slot_sharing_group("sinks")
    graph = environment.job_graph("grouped")

    plan = plan_deployment(graph, "job", 0, workers(4, 1))

    assert [len(descriptors) for descriptors in plan.values()] == [1, 1, 1, 1]
    with pytest.raises(
        InsufficientSlotsError,
        match=r'"grouped" needs 4 slots \(2 for slot sharing group "default", 2 for .* "sinks"\), '
        "but the cluster has 3 on 3 workers: raise slots_per_worker to 2",
    ):
        plan_deployment(graph, "job", 0, workers(3, 1))


def test_no_workers_at_all() -> None:
    with pytest.raises(InsufficientSlotsError, match="has 0 on 0 workers"):
        plan_deployment(exchange(1, 1, "rebalance"), "job", 0, [])


def test_all_to_all_wiring() -> None:
    plan = by_name(plan_deployment(exchange(2, 3, "rebalance"), "j", 7, workers(3, 1)))

    (result,) = plan["Source: Collection (2/2)"].results
    assert (result.partition_id, result.subpartitions) == ("j/7/0/1", 3)
    (gate,) = plan["Sink: Print (3/3)"].gates
    assert gate.locations == (
        ("127.0.0.1:7000", "j/7/0/0", 2),
        ("127.0.0.1:7001", "j/7/0/1", 2),
    )


@pytest.mark.parametrize(
    ("sources", "targets", "expected"),
    [
        (2, 4, {(0, 0), (0, 1), (1, 2), (1, 3)}),
        (4, 2, {(0, 0), (1, 0), (2, 1), (3, 1)}),
        (3, 3, {(0, 0), (1, 1), (2, 2)}),
        (2, 3, {(0, 0), (0, 1), (1, 2)}),
        (3, 2, {(0, 0), (1, 1), (2, 1)}),
    ],
)
def test_pointwise_wiring(sources: int, targets: int, expected: set[tuple[int, int]]) -> None:
    """Q3: rescale connects subtasks by the ratio of the parallelisms."""
    assert connections(exchange(sources, targets, "rescale")) == expected


@given(st.integers(1, 40), st.integers(1, 40))
def test_pointwise_wiring_is_even_and_complete(sources: int, targets: int) -> None:
    connected = connections(exchange(sources, targets, "rescale"))

    assert {source for source, _ in connected} == set(range(sources))
    assert {target for _, target in connected} == set(range(targets))
    assert len(connected) == max(sources, targets)
    side = 0 if sources < targets else 1
    shares = Counter(pair[side] for pair in connected).values()
    assert max(shares) - min(shares) <= 1
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(sorted(connected)))


def connections(graph: JobGraph) -> set[tuple[int, int]]:
    """Return the (source, target) pairs of the only edge; every subpartition must have one
    reader."""
    plan = by_name(plan_deployment(graph, "j", 0, workers(1, 64)))
    read = Counter(
        (location.partition_id, location.subpartition)
        for one in plan.values()
        for gate in one.gates
        for location in gate.locations
    )
    offered = [
        (result.partition_id, subpartition)
        for one in plan.values()
        for result in one.results
        for subpartition in range(result.subpartitions)
    ]
    assert read == Counter(offered)
    return {
        (int(location.partition_id.rsplit("/")[-1]), one.index)
        for one in plan.values()
        for gate in one.gates
        for location in gate.locations
    }


def test_forward_edges_stay_in_the_worker() -> None:
    environment = StreamExecutionEnvironment()
    stream = environment.from_collection([]).set_parallelism(4)
    stream.print().set_parallelism(4).disable_chaining()

    plan = plan_deployment(environment.job_graph(), "j", 0, workers(2, 2))

    addresses = {"w0": "127.0.0.1:7000", "w1": "127.0.0.1:7001"}
    for worker, descriptors in plan.items():
        for one in descriptors:
            for gate in one.gates:
                assert [location.address for location in gate.locations] == [addresses[worker]]


@pytest.mark.parametrize("how", ["rebalance", "rescale", "forward"])
def test_a_partition_names_the_worker_of_every_consumer(how: str) -> None:
    """It names no other worker: each location has the worker that has the gate."""
    sources, targets = (3, 3) if how == "forward" else (2, 3)
    plan = plan_deployment(exchange(sources, targets, how), "j", 0, workers(3, 1))
    results = {
        result.partition_id: result
        for descriptors in plan.values()
        for one in descriptors
        for result in one.results
    }
    named = {
        (location.partition_id, location.subpartition): worker
        for worker, descriptors in plan.items()
        for one in descriptors
        for gate in one.gates
        for location in gate.locations
    }
    for partition_id, result in results.items():
        assert result.consumers == tuple(
            named.pop((partition_id, subpartition)) for subpartition in range(result.subpartitions)
        )
    assert named == {}


def test_a_partition_has_the_exchange_mode_of_its_edge() -> None:
    graph = exchange(2, 2, "rebalance")
    blocking = replace(graph.edges[0], exchange_mode=ExchangeMode.BLOCKING)

    plan = by_name(plan_deployment(replace(graph, edges=(blocking,)), "j", 0, workers(1, 2)))

    (result,) = plan["Source: Collection (1/2)"].results
    assert result.exchange_mode is ExchangeMode.BLOCKING
    (read,) = descriptors_of_fields(descriptors_to_fields([plan["Source: Collection (1/2)"]]))
    assert read.results[0].exchange_mode is ExchangeMode.BLOCKING


def test_descriptors_survive_json() -> None:
    for how in ("rescale", "rebalance"):
        plan = by_name(plan_deployment(exchange(2, 3, how), "j", 0, workers(1, 3)))
        descriptors = list(plan.values())
        fields = json.loads(json.dumps(descriptors_to_fields(descriptors)))
        assert descriptors_of_fields(fields) == descriptors


def test_shared_descriptors_exist_and_are_sent_once() -> None:
    """An exchange among thousands of subtasks has millions of channels."""
    (descriptors,) = plan_deployment(
        exchange(200, 300, "rebalance"), "j", 0, workers(1, 300)
    ).values()
    fields = descriptors_to_fields(descriptors)
    assert sorted(map(len, fields["lists"])) == [200, 300]
    for these in (descriptors, descriptors_of_fields(fields)):
        shared = {id(gate.producers) for one in these for gate in one.gates}
        shared |= {id(result.consumers) for one in these for result in one.results}
        assert len(shared) == 2
