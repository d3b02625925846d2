"""flinknet on the case ``keyby``: two worker processes, each with a source and a keyed sink.

Every worker emits its own blocks, hashed by key to both sinks, and consumes its share of both
sources. Half of all records stay in their process and use channels of memory. The other half cross
over, in both directions at once. ``columnar`` has the same rows as columns. A worker's round is
over when all records of its source have been processed and its sink has read the end of both
sources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from bench.harness.case import Case, Tally, Weigh
from bench.harness.flinknet_system import CONSUME, EMIT, Ends, network_parameters
from bench.harness.pinning import Pinning
from bench.harness.process import Clocks, Part, Pipe
from bench.harness.side import BlockFeed, Round
from bench.harness.sides import answers, open_sides
from bench.harness.trial import Measurement, Plan
from bench.peers.columns import KEY, ColumnBlock
from bench.peers.flinknet_ends import consume_columns, emit_columns
from flinknet import HashPartitioner, NetworkConfig, NetworkEnvironment

__all__ = ["VARIANTS", "measure", "parameters"]

WORKERS = 2


class WorkerReport(NamedTuple):
    """The records that a worker has sent and received in a round, and its time."""

    sent: Tally
    received: Tally
    time: Clocks


def measure(variant: str, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError if a worker fails or does not answer."""
    name = f"{case.name}, flinknet {variant}: worker"
    parts = [
        Part(f"{name} {index}", partial(work, variant, case, index), cpu)
        for index, cpu in enumerate(pinning)
    ]
    verified = True
    reports: list[WorkerReport] = []
    with open_sides(*parts) as sides:
        addresses = answers(sides)
        for side in sides:
            side.tell(addresses)
        for seconds in (None, plan.warm_up_s, plan.seconds):
            for side in sides:
                side.tell(Round(seconds))
            reports = answers(sides, seconds or 0.0)
            sent = _sum([report.sent for report in reports])
            verified = verified and sent == _sum([report.received for report in reports])
        for side in sides:
            side.tell(None)
        answers(sides)
    first, second = reports
    return Measurement(
        records=first.received.records + second.received.records,
        seconds=max(first.time.wall, second.time.wall),
        producer_cpu_seconds=first.time.cpu,
        consumer_cpu_seconds=second.time.cpu,
        verified=verified,
        observations={},
    )


async def work(variant: str, case: Case, index: int, pipe: Pipe) -> None:
    """Run a worker until told to end."""
    block = case.make_block()
    ends = _ENDS[variant](case)
    async with NetworkEnvironment() as environment:
        pipe.send(environment.address)
        addresses = await pipe.receive()
        number = 0
        while (round_ := await pipe.receive()) is not None:
            number += 1
            name = f"round {number}"
            feed = round_.feed(case, block)
            weigh = round_.weigh(case)
            begun = Clocks.read()
            _, received = await asyncio.gather(
                _produce(environment, ends, name, feed),
                _consume(environment, ends, name, index, addresses, weigh),
            )
            time = Clocks.read() - begun
            pipe.send(WorkerReport(feed.tally(), received, time))


def _rows(variant: str, case: Case) -> Ends:
    assert case.key is not None
    return Ends(EMIT[variant], CONSUME[variant], partial(HashPartitioner, case.key), WORKERS)


def _columns(case: Case) -> Ends:
    from flinknet.records.columns.partitioner import ColumnHashPartitioner

    return Ends(
        partial(emit_columns, ColumnBlock(case)),
        partial(consume_columns, case),
        partial(ColumnHashPartitioner, KEY),
        WORKERS,
    )


_ENDS: dict[str, Callable[[Case], Ends]] = {
    "record": partial(_rows, "record"),
    "bulk": partial(_rows, "bulk"),
    "columnar": _columns,
}
VARIANTS = tuple(_ENDS)


async def _produce(environment: NetworkEnvironment, ends: Ends, name: str, feed: BlockFeed) -> None:
    async with environment.open_writer(
        name, subpartitions=ends.subpartitions, partitioner=ends.partitioner()
    ) as writer:
        await ends.emit(writer, feed)


async def _consume(
    environment: NetworkEnvironment,
    ends: Ends,
    name: str,
    index: int,
    addresses: Sequence[str],
    weigh: Weigh,
) -> Tally:
    async with environment.open_reader(addresses, name, subpartition=index) as reader:
        return await ends.consume(reader, weigh)


def _sum(tallies: Sequence[Tally]) -> Tally:
    return Tally(*map(sum, zip(*tallies, strict=True)))


def parameters(case: Case) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    return {
        "workers": WORKERS,
        "sources": WORKERS,
        "sinks": WORKERS,
        "partitioner": "HashPartitioner, of columns ColumnHashPartitioner",
        "credit": "on",
        **network_parameters(NetworkConfig()),
    }
