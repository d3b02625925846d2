"""Readings of tasks and workers over a period: the input of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flinknet.diagnosis.checkpoint_reading import CheckpointReading
from flinknet.diagnosis.pool_usage import PoolUsage
from flinknet.diagnosis.topology import TaskKey
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.garbage_totals import NO_GARBAGE, GarbageTotals
from flinknet.metrics.worker_statistics import HeldUp, SubtaskTotals

__all__ = ["Readings", "TaskReading", "WorkerReading"]


class TaskReading(NamedTuple):
    """A subtask: its times, its counters, and its state at the end of the period.

    The three kinds of time add up to the period; a wait that has not ended is included.
    """

    worker_id: str
    idle_s: float
    busy_s: float
    backpressured_s: float
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    queues: Mapping[tuple[int, int], float]
    """Average number of buffers held, by position of the result partition and subpartition."""
    usage: PoolUsage
    """Average usage of its pools."""
    latest: SubtaskTotals
    gate_bytes: tuple[int, ...] = ()
    """Bytes received through each of its input gates, in order."""

    @property
    def seconds(self) -> float:
        """Length of the period in seconds."""
        return self.idle_s + self.busy_s + self.backpressured_s

    def share(self, seconds: float) -> float:
        """Return a time as a share of the period."""
        return seconds / self.seconds if self.seconds else 0.0

    def per_second(self, count: float) -> float:
        """Return the rate of a count."""
        return count / self.seconds if self.seconds else 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether the subtask is backpressured at the end of the period."""
        return self.latest.times.is_backpressured


class WorkerReading(NamedTuple):
    """A worker of the job."""

    worker_id: str
    address: str
    silent_s: float
    """Time since the last message of the worker, if it is overdue; otherwise 0."""
    held_up: tuple[HeldUp, ...]
    """Tasks that blocked its event loop, with the seconds in this period."""
    segments_free: int
    segments: int
    connections: tuple[ConnectionTotals, ...]
    garbage: GarbageTotals = NO_GARBAGE
    """Activity of its garbage collector in this period."""
    is_alive: bool = False
    """Whether a silent worker's process runs, so that only its event loop is blocked."""

    @property
    def held_up_s(self) -> float:
        """Time for which its event loop was blocked, in seconds."""
        return sum(one.seconds for one in self.held_up)


class FailureReading(NamedTuple):
    """A failure after which the job, or some regions of it, restarted."""

    ago_s: float
    subtask: str
    """Display name of the failed subtask; empty if no subtask failed."""
    worker_id: str
    said: str
    """The reason in one sentence."""


class Readings(NamedTuple):
    """All readings of one attempt of a job."""

    tasks: Mapping[TaskKey, TaskReading]
    workers: Mapping[str, WorkerReading]
    refresh_s: float
    """Interval between two reports of a worker; a shorter problem is not a finding."""
    checkpoints: tuple[CheckpointReading, ...] = ()
    """Checkpoints that are under way, or completed or expired in the period."""
    failures: tuple[FailureReading, ...] = ()
    """Recent failures, the latest first; empty for a job that has ended."""
