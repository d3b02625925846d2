"""How one checkpoint went, as a diagnosis sees it: where its barriers were held up.

A barrier cannot be in a task before it is in all that write to it. So what a task has added to the
way of the barriers is the time until the last one was in, less the same of whichever of its
producers was last; a source's barrier begins with the trigger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from flinknet.checkpoint.pending_checkpoint import SubtaskReport
from flinknet.diagnosis.topology import TaskKey, Topology

__all__ = ["CheckpointReading"]


class CheckpointReading(NamedTuple):
    """A checkpoint that is under way, complete, or was given up at its time-out."""

    checkpoint_id: int
    seconds: float
    """From its trigger to its end, or up to now."""
    is_under_way: bool
    has_expired: bool
    reports: Mapping[TaskKey, SubtaskReport]
    finished: Collection[TaskKey]
    """Tasks that had finished before, which hold up nothing."""

    @property
    def is_unaligned(self) -> bool:
        """Whether barriers have overtaken data."""
        return any(one.unaligned for one in self.reports.values())

    @property
    def state_bytes(self) -> int:
        """Of all tasks together, without the data in flight, which a report counts as state."""
        return sum(max(0, one.state_bytes - one.persisted_bytes) for one in self.reports.values())

    @property
    def in_flight_bytes(self) -> int:
        """Data that barriers have overtaken, and that is part of the checkpoint."""
        return sum(one.persisted_bytes for one in self.reports.values())

    def has_taken_part(self, task: TaskKey) -> bool:
        """Whether it has acknowledged, or had finished."""
        return task in self.reports or task in self.finished

    def through_s(self, task: TaskKey) -> float:
        """From the trigger to the last barrier in a task, or up to now if it has not come."""
        if task in self.finished:
            return 0.0
        report = self.reports.get(task)
        if report is None:
            return self.seconds
        return (report.start_delay_ms + report.alignment_ms) / 1000

    def waits(self, topology: Topology) -> list[tuple[TaskKey, float]]:
        """For how many seconds barriers were held up between each task and its producers, the
        longest first."""
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
        """Those that have in-flight data in the checkpoint, most first."""
        stored = [task for task, one in self.reports.items() if one.persisted_bytes]
        return sorted(stored, key=lambda task: -self.reports[task].persisted_bytes)
