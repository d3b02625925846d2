"""Checkpoints delayed by backpressure, linked to the cause of the backpressure.

A barrier waits behind the data of its channel, so the cause that keeps this data from being read
also delays the checkpoint. A source that waits for a buffer starts the checkpoint when it gets one.
A checkpoint is in trouble if it was delayed by more than a refresh interval before one task, or if
in-flight data is most of it.

This is a finding if another finding delays the task or names it as culprit; that finding's culprit
is to blame. A checkpoint that is slow for its own reasons, such as slow writing of state, is no
finding.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.diagnosis.checkpoint_reading import CheckpointReading
from flinknet.diagnosis.finding import Finding, FindingKind
from flinknet.diagnosis.reading import Readings
from flinknet.diagnosis.topology import TaskKey, Topology

__all__ = ["IN_FLIGHT_MIN", "CheckpointTrouble"]

IN_FLIGHT_MIN = 1_000_000
"""Minimum in-flight data of a reported checkpoint, in bytes.

A job's buffers always hold a little data.
"""

TOLD_MAX = 3
"""Maximum number of tasks in the evidence."""


class CheckpointTrouble:
    """Finds the checkpoint that suffers most from ``causes``.

    The causes are other findings from the same readings.
    """

    def __init__(self, topology: Topology, readings: Readings, causes: Sequence[Finding]) -> None:
        self._topology = topology
        self._readings = readings
        self._causes = causes

    def with_causes(self) -> list[Finding]:
        """Return all findings, with the checkpoint's finding after its cause."""
        for trouble in (self._held_up(), self._heavy()):
            if trouble is not None:
                cause, found = trouble
                place = list(self._causes).index(cause) + 1
                return [*self._causes[:place], found, *self._causes[place:]]
        return list(self._causes)

    def _held_up(self) -> tuple[Finding, Finding] | None:
        """Return the longest delay of a barrier that has a cause, as a finding with its cause."""
        waits = [
            (added_s, task, one)
            for one in self._readings.checkpoints
            for task, added_s in one.waits(self._topology)[:TOLD_MAX]
            if added_s > self._readings.refresh_s
        ]
        for added_s, task, one in sorted(waits, key=lambda wait: -wait[0]):
            cause = self._cause(task)
            if cause is not None:
                return cause, self._finding(cause, one, self._wait(one, task, added_s))
        return None

    def _wait(self, one: CheckpointReading, task: TaskKey, added_s: float) -> str:
        name = self._topology.task_name(task)
        if not self._topology.producers(task):
            verb = "has waited" if one.is_under_way else "waited"
            return f"{_course(one)}: its trigger {verb} for {added_s:.1f} s until {name} was free"
        verb = "have waited" if one.is_under_way else "waited"
        return f"{_course(one)}: its barriers {verb} for {added_s:.1f} s in front of {name}"

    def _heavy(self) -> tuple[Finding, Finding] | None:
        """Return the checkpoint with most in-flight data that has a cause, as a finding."""
        heavy = [
            one
            for one in self._readings.checkpoints
            if one.in_flight_bytes >= max(IN_FLIGHT_MIN, one.state_bytes)
        ]
        for one in sorted(heavy, key=lambda heavy_one: -heavy_one.in_flight_bytes):
            for task in one.heaviest():
                cause = self._cause(task)
                if cause is not None:
                    return cause, self._finding(
                        cause,
                        one,
                        f"{_course(one)} and holds {_megabytes(one.in_flight_bytes)} of in-flight "
                        f"data in addition to {_megabytes(one.state_bytes)} of state; "
                        f"{_megabytes(one.reports[task].persisted_bytes)} of it waited at "
                        f"{self._topology.task_name(task)}",
                    )
        return None

    def _cause(self, task: TaskKey) -> Finding | None:
        """Return the finding that keeps a task from taking the data before it, or None.

        The culprit is the task itself, a task that it waits for, or something between it and its
        producers.
        """
        name = self._topology.task_name(task)
        producers = set(map(self._topology.task_name, self._topology.producers(task)))
        worker = self._readings.tasks[task].worker_id if task in self._readings.tasks else ""
        for finding in self._causes:
            # The task itself is the culprit.
            if name in {one.name for one in finding.culprit.tasks}:
                return finding
        for finding in self._causes:
            # The task waits for the culprit.
            if name in {one.task.name for one in finding.lost}:
                return finding
        for finding in self._causes:
            # The culprit is the task's worker, or one of its producers waits for the culprit.
            of_worker = not finding.culprit.tasks and worker in finding.culprit.worker_ids
            if of_worker or producers & {one.task.name for one in finding.lost}:
                return finding
        return None

    def _finding(self, cause: Finding, one: CheckpointReading, said: str) -> Finding:
        return Finding(
            kind=FindingKind.CHECKPOINT,
            sentence=f"{said}, because {cause.sentence}",
            evidence=tuple(self._evidence(one)),
            culprit=cause.culprit,
            severity=cause.severity,
            lost=(),
            lost_s=0.0,
            throughput=cause.throughput,
        )

    def _evidence(self, one: CheckpointReading) -> list[str]:
        longest = [task for task, _ in one.waits(self._topology)[:TOLD_MAX]]
        said = [self._part(one, task) for task in longest]
        every = self._readings.checkpoints
        expired = sum(checkpoint.has_expired for checkpoint in every)
        if expired:
            said.append(f"{expired} of the last {len(every)} checkpoints were given up")
        if not one.is_unaligned:
            said.append(
                "barriers wait for all data in front of them: in unaligned checkpoints they "
                "overtake it, and buffer debloating reduces it"
            )
        return said

    def _part(self, one: CheckpointReading, task: TaskKey) -> str:
        name = self._topology.task_name(task)
        if not one.has_taken_part(task):
            return f"{name} has not taken part"
        report = one.reports.get(task)
        if report is None:
            return f"{name} had finished"
        return (
            f"{name}: its first barrier came after {report.start_delay_ms / 1000:.2f} s and the "
            f"last one {report.alignment_ms / 1000:.2f} s later; "
            f"{_megabytes(report.processed_bytes)} were processed in between, "
            f"{_megabytes(report.persisted_bytes)} stored"
        )


def _course(one: CheckpointReading) -> str:
    if one.is_under_way:
        return f"checkpoint {one.checkpoint_id} has been under way for {one.seconds:.1f} s"
    if one.has_expired:
        return f"checkpoint {one.checkpoint_id} was given up after {one.seconds:.1f} s"
    return f"checkpoint {one.checkpoint_id} took {one.seconds:.1f} s"


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.1f} MB"
