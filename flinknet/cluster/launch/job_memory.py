"""The network memory of a job on an empty cluster: need, supply and suitable settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from flinknet.config import FlinknetConfig
from flinknet.graph.buffer_needs import (
    BufferNeed,
    Verdict,
    WorkerNeeds,
    degraded_gate_limit,
    job_needs,
)
from flinknet.graph.channel_state_bound import ChannelStateBound, channel_state_bound
from flinknet.graph.deployment import WorkerOffer
from flinknet.graph.graph import JobGraph
from flinknet.net.memory_bound import (
    ExpectedMemory,
    MemoryBound,
    expected_memory,
    memory_bound,
)

__all__ = ["JobMemory", "Level"]

Level = Literal["minimum", "required", "comfortable"]

_NEXT_LEVELS: dict[Verdict, tuple[Level, ...]] = {
    Verdict.TOO_SMALL: ("minimum", "required", "comfortable"),
    Verdict.DEGRADED: ("required", "comfortable"),
    Verdict.FITS: ("comfortable",),
    Verdict.COMFORTABLE: (),
}


@dataclass(frozen=True)
class JobMemory:
    """The needs of a job on each worker of a cluster; all workers have the same memory."""

    job: str
    config: FlinknetConfig
    workers: tuple[WorkerNeeds, ...]
    unaligned: bool = False
    """Whether its checkpoints store in-flight records."""
    broadcasts: tuple[str, ...] = ()
    """The broadcast exchanges of a job with unaligned checkpoints.

    In-flight records of such an exchange cannot be redistributed to another number of consumers.
    """

    @classmethod
    def of_graph(cls, graph: JobGraph, config: FlinknetConfig) -> JobMemory:
        """Place the job on the cluster of ``config``. Raises InsufficientSlotsError."""
        # The need depends only on the placement, so names stand for addresses.
        names = [f"worker-{number}" for number in range(config.cluster.workers)]
        offers = [WorkerOffer(name, name, config.cluster.slots_per_worker) for name in names]
        unaligned = graph.checkpointing is not None and graph.checkpointing.unaligned
        broadcasts = tuple(
            f'"{graph.vertices[edge.source].name}" to "{graph.vertices[edge.target].name}"'
            for edge in graph.edges
            if unaligned and edge.partitioner().is_broadcast
        )
        return cls(graph.name, config, job_needs(graph, offers), unaligned, broadcasts)

    @cached_property
    def needs(self) -> dict[str, BufferNeed]:
        """The need of each worker."""
        return {worker.worker_id: worker.need(self.config.network) for worker in self.workers}

    def worker_verdict(self, worker_id: str) -> Verdict:
        """Return how the memory of one worker compares with its need."""
        return self.needs[worker_id].verdict(self.config.network.segments)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the worker with the worst one."""
        return max(map(self.worker_verdict, self.needs), key=list(Verdict).index)

    @property
    def degraded_gate_limit(self) -> int | None:
        """The ``required_buffers_per_gate_max`` under which the job fits; None if there is none."""
        return degraded_gate_limit(self.workers, self.config.network)

    def settings(self) -> dict[Level, int]:
        """Return the levels that are not reached, with the ``network_memory_bytes`` for each."""
        return {level: self._bytes_for(level) for level in _NEXT_LEVELS[self.verdict]}

    def bounds(self) -> dict[str, MemoryBound]:
        """Return the maximum that the exchange of each worker can hold."""
        return {
            worker.worker_id: memory_bound(
                self.config.network, worker.shape, tls=self.config.cluster.tls.is_on
            )
            for worker in self.workers
        }

    def expected(self) -> dict[str, ExpectedMemory]:
        """Return the memory that the exchange of each worker is expected to take."""
        return {
            worker.worker_id: expected_memory(self.config.network, worker.shape)
            for worker in self.workers
        }

    def channel_state(self) -> dict[str, ChannelStateBound]:
        """Return the maximum of in-flight data that an unaligned checkpoint stores, by worker.

        The result is empty if the job takes no unaligned checkpoints.
        """
        workers = self.workers if self.unaligned else ()
        return {worker.worker_id: channel_state_bound(worker, self.config) for worker in workers}

    def shortage(self, level: Level) -> str:
        """Return the worker with the largest shortage at a level, described for a message."""
        network = self.config.network
        worker, needed = self._largest(level)
        return (
            f"{worker} needs {needed} network buffers of {network.segment_bytes} bytes, but "
            f"network.network_memory_bytes = {network.network_memory_bytes} holds "
            f"{network.segments}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; memory is in bytes, every other number counts buffers."""
        network, bounds, stored = self.config.network, self.bounds(), self.channel_state()
        expected = self.expected()
        return {
            "job": self.job,
            "verdict": self.verdict.value,
            "segment_bytes": network.segment_bytes,
            "network_memory_bytes": network.network_memory_bytes,
            "buffers": network.segments,
            "network_memory_bytes_for": self.settings(),
            "degraded_gate_limit": self.degraded_gate_limit
            if self.verdict is Verdict.DEGRADED
            else None,
            "channel_state": {
                "at_once": sum(bound.at_once for bound in stored.values()),
                "limit": sum(bound.limit for bound in stored.values()),
            }
            if stored
            else None,
            "broadcasts_in_flight": list(self.broadcasts),
            "workers": [
                {
                    "worker_id": worker.worker_id,
                    "verdict": self.worker_verdict(worker.worker_id).value,
                    "need": asdict(self.needs[worker.worker_id]),
                    "owners": [
                        {**asdict(owner), "need": asdict(owner.need(network))}
                        for owner in worker.owners
                    ],
                    "memory_allocated": network.network_memory_bytes,
                    "memory_expected": {
                        **expected[worker.worker_id]._asdict(),
                        "total": expected[worker.worker_id].total,
                    },
                    "memory_bound": {
                        **bounds[worker.worker_id]._asdict(),
                        "total": bounds[worker.worker_id].total,
                    },
                    "channel_state": {
                        **stored[worker.worker_id]._asdict(),
                        "at_once": stored[worker.worker_id].at_once,
                    }
                    if stored
                    else None,
                }
                for worker in self.workers
            ],
        }

    def _bytes_for(self, level: Level) -> int:
        return self._largest(level)[1] * self.config.network.segment_bytes

    def _largest(self, level: Level) -> tuple[str, int]:
        levels = {worker: int(getattr(need, level)) for worker, need in self.needs.items()}
        worker = max(levels, key=levels.__getitem__)
        return worker, levels[worker]
