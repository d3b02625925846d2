"""A whole cluster in one process: the real coordinator and workers, connected in memory.

Both sides of the control plane are real, up to the bytes of each message and request.
``MemoryTransport`` carries these, with a delay. The data plane is the real network environment on
the connections of the simulated loop. The trace notes each message with its virtual time, without
the process's hash of texts and without measurements, which differ between runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.messages import Register, StatisticsReport, decode
from flinknet.cluster.control.subtask_result import merge_by_sink
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.rest.worker_requests import AnsweredRequests
from flinknet.cluster.coordinator.workers.worker_connection import WorkerConnection
from flinknet.cluster.worker.worker import Worker, serve_coordinators
from flinknet.config import CheckpointingConfig, ClusterConfig, NetworkConfig
from flinknet.errors import FlinknetError, JobError
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.texts import text_of
from tests.sim.loop import Line

__all__ = ["MemoryConversation", "MemoryTransport", "SimCluster", "Trace", "running_cluster"]

LATENCY_S = 0.002
"""Latency of a control message."""


class Trace:
    """The messages of a cluster, with virtual times."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, sender: str, what: str) -> None:
        self.lines.append(f"{asyncio.get_running_loop().time():.6f} {sender}: {what}")

    def note_message(self, sender: str, packed: bytes) -> None:
        message = decode(packed)
        if isinstance(message, Register):
            message = replace(message, text_hash=0)
        is_measured = isinstance(message, StatisticsReport)
        self.note(sender, type(message).__name__ if is_measured else repr(message))


class MemoryConversation:
    """One end of a control connection; ``None`` in its inbox is the end."""

    vouched: Sequence[str] | None = None
    other: MemoryConversation

    def __init__(self, name: str, trace: Trace) -> None:
        self._name = name
        self._trace = trace
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._line = Line(asyncio.get_running_loop(), LATENCY_S)
        self.is_closed = False

    async def send(self, message: bytes) -> None:
        if self.is_closed:
            raise ConnectionResetError("the conversation has ended")
        self._trace.note_message(self._name, message)
        self._deliver(message)

    async def receive(self) -> bytes | None:
        if self.is_closed:
            return None
        message = await self._inbox.get()
        if message is None:
            self.is_closed = True
        return message

    async def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._inbox.put_nowait(None)
            self._deliver(None)

    def _deliver(self, message: bytes | None) -> None:
        self._line.send(self.other._inbox.put_nowait, message)


class MemoryTransport:
    """A worker's connection to a coordinator in the same process."""

    address = "the simulated coordinator"

    def __init__(self, worker_id: str, coordinator: Coordinator, trace: Trace) -> None:
        self._worker_id = worker_id
        self._coordinator = coordinator
        self._requests = AnsweredRequests(coordinator)
        self._trace = trace
        self._served: list[asyncio.Task[None]] = []
        self.accepted: list[MemoryConversation] = []

    async def open(self) -> None:
        """Do nothing: there is nothing to open."""

    async def close(self) -> None:
        if self._served:
            await asyncio.wait(self._served)

    async def connect(self) -> MemoryConversation:
        near = MemoryConversation(self._worker_id, self._trace)
        far = MemoryConversation(f"to {self._worker_id}", self._trace)
        near.other, far.other = far, near
        connection = WorkerConnection(self._coordinator, far)
        self.accepted.append(far)
        self._served.append(asyncio.create_task(connection.serve()))
        return near

    async def deployment(self, job_id: str, attempt: int, worker_id: str) -> bytes:
        return await self._asked(self._requests.deployment(job_id, attempt, worker_id))

    async def committables(self, job_id: str, attempt: int) -> bytes:
        return await self._asked(self._requests.committables(job_id, attempt))

    async def take_results(self, job_id: str, attempt: int, worker_id: str, body: bytes) -> bytes:
        return await self._asked(self._requests.take_results(job_id, attempt, worker_id, body))

    async def take_answer(self, worker_id: str, request: int, body: bytes) -> None:
        await self._asked(self._requests.take_answer(worker_id, request, body))

    async def _asked(self, answer: Any) -> Any:
        self._trace.note(self._worker_id, f"asks for {answer.__name__}")
        try:
            await asyncio.sleep(LATENCY_S)
            return await answer
        except FlinknetError as error:
            raise JobError(text_of(error)) from error
        finally:
            await asyncio.sleep(LATENCY_S)


class SimCluster:
    """A coordinator and its workers."""

    def __init__(self, config: ClusterConfig, checkpointing: CheckpointingConfig) -> None:
        self.trace = Trace()
        self.coordinator = Coordinator(config, checkpointing=checkpointing)
        self._config = config
        self._checkpointing = checkpointing
        self.stop = asyncio.Event()

    async def work(self, worker_id: str) -> None:
        environment = NetworkEnvironment(
            worker_id=worker_id, config=NetworkConfig(heartbeat_timeout_ms=0.0)
        )
        transport = MemoryTransport(worker_id, self.coordinator, self.trace)
        async with environment, ControlLink(transport, self._config) as link:
            worker = Worker(environment, link, self._config, self._checkpointing)
            slots = self._config.slots_per_worker
            message = Register(worker_id, 1, environment.address, slots)
            await serve_coordinators(worker, link, message, self.stop)
            statistics = environment.statistics()
            assert not statistics.partitions
            assert not statistics.gates
            assert statistics.network_pool.free == statistics.network_pool.total

    def collected(self, record: JobRecord) -> dict[str, list[Any]]:
        """Return the collected records of a finished job by sink."""
        results = record.present.results
        return merge_by_sink(results[subtask]["collected"] for subtask in sorted(results))


@asynccontextmanager
async def running_cluster(
    config: ClusterConfig, checkpointing: CheckpointingConfig
) -> AsyncIterator[SimCluster]:
    """Run a coordinator and the workers that its configuration expects."""
    cluster = SimCluster(config, checkpointing)
    async with asyncio.TaskGroup() as group:
        for number in range(config.workers):
            group.create_task(cluster.work(f"worker-{number}"), name=f"worker-{number}")
        await cluster.coordinator.ready.wait()
        yield cluster
        cluster.coordinator.close("the simulation ends")
        await cluster.coordinator.wait_for_workers()
        await cluster.coordinator.finish_checkpoints()
