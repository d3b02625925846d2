"""Run a job's real subtasks over network environments in this process instead of workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.datastream import StreamExecutionEnvironment
from flinknet.graph.deployment import WorkerOffer, plan_deployment
from flinknet.graph.graph import JobGraph
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.operators.sink import CommitContext
from flinknet.runtime.subtask import Subtask, SubtaskResult

SMALL = NetworkConfig(segment_bytes=1024, network_memory_bytes=1024 * 512)
"""Little memory and short buffers, so that small tests see many buffers and backpressure."""


@dataclass
class Outcome:
    """The end of every subtask of a job, by its name, ``"Map (1/2)"``."""

    results: dict[str, SubtaskResult | BaseException]

    @property
    def collected(self) -> dict[str, list[Any]]:
        """The records of the collect sinks of all subtasks.

        Raises the first failure instead, and not the cancellation of a subtask that followed from
        it.
        """
        merged: dict[str, list[Any]] = {}
        failures = [one for one in self.results.values() if isinstance(one, BaseException)]
        if failures:
            raise min(failures, key=lambda one: isinstance(one, asyncio.CancelledError))
        for result in self.results.values():
            assert not isinstance(result, BaseException)
            for sink, records in result.collected.items():
                merged.setdefault(sink, []).extend(records)
        return merged


@asynccontextmanager
async def environments(
    count: int = 1, config: NetworkConfig = SMALL
) -> AsyncIterator[list[NetworkEnvironment]]:
    """Open network environments that can connect to each other."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                NetworkEnvironment(worker_id=f"worker-{number}", config=config)
            )
            for number in range(count)
        ]


def deploy(
    graph: JobGraph, workers: list[NetworkEnvironment], slots: int = 16
) -> dict[str, Subtask]:
    """Make the subtasks of a job, not open yet, by name."""
    graph = JobGraph.from_bytes(graph.to_bytes())
    by_id = {worker.worker_id: worker for worker in workers}
    offers = [WorkerOffer(worker.worker_id, worker.address, slots) for worker in workers]
    plan = plan_deployment(graph, "job", 0, offers)
    return {
        descriptor.name: Subtask(graph, descriptor, by_id[worker_id])
        for worker_id, descriptors in plan.items()
        for descriptor in descriptors
    }


def open_all(subtasks: dict[str, Subtask]) -> None:
    """Open the subtasks, which connects their partitions and gates."""
    for subtask in subtasks.values():
        subtask.open()


async def run(subtasks: dict[str, Subtask]) -> Outcome:
    """Open and run all subtasks; when one fails the others are cancelled, as in a cluster."""
    open_all(subtasks)
    tasks = [asyncio.create_task(subtask.run()) for subtask in subtasks.values()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    return Outcome(dict(zip(subtasks, ends, strict=True)))


def settle(graph: JobGraph, outcome: Outcome) -> None:
    """Commit the prepared records of the two-phase sinks, or abort if a subtask has failed."""
    results = [one for one in outcome.results.values() if isinstance(one, SubtaskResult)]
    for operator, sink in graph.two_phase_sinks():
        committer = sink.create_committer(CommitContext(operator.name, "job", 0))
        if len(results) < len(outcome.results):
            committer.abort()
        else:
            prepared = [result.committables.get(operator.uid, []) for result in results]
            committer.commit([one for committables in prepared for one in committables])


async def run_job(
    environment: StreamExecutionEnvironment, *, workers: int = 1, config: NetworkConfig = SMALL
) -> Outcome:
    """Run the program of an execution environment."""
    async with environments(workers, config) as running:
        graph = environment.job_graph("test")
        outcome = await run(deploy(graph, running))
        settle(graph, outcome)
        for worker in running:
            assert not worker.statistics().gates
            assert not worker.statistics().partitions
        return outcome
