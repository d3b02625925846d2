"""A client's view of a job: progress while it runs, the result at its end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flinknet.cluster.control.failure import FailureCause
from flinknet.metrics.io_metrics import IOMetrics

__all__ = ["JobProgress", "JobResult", "VertexProgress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexProgress(IOMetrics):
    """Counters and times of one vertex, summed over its subtasks."""

    id: int
    name: str
    parallelism: int
    states: dict[str, int]
    """Number of subtasks in each state."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The status of a job at one moment."""

    job_id: str
    name: str
    attempt: int
    state: str
    seconds: float
    """Seconds from its submission until now, or until its end."""
    workers: tuple[str, ...]
    vertices: tuple[VertexProgress, ...]
    cause: FailureCause | None
    holders: tuple[str, ...] = ()
    """Workers that have not released the job. While it runs, these are all of its workers; after
    its end, the workers with a function that has not returned."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {**asdict(self), "cause": None if self.cause is None else self.cause.to_dict()}

    @classmethod
    def from_dict(cls, status: dict[str, Any]) -> JobProgress:
        """Return the progress from the coordinator's status of the job."""
        cause = status["cause"]
        return cls(
            **{
                **status,
                "workers": tuple(status["workers"]),
                "vertices": tuple(VertexProgress(**vertex) for vertex in status["vertices"]),
                "cause": None if cause is None else FailureCause.from_dict(cause),
                "holders": tuple(status["holders"]),
            }
        )


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job that has finished."""

    job_id: str
    name: str
    state: str
    seconds: float
    workers: tuple[str, ...]
    vertices: tuple[dict[str, Any], ...]
    """One row per subtask: vertex, name, index, parallelism, worker_id, metrics, and its
    ``IOMetrics``. Plain JSON types."""
    collected: dict[str, list[Any]]
    """Records of the collect sinks, by sink name, subtask after subtask."""

    def get_job_id(self) -> str:
        """Return the job's id."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return the duration of the job in milliseconds."""
        return round(self.seconds * 1000)

    def __repr__(self) -> str:
        """Return name, state and counts, without the records.

        asyncio shows the results of tasks, and there may be many records.
        """
        collected = {sink: len(records) for sink, records in self.collected.items()}
        return (
            f"<JobResult {self.name!r} {self.job_id} {self.state} after {self.seconds:.2f} s, "
            f"{len(self.vertices)} subtasks, collected {collected}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types, with the number of collected records only."""
        return {
            "job_id": self.job_id,
            "name": self.name,
            "state": self.state,
            "seconds": self.seconds,
            "workers": list(self.workers),
            "vertices": list(self.vertices),
            "collected": {sink: len(records) for sink, records in self.collected.items()},
        }
