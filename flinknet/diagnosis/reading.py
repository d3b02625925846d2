"""What is known of each task and worker over a stretch of time: the input of a diagnosis."""

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
    """A subtask: where its time went, what it has moved, and how it stands at the end.

    The three kinds of time add up to the stretch, and a wait that has not ended counts.
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
    """By result partition and subpartition, both by place: buffers that it holds, on average."""
    usage: PoolUsage
    """Of its pools, on average."""
    latest: SubtaskTotals
    gate_bytes: tuple[int, ...] = ()
    """Bytes that came through each of its input gates, in their order."""

    @property
    def seconds(self) -> float:
        """How long the stretch is."""
        return self.idle_s + self.busy_s + self.backpressured_s

    def share(self, seconds: float) -> float:
        """A part of the stretch."""
        return seconds / self.seconds if self.seconds else 0.0

    def per_second(self, count: float) -> float:
        """The rate of a count."""
        return count / self.seconds if self.seconds else 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether it is backpressured at the end of the stretch."""
        return self.latest.times.is_backpressured


class WorkerReading(NamedTuple):
    """A worker of the job."""

    worker_id: str
    address: str
    silent_s: float
    """How long nothing has been heard of it, if that is longer than it should be; or else 0."""
    held_up: tuple[HeldUp, ...]
    """Who held its event loop up, with the seconds of this stretch."""
    segments_free: int
    segments: int
    connections: tuple[ConnectionTotals, ...]
    garbage: GarbageTotals = NO_GARBAGE
    """What its garbage collector did in this stretch."""
    is_alive: bool = False
    """Though it says nothing: its process runs, and its event loop does not turn."""

    @property
    def held_up_s(self) -> float:
        """How long its event loop did not turn."""
        return sum(one.seconds for one in self.held_up)


class FailureReading(NamedTuple):
    """A failure after which the job, or some regions of it, began again."""

    ago_s: float
    subtask: str
    """Which one has failed, as people call it; empty if none did."""
    worker_id: str
    said: str
    """Why, in one sentence."""


class Readings(NamedTuple):
    """Everything that is known of one attempt of a job."""

    tasks: Mapping[TaskKey, TaskReading]
    workers: Mapping[str, WorkerReading]
    refresh_s: float
    """The pause between two reports of a worker: a trouble that is shorter is none."""
    checkpoints: tuple[CheckpointReading, ...] = ()
    """Those under way, and those that ended meanwhile, completed or given up."""
    failures: tuple[FailureReading, ...] = ()
    """Those of late, the last one first; none of a job that has ended."""
