"""What the coordinator keeps of one job, from its submission until it is forgotten.

The record is the only place that joins the job's parts: the submitted graph, where its subtasks
are, the state machine of its execution, the counters that the workers report and the results that
they upload. Its views (``status``, ``result``) are plain values, ready for JSON and msgpack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import index as as_integer
from typing import Any

from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.job_execution import JobExecution, SubtaskKey
from flinknet.metrics.io_metrics import IO_METRICS, IOMetrics
from flinknet.task.deployment import SubtaskDescriptor

__all__ = ["JobRecord"]


@dataclass(slots=True)
class JobRecord:
    """One job. Times are the coordinator's clock, in seconds."""

    job_id: str
    submission: Submission
    deployment: Mapping[str, tuple[SubtaskDescriptor, ...]]
    """By worker id."""
    execution: JobExecution
    submitted_at: float
    ended_at: float | None = None
    counters: dict[SubtaskKey, IOMetrics] = field(default_factory=dict)
    results: dict[SubtaskKey, dict[str, Any]] = field(default_factory=dict, repr=False)
    """What each finished subtask uploaded: counters, metrics, collected records (opaque bytes)."""
    committables: dict[SubtaskKey, bytes] = field(default_factory=dict, repr=False)
    """What its two-phase sinks have prepared (opaque bytes)."""

    def seconds(self, now: float) -> float:
        """How long the job has run, until now or its end."""
        return (now if self.ended_at is None else self.ended_at) - self.submitted_at

    def note_progress(self, rows: Sequence[Sequence[int]]) -> None:
        """Take in what a worker reports of running subtasks; a finished one's numbers are final.

        TypeError or ValueError if a row is not (vertex, index, counters).
        """
        for row in rows:
            vertex, index, *counters = map(as_integer, row)
            if (vertex, index) not in self.results:
                self.counters[vertex, index] = IOMetrics(*counters)

    def note_result(self, subtask: SubtaskKey, result: dict[str, Any]) -> None:
        """Take in what a finished subtask uploaded."""
        self.committables[subtask] = result.pop("committables")
        self.results[subtask] = result
        self.counters[subtask] = IOMetrics(*(result[counter] for counter in IO_METRICS))

    def collected_bytes(self) -> int:
        """Bytes of collected records that are held for the client."""
        return sum(len(result["collected"]) for result in self.results.values())

    def status(self, now: float) -> dict[str, Any]:
        """State, counters per vertex and, if it failed, the cause: plain JSON types."""
        cause = self.execution.cause
        return {
            "job_id": self.job_id,
            "name": self.submission.name,
            "attempt": self.execution.attempt,
            "state": self.execution.state.value,
            "seconds": self.seconds(now),
            "workers": list(self.execution.workers),
            "vertices": self._vertices(),
            "cause": None if cause is None else cause.to_dict(),
            "holders": list(self.execution.holders),
        }

    def result(self) -> list[dict[str, Any]]:
        """One row per subtask, in order of vertex and index; ``collected`` is left as uploaded."""
        descriptors = {
            (descriptor.vertex, descriptor.index): (worker_id, descriptor)
            for worker_id, descriptors in self.deployment.items()
            for descriptor in descriptors
        }
        return [
            {
                "vertex": descriptor.vertex,
                "name": descriptor.name,
                "index": descriptor.index,
                "parallelism": descriptor.parallelism,
                "worker_id": worker_id,
                **self.results[key],
            }
            for key, (worker_id, descriptor) in sorted(descriptors.items())
            if key in self.results
        ]

    def prepared(self) -> list[bytes]:
        """What the two-phase sinks of all subtasks have prepared, in order of the subtasks."""
        return [self.committables[key] for key in sorted(self.committables)]

    def forget_collected(self) -> None:
        """Drop the collected records: they are handed out once."""
        for result in self.results.values():
            result["collected"] = b""

    def _vertices(self) -> list[dict[str, Any]]:
        states = self.execution.subtask_states()
        rows = []
        for vertex in self.submission.shape.vertices:
            keys = [(vertex.id, index) for index in range(vertex.parallelism)]
            counters = [self.counters[key] for key in keys if key in self.counters]
            rows.append(
                {
                    "id": vertex.id,
                    "name": vertex.name,
                    "parallelism": vertex.parallelism,
                    "states": dict(Counter(states[key].value for key in keys)),
                    **asdict(IOMetrics.total(counters)),
                }
            )
        return rows
