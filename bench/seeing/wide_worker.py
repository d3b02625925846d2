"""The longest turn of a worker's event loop while a very wide gate and partition are read.

The gate has 10,000 channels, and the partition has 10,000 subpartitions on one connection. To avoid
10,000 subtasks, two subtasks are deployed by hand, and a peer in the same process stands for all
others. The peer reads every subpartition of the source. It has a subpartition for each channel of
the sink and deals out the records that it has read. Next to no records flow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.process import Part, Pipe
from bench.harness.sides import answers, open_sides
from bench.harness.trial import Measurement, Plan
from bench.peers.cases import KEYBY
from bench.seeing.observer import Ask, Observer
from bench.seeing.stall import SETTLE_S, WatchedTurns, watch_turns
from flinknet import RebalancePartitioner
from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.worker.metrics_server import serve_metrics
from flinknet.cluster.worker.worker_metrics import WorkerMetrics
from flinknet.config import ClusterConfig, NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.datastream import GeneratorSource, RateLimitedSource, StreamExecutionEnvironment
from flinknet.graph.deployment import GateDescriptor, Producer, WorkerOffer, plan_deployment
from flinknet.graph.graph import JobGraph
from flinknet.metrics.worker_catalogue import worker_labels
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.partition.result_partition import ResultPartition
from flinknet.runtime.subtask import Subtask

__all__ = ["NETWORK", "WIDE", "measure_wide_worker", "scrape_worker"]

CHANNELS = 10_000
LISTED = 1_000
"""Number of channels that a scrape lists one by one: the maximum."""

FED = "fed"
"""Name of the peer's partition."""

RECORDS_PER_S = 200
NETWORK = NetworkConfig(network_memory_bytes=80 * 2**20, segment_bytes=1024)

WIDE = replace(
    KEYBY,
    name="gate-10k",
    summary="a worker with one gate of 10,000 channels, one partition of 10,000 subpartitions",
)


class WideGate(GateDescriptor):
    """Reads one subpartition after the other, not the same one of each producer."""

    @property
    def locations(self) -> tuple[PartitionLocation, ...]:
        """The location of each subpartition."""
        return tuple(
            PartitionLocation(*producer, number) for number, producer in enumerate(self.producers)
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final report of the process."""

    turns: WatchedTurns
    received: int


def scrape_worker(worker: str, ask: Ask) -> None:
    """Read /metrics of one worker, with the channels that have the largest backlog."""
    ask(f"{worker}/metrics?channels={LISTED}")


def measure_wide_worker(
    case: Case, plan: Plan, pinning: Pinning, *, interval_s: float | None
) -> tuple[Measurement, Observer | None]:
    """Run once; scrape every ``interval_s`` if given. Raises BenchError if the process fails."""
    token = new_token()
    records = round((SETTLE_S + plan.seconds) * RECORDS_PER_S)
    part = Part("the worker", partial(_play, token, records, plan.seconds), pinning.consumer)
    with open_sides(part) as sides:
        [address] = answers(sides)
        with nullcontext() if interval_s is None else _scraping(address, token, interval_s) as who:
            [outcome] = answers(sides, SETTLE_S + plan.seconds)
        answers(sides)
    assert isinstance(outcome, Outcome)
    measured = Measurement(
        records=round(plan.seconds * RECORDS_PER_S),
        seconds=plan.seconds,
        producer_cpu_seconds=0.0,
        consumer_cpu_seconds=outcome.turns.cpu_s,
        verified=outcome.received == records,
        observations={"longest_turn_ms": outcome.turns.longest_ms},
    )
    return measured, who


@contextmanager
def _scraping(address: str, token: str, interval_s: float) -> Iterator[Observer]:
    observer = Observer(address, token, scrape_worker, interval_s)
    observer.start()
    try:
        yield observer
    finally:
        observer.stop()


async def _play(token: str, records: int, seconds: float, pipe: Pipe) -> None:
    async with (
        NetworkEnvironment(worker_id="worker-0", config=NETWORK) as worker,
        NetworkEnvironment(worker_id="peer", config=NETWORK) as peer,
    ):
        source, sink = _deploy(records, worker, peer)
        fed = peer.create_result_partition(FED, subpartitions=CHANNELS)
        source.open()
        sink.open()
        metrics = WorkerMetrics(worker, lambda: (source, sink))
        labels = worker_labels(worker.worker_id, worker.address)
        async with serve_metrics(metrics, labels, 0, ClusterConfig(), token) as address:
            beside = [asyncio.create_task(one) for one in (sink.run(), metrics.watch())]
            moving = asyncio.gather(source.run(), _forward(peer, source, worker, fed))
            pipe.send(address)
            turns = await watch_turns(seconds)
            await moving
            received = sink.io_metrics().records_in
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
    pipe.send(Outcome(turns, received))


def _deploy(
    records: int, worker: NetworkEnvironment, peer: NetworkEnvironment
) -> tuple[Subtask, Subtask]:
    """Return a source and a sink in the worker; the partition is as wide as the gate."""
    environment = StreamExecutionEnvironment()
    numbers = RateLimitedSource(GeneratorSource(lambda number: number, records), RECORDS_PER_S)
    environment.from_source(numbers).rebalance().sink_to(lambda number: None)
    graph = JobGraph.from_bytes(environment.job_graph(WIDE.name).to_bytes())
    plan = plan_deployment(graph, "job", 0, [WorkerOffer(worker.worker_id, worker.address, 1)])
    source, sink = plan[worker.worker_id]
    [result], [gate] = source.results, sink.gates
    wide = replace(result, consumers=(peer.worker_id,) * CHANNELS)
    producers = (Producer(peer.address, FED),) * CHANNELS
    return (
        Subtask(graph, replace(source, results=(wide,)), worker),
        Subtask(graph, replace(sink, gates=(WideGate(gate.edge, producers, 0),)), worker),
    )


async def _forward(
    peer: NetworkEnvironment, source: Subtask, worker: NetworkEnvironment, fed: ResultPartition
) -> None:
    """Deal out the records of the source's partition to the sink's channels.

    Returns when the sink has processed all of them.
    """
    [partition] = source.partitions
    places = [
        PartitionLocation(worker.address, partition.partition_id, number)
        for number in range(CHANNELS)
    ]
    reader = peer.create_record_reader(peer.create_input_gate(places))
    writer = peer.create_record_writer(fed, RebalancePartitioner())
    async for record in reader:
        await writer.emit(record)
    await writer.finish()
