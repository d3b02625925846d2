"""Findings of a diagnosis: sentences with evidence, and the time lost to each culprit."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from flinknet.diagnosis.reading import TaskReading
from flinknet.diagnosis.topology import TaskKey, Topology

__all__ = ["Culprit", "Finding", "FindingKind", "LostTime", "TaskName", "Throughput"]


class FindingKind(Enum):
    """The kind of a finding; programs read its name."""

    SLOW_OPERATOR = "an operator processes records more slowly than its producers make them"
    SKEW_BY_KEY = "some key groups have most of the records"
    SKEW_BY_SOURCE = "some subtasks upstream make most of the records"
    AMPLIFICATION = "an operator makes very many records of each input record"
    SLOW_LINK = "the connection between two workers is slower than its writers"
    STARVED_POOL = "there are too few network buffers"
    BLOCKED_LOOP = "code blocks an event loop"
    PAUSED_PROCESS = "a process is paused again and again"
    GARBAGE_COLLECTION = "the garbage collector takes much of a worker's time"
    SILENT_WORKER = "a worker no longer reports"
    CHECKPOINT = "checkpoints suffer from backpressure"
    RESTARTS = "the job fails and restarts every few seconds"


class TaskName(NamedTuple):
    """The identity of a subtask."""

    vertex: int
    vertex_id: str
    """The vertex's id in Flink's REST API."""
    subtask: int
    name: str
    """Display name, such as ``"Map (2/4)"``."""

    @classmethod
    def of(cls, topology: Topology, task: TaskKey) -> TaskName:
        """Return the identity of a task in the topology."""
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
        """Return the combined throughput of subtasks."""
        return cls(
            sum(one.per_second(one.records_in) for one in readings),
            sum(one.per_second(one.records_out) for one in readings),
            sum(one.per_second(one.bytes_in) for one in readings),
            sum(one.per_second(one.bytes_out) for one in readings),
        )


class Culprit(NamedTuple):
    """The culprit of a finding: an operator and its subtasks, or a worker."""

    operator: str
    """Name of the vertex; empty for a worker."""
    vertex_id: str
    tasks: tuple[TaskName, ...]
    """Subtasks, the most costly first."""
    worker_ids: tuple[str, ...]
    key_groups: tuple[int, ...] = ()
    """For skew by key, the key groups with most of the records."""


class LostTime(NamedTuple):
    """Time that one task has lost to a culprit."""

    task: TaskName
    seconds: float
    share: float
    """Share of the task's time."""
    is_ongoing: bool
    """Whether the task waits at this moment."""
    throughput: Throughput


class Finding(NamedTuple):
    """One problem of a job, and its culprit."""

    kind: FindingKind
    sentence: str
    evidence: tuple[str, ...]
    culprit: Culprit
    severity: float
    """Largest share of time that a task lost to it; 1 if everything stands still."""
    lost: tuple[LostTime, ...]
    """Tasks that lost time to it, the most first, at most ``LOST_MAX``."""
    lost_s: float
    """Time that all tasks lost together, in seconds."""
    throughput: Throughput
    """Throughput of the culprit."""
