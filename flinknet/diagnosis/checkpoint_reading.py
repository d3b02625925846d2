"""The course of one checkpoint, and where its barriers were delayed.

A barrier cannot reach a task before it has reached all tasks that write to it. The delay that a
task adds is therefore the time until its last barrier arrived, minus the same time of its latest
producer. For a source this time begins with the trigger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from flinknet.checkpoint.pending_checkpoint import SubtaskReport
from flinknet.diagnosis.topology import TaskKey, Topology

__all__ = ["CheckpointReading"]


class CheckpointReading(NamedTuple):
    """A checkpoint that is under way, complete, or expired."""

    checkpoint_id: int
    seconds: float
    """Time from the trigger to the end, or up to now."""
    is_under_way: bool
    has_expired: bool
    reports: Mapping[TaskKey, SubtaskReport]
    finished: Collection[TaskKey]
    """Tasks that had finished before the checkpoint; they delay nothing."""

    @property
    def is_unaligned(self) -> bool:
        """Whether barriers have overtaken data."""
        return any(one.unaligned for one in self.reports.values())

    @property
    def state_bytes(self) -> int:
        """State of all tasks, without in-flight data, which reports count as state."""
        return sum(max(0, one.state_bytes - one.persisted_bytes) for one in self.reports.values())

    @property
    def in_flight_bytes(self) -> int:
        """Data that barriers have overtaken, which is part of the checkpoint."""
        return sum(one.persisted_bytes for one in self.reports.values())

    def has_taken_part(self, task: TaskKey) -> bool:
        """Return whether the task has acknowledged, or had finished before."""
        return task in self.reports or task in self.finished

    def through_s(self, task: TaskKey) -> float:
        """Return the time from the trigger to the task's last barrier, or up to now."""
        if task in self.finished:
            return 0.0
        report = self.reports.get(task)
        if report is None:
            return self.seconds
        return (report.start_delay_ms + report.alignment_ms) / 1000

    def waits(self, topology: Topology) -> list[tuple[TaskKey, float]]:
        """Return each task with the delay that it added, in seconds, the longest first."""
        before: defaultdict[TaskKey, float] = defaultdict(float)
        for exchange in topology.exchanges:
            latest: defaultdict[range, float] = defaultdict(float)
            for producer, consumers in enumerate(exchange.consumers):
                through_s = self.through_s((exchange.source, producer))
                latest[consumers] = max(latest[consumers], through_s)
            for consumers, through_s in latest.items():
                for index in consumers:
                    task = exchange.target, index
                    before[task] = max(before[task], through_s)
        added = [(task, max(0.0, self.through_s(task) - before[task])) for task in topology.tasks()]
        return sorted(added, key=lambda one: -one[1])

    def heaviest(self) -> Iterable[TaskKey]:
        """Return the tasks with in-flight data in the checkpoint, the most first."""
        stored = [task for task, one in self.reports.items() if one.persisted_bytes]
        return sorted(stored, key=lambda task: -self.reports[task].persisted_bytes)
