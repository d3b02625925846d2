"""What a diagnosis says: findings, each a sentence with its evidence and who lost time to it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from flinknet.diagnosis.reading import TaskReading
from flinknet.diagnosis.topology import TaskKey, Topology

__all__ = ["Culprit", "Finding", "FindingKind", "LostTime", "TaskName", "Throughput"]


class FindingKind(Enum):
    """What is wrong; the names are what programs read."""

    SLOW_OPERATOR = "an operator takes longer for its records than it takes to make them"
    SKEW_BY_KEY = "some key groups have most of the records"
    SKEW_BY_SOURCE = "some subtasks upstream make most of the records"
    AMPLIFICATION = "an operator makes very many records of each one"
    SLOW_LINK = "the connection of two workers takes less than is written"
    STARVED_POOL = "there are too few network buffers"
    BLOCKED_LOOP = "something keeps an event loop from turning"
    PAUSED_PROCESS = "a process stands still again and again"
    GARBAGE_COLLECTION = "the garbage collector takes much of a worker's time"
    SILENT_WORKER = "a worker says nothing any more"
    CHECKPOINT = "checkpoints suffer from backpressure"
    RESTARTS = "the job fails and begins again every few seconds"


class TaskName(NamedTuple):
    """Which subtask."""

    vertex: int
    vertex_id: str
    """As in Flink's REST."""
    subtask: int
    name: str
    """For people: ``"Map (2/4)"``."""

    @classmethod
    def of(cls, topology: Topology, task: TaskKey) -> TaskName:
        """By its place in the job."""
        rest_id = topology.vertices[task[0]].rest_id
        return cls(task[0], rest_id, task[1], topology.task_name(task))


class Throughput(NamedTuple):
    """Records and bytes per second."""

    records_in_per_s: float
    records_out_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float

    @classmethod
    def of(cls, readings: Sequence[TaskReading]) -> Throughput:
        """What subtasks have moved together."""
        return cls(
            sum(one.per_second(one.records_in) for one in readings),
            sum(one.per_second(one.records_out) for one in readings),
            sum(one.per_second(one.bytes_in) for one in readings),
            sum(one.per_second(one.bytes_out) for one in readings),
        )


class Culprit(NamedTuple):
    """Who is named: an operator and its subtasks, or a worker."""

    operator: str
    """The name of the vertex; empty for a worker."""
    vertex_id: str
    tasks: tuple[TaskName, ...]
    """The one that cost most first."""
    worker_ids: tuple[str, ...]
    key_groups: tuple[int, ...] = ()
    """Of skew by key: those that have most of the records."""


class LostTime(NamedTuple):
    """What one task has lost to a culprit."""

    task: TaskName
    seconds: float
    share: float
    """Part of its time."""
    is_ongoing: bool
    """It waits at this moment."""
    throughput: Throughput


class Finding(NamedTuple):
    """One trouble, and who is to blame."""

    kind: FindingKind
    sentence: str
    evidence: tuple[str, ...]
    culprit: Culprit
    severity: float
    """The largest part of its time that a task has lost to it; 1 where all stands still."""
    lost: tuple[LostTime, ...]
    """Who has lost time to it, most first, at most ``LOST_MAX``."""
    lost_s: float
    """By all tasks together."""
    throughput: Throughput
    """Of the culprit."""
