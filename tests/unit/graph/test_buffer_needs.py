"""The network buffers of a job, computed from its graph: by owner, worker and level."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flinknet.config import NetworkConfig
from flinknet.datastream import CollectSink, StreamExecutionEnvironment
from flinknet.errors import InsufficientNetworkBuffersError
from flinknet.graph.buffer_needs import (
    BufferNeed,
    BufferOwner,
    Verdict,
    WorkerNeeds,
    degraded_gate_limit,
    gate_need,
    job_needs,
    partition_need,
)
from flinknet.graph.deployment import WorkerOffer, plan_deployment
from flinknet.graph.graph import JobGraph
from flinknet.metrics.environment_statistics import EnvironmentStatistics
from flinknet.net.memory_bound import ExchangeShape
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.runtime.subtask import Subtask
from tests.unit.cluster.graphs import keyed_graph
from tests.unit.runtime.running import SMALL, run_job

CONFIG = NetworkConfig()
HERE = "127.0.0.1:9"


def offers(there: str = "127.0.0.1:10", here: str = HERE) -> list[WorkerOffer]:
    return [WorkerOffer("here", here, 2), WorkerOffer("there", there, 2)]


def limited(limit: int, **options: int) -> NetworkConfig:
    return NetworkConfig(required_buffers_per_gate_max=limit, **options)  # type: ignore[arg-type]


# -- one owner


@pytest.mark.parametrize(
    ("subpartitions", "need"),
    [
        (1, BufferNeed(2, 2, 10, 5, large=22)),
        (4, BufferNeed(5, 5, 16, 5, large=22)),
        (100, BufferNeed(101, 101, 208, 5, large=22)),
    ],
)
def test_a_partition_needs_one_buffer_more_than_it_has_subpartitions(
    subpartitions: int, need: BufferNeed
) -> None:
    assert partition_need(subpartitions, CONFIG) == need


@pytest.mark.parametrize(
    ("channels", "config", "need"),
    [
        (0, CONFIG, BufferNeed(0, 0, 0)),
        (1, CONFIG, BufferNeed(1, 3, 10, large=22)),
        (1, limited(0, large_record_buffers_max=11), BufferNeed(1, 3, 10, large=1)),
        (1, limited(0, large_record_buffers_max=0), BufferNeed(1, 3, 10)),
        (5, CONFIG, BufferNeed(1, 11, 18, large=22)),
        (5, limited(7), BufferNeed(1, 7, 18, large=22)),
        (5, limited(1), BufferNeed(1, 1, 18, large=22)),
        (5, limited(1000), BufferNeed(1, 11, 18, large=22)),
        (5, limited(0, floating_buffers_per_gate=0), BufferNeed(1, 10, 10, large=22)),
        (5, limited(0, buffers_per_channel=0), BufferNeed(1, 1, 8, large=22)),
    ],
)
def test_a_gate_needs_buffers_for_its_remote_channels(
    channels: int, config: NetworkConfig, need: BufferNeed
) -> None:
    """Exclusive buffers beyond the limit become floating: they are still used, but no longer
    reserved."""
    assert gate_need(channels, config) == need


@pytest.mark.parametrize(
    ("buffers", "verdict"),
    [
        (1, Verdict.TOO_SMALL),
        (2, Verdict.DEGRADED),
        (3, Verdict.DEGRADED),
        (4, Verdict.FITS),
        (7, Verdict.FITS),
        (8, Verdict.COMFORTABLE),
    ],
)
def test_the_verdict_is_the_highest_level_that_is_reached(buffers: int, verdict: Verdict) -> None:
    assert BufferNeed(2, 4, 8, overdraft=5).verdict(buffers) == verdict


# -- a job


def test_every_owner_is_known_with_its_channels() -> None:
    """The source is here, and there are two sinks on each of two workers."""
    here, there = job_needs(keyed_graph(parallelism=4), offers())

    source = "Source: Collection -> Map"
    sink = "Reduce -> Sink: Collect"
    assert here.owners == (
        BufferOwner(f"{source} (1/1)", "partition", f"HASH to {sink}", 2, 2, is_keyed=True),
        BufferOwner(f"{sink} (1/4)", "gate", f"HASH from {source}", local=1, remote=0),
        BufferOwner(f"{sink} (3/4)", "gate", f"HASH from {source}", local=1, remote=0),
    )
    assert there.owners == (
        BufferOwner(f"{sink} (2/4)", "gate", f"HASH from {source}", local=0, remote=1),
        BufferOwner(f"{sink} (4/4)", "gate", f"HASH from {source}", local=0, remote=1),
    )
    assert (set(here.peers), set(there.peers)) == ({"127.0.0.1:10"}, {HERE})
    assert here.need(CONFIG) == BufferNeed(5, 5, 16, 5, large=22)
    assert there.need(CONFIG) == BufferNeed(2, 6, 20, 0, large=44)
    assert here.shape == ExchangeShape(1, 1, 4, 2, 2, 0, readers=2, keyed_partitions=1)
    assert there.shape == ExchangeShape(1, 0, 0, 2, 0, 2, readers=2, keyed_partitions=0)


@pytest.mark.parametrize(
    "config",
    [CONFIG, limited(1), limited(2), NetworkConfig(flow_control="off")],
    ids=["default", "one", "two", "without credit"],
)
@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
async def test_the_need_is_what_opening_the_subtasks_takes(
    parallelism: int, config: NetworkConfig
) -> None:
    """A worker's subtasks open with as many buffers as computed, and fail with one fewer."""
    graph = keyed_graph(parallelism=parallelism)
    async with NetworkEnvironment() as neighbour:
        for worker, needs in enumerate(job_needs(graph, offers())):
            required = needs.need(config).required
            if required > 1:  # no network memory holds fewer than one
                await open_with(required, graph, neighbour.address, worker, config)
                with pytest.raises(InsufficientNetworkBuffersError):
                    await open_with(required - 1, graph, neighbour.address, worker, config)


@pytest.mark.parametrize("config", [CONFIG, limited(2)], ids=["default", "two"])
async def test_with_comfort_every_pool_has_its_maximum(config: NetworkConfig) -> None:
    graph = keyed_graph(parallelism=4)
    async with NetworkEnvironment() as neighbour:
        for worker, needs in enumerate(job_needs(graph, offers())):
            need = needs.need(config)
            taken = await open_with(need.comfortable, graph, neighbour.address, worker, config)

            pools = [taken_by.pool for taken_by in taken.partitions]
            pools += [gate.floating_pool for gate in taken.gates]
            exclusive = taken.network_pool.exclusive
            assert need.required == taken.network_pool.required + exclusive
            assert need.comfortable == sum(pool.maximum for pool in pools) + exclusive
            assert all(pool.size == pool.maximum for pool in pools)


async def open_with(
    buffers: int, graph: JobGraph, neighbour: str, worker: int, config: NetworkConfig
) -> EnvironmentStatistics:
    """Open the subtasks of one of two workers; the other one is the neighbour."""
    config = replace(config, network_memory_bytes=buffers * config.segment_bytes)
    async with NetworkEnvironment(config=config) as environment:
        own = environment.address
        offered = offers(neighbour, own) if worker == 0 else offers(own, neighbour)
        plan = plan_deployment(graph, "job", 0, offered)
        subtasks = [
            Subtask(graph, descriptor, environment)
            for descriptor in plan[offered[worker].worker_id]
        ]
        try:
            for subtask in subtasks:
                subtask.open()
            return environment.statistics()
        finally:
            for subtask in subtasks:
                subtask.close()


# -- the minimum

RECORDS = [(number, "x" * (number * 37 % 3000)) for number in range(200)]


def program(exchange: str) -> StreamExecutionEnvironment:
    """Return a program with records of up to three buffers, exchanged between three subtasks and
    three."""
    environment = StreamExecutionEnvironment()
    source = (
        environment.from_collection(RECORDS).rebalance().map(identity).name("In").set_parallelism(3)
    )
    if exchange == "diamond":
        other = source.rebalance().map(identity).name("Other").set_parallelism(3)
        exchanged = source.rebalance().union(other)
    elif exchange == "key_by":
        exchanged = source.key_by(lambda record: record[0])
    else:
        exchanged = getattr(source, exchange)()
    received = exchanged.map(identity).name("Received").set_parallelism(3)
    received.sink_to(CollectSink()).set_parallelism(3).name("out")
    return environment


def identity(record: tuple[int, str]) -> tuple[int, str]:
    return record


@pytest.mark.parametrize(
    ("exchange", "copies"),
    [("rebalance", 1), ("rescale", 1), ("broadcast", 3), ("key_by", 1), ("diamond", 2)],
)
@pytest.mark.parametrize("workers", [2, 3])
async def test_a_job_runs_with_the_minimum(exchange: str, copies: int, workers: int) -> None:
    """Channels without exclusive buffers share one floating buffer, in no more memory than that."""
    environment = program(exchange)
    names = [f"worker-{number}" for number in range(workers)]
    needs = job_needs(environment.job_graph(), [WorkerOffer(name, name, 16) for name in names])
    buffers = max(one.need(SMALL).minimum for one in needs)
    least = replace(SMALL, network_memory_bytes=buffers * SMALL.segment_bytes)
    limit = degraded_gate_limit(needs, least)
    assert limit is not None

    outcome = await run_job(
        environment, workers=workers, config=replace(least, required_buffers_per_gate_max=limit)
    )

    assert sorted(outcome.collected["out"]) == sorted(RECORDS * copies)


# -- fitting


def worker(*remote_channels: int, subpartitions: int = 0) -> WorkerNeeds:
    owners = [BufferOwner("task", "gate", "edge", 0, channels) for channels in remote_channels]
    if subpartitions:
        owners.append(BufferOwner("task", "partition", "edge", subpartitions, 0))
    return WorkerNeeds("worker", tuple(owners), frozenset(), 1, readers=1)


@given(
    st.lists(
        st.builds(
            worker,
            st.integers(0, 30),
            st.integers(0, 30),
            st.integers(0, 30),
            subpartitions=st.integers(0, 10),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 300),
    st.integers(0, 60),
    st.integers(0, 3),
    st.integers(0, 8),
)
def test_the_limit_is_the_largest_that_fits(
    workers: list[WorkerNeeds], buffers: int, limit: int, exclusive: int, floating: int
) -> None:
    """If there is none, the minimum does not fit."""
    assume(exclusive + floating)
    config = limited(
        limit,
        buffers_per_channel=exclusive,
        floating_buffers_per_gate=floating,
        network_memory_bytes=buffers * CONFIG.segment_bytes,
    )

    def fits(limit: int) -> bool:
        tried = replace(config, required_buffers_per_gate_max=limit)
        return all(one.need(tried).required <= buffers for one in workers)

    found = degraded_gate_limit(workers, config)

    verdicts = [one.need(config).verdict(buffers) for one in workers]
    gates = any(owner.kind == "gate" and owner.remote for one in workers for owner in one.owners)
    if found is None:
        assert Verdict.TOO_SMALL in verdicts or not gates
    else:
        assert fits(found)
        assert Verdict.TOO_SMALL not in verdicts
        assert fits(config.required_buffers_per_gate_max) or not fits(found + 1)
