"""The coordinator's record of one job attempt.

It combines the placement of the subtasks, the state machine of the execution, the counters that
workers report and the results that they upload. Its views are plain values, ready for JSON and
msgpack. Regions that are restarted alone stay part of their attempt.

After the end of the attempt the record is constant, except for the workers that still hold slots.
The collected records are dropped unless the attempt has finished, and the prepared output of sinks
is always dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from operator import index as as_integer
from typing import Any

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.jobs.job_execution import JobExecution, SubtaskKey
from flinknet.cluster.coordinator.jobs.placement import Placement
from flinknet.cluster.coordinator.jobs.region_failover import RegionFailure
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.graph.graph import JobGraph
from flinknet.metrics.io_metrics import IO_METRICS, IOMetrics

__all__ = ["AttemptRecord", "RegionRestart"]


@dataclass(frozen=True, slots=True)
class RegionRestart:
    """A restart of some regions of an attempt, under a number of its own."""

    number: int
    subtasks: frozenset[SubtaskKey]
    begun_at: float
    restored: RestorePoint


@dataclass(slots=True)
class AttemptRecord:
    """One attempt. Times are seconds of the coordinator's clock."""

    execution: JobExecution
    placement: Placement
    begun_at: float
    ended_at: float | None = None
    restored_from: str = ""
    """Directory of the checkpoint that it continues from; empty if it starts from the beginning."""
    restored_finished: frozenset[SubtaskKey] = frozenset()
    """Subtasks that had finished in that checkpoint."""
    counters: dict[SubtaskKey, IOMetrics] = field(default_factory=dict)
    results: dict[SubtaskKey, dict[str, Any]] = field(default_factory=dict, repr=False)
    """Upload of each finished subtask: counters, metrics, collected records (opaque bytes)."""
    collected_bytes: int = 0
    """Bytes of collected records that are held for the client."""
    committables: dict[SubtaskKey, bytes] = field(default_factory=dict, repr=False)
    """Prepared output of its two-phase sinks (opaque bytes), by subtask."""
    finished_at: dict[SubtaskKey, float] = field(default_factory=dict)
    """Time at which the result of each finished subtask was taken."""
    restarts: list[RegionRestart] = field(default_factory=list)
    """Restarts of some regions while the others went on."""
    failures: list[RegionFailure] = field(default_factory=list)
    """The failures behind these restarts."""
    lost: FailureCause | None = None
    """How the coordinator ended that started the attempt; None if this coordinator started it."""

    @property
    def number(self) -> int:
        """Number of the attempt. Attempts and restarts of regions share one count from 0."""
        return self.execution.attempt

    @property
    def last_number(self) -> int:
        """Number of the last restart of some regions, or of the attempt itself."""
        return self.restarts[-1].number if self.restarts else self.number

    def has(self, number: int) -> bool:
        """Return whether this is the attempt's number, or that of a restart of its regions."""
        return self.number <= number <= self.last_number

    def restored_for(self, number: int) -> RestorePoint:
        """Return the restore point of the subtasks with this number."""
        for restart in self.restarts:
            if restart.number == number:
                return restart.restored
        return RestorePoint(self.restored_from, self.restored_finished)

    def begun_at_of(self, subtask: SubtaskKey) -> float:
        """Return when a subtask was last deployed."""
        number = self.execution.number_of(subtask)
        begun = (one.begun_at for one in self.restarts if one.number == number)
        return next(begun, self.begun_at)

    def restart(self, restart: RegionRestart, placement: Placement) -> None:
        """Restart some regions at a new ``placement``.

        The results of the regions' earlier subtasks are dropped.
        """
        # A restart is over when all of its subtasks have been restarted again.
        present = {number for _, number in self.execution.parts}
        self.restarts = [one for one in self.restarts if one.number in present] + [restart]
        self.placement = placement
        self.restored_finished -= restart.subtasks
        self.restored_finished |= restart.restored.finished & restart.subtasks
        for subtask in restart.subtasks:
            self._drop_result(subtask)
            for made in (self.counters, self.committables, self.finished_at):
                made.pop(subtask, None)

    def end(self, now: float) -> None:
        """Note that the execution has reached a terminal state."""
        self.ended_at = now
        self.committables.clear()
        if self.execution.state is not JobState.FINISHED:
            self.forget_collected()

    def all_failures(self) -> list[tuple[FailureCause, float]]:
        """Return the failures of the attempt and of its regions, with their times, latest first."""
        cause, ended_at = self.execution.cause, self.ended_at
        whole = [] if cause is None or ended_at is None else [(cause, ended_at)]
        return whole + [(failure.cause, failure.at) for failure in reversed(self.failures)]

    def note_progress(self, rows: Sequence[Sequence[int]], number: int) -> None:
        """Take the counters of subtasks that run under a number; a finished subtask's are final.

        Raises TypeError or ValueError if a row is not (vertex, index, counters).
        """
        for row in rows:
            vertex, index, *counters = map(as_integer, row)
            is_final = self.ended_at is not None or (vertex, index) in self.results
            if not is_final and self.execution.number_of((vertex, index)) == number:
                self.counters[vertex, index] = IOMetrics(*counters)

    def note_result(self, subtask: SubtaskKey, result: dict[str, Any]) -> None:
        """Take the upload of a finished subtask."""
        self._drop_result(subtask)
        self.committables[subtask] = result.pop("committables")
        self.results[subtask] = result
        self.collected_bytes += len(result["collected"])
        self.counters[subtask] = IOMetrics(*(result[counter] for counter in IO_METRICS))

    def forget_collected(self) -> None:
        """Drop the collected records, which are handed out only once."""
        for result in self.results.values():
            result["collected"] = b""
        self.collected_bytes = 0

    def _drop_result(self, subtask: SubtaskKey) -> None:
        result = self.results.pop(subtask, None)
        if result is not None:
            self.collected_bytes -= len(result["collected"])

    def prepared(self) -> list[bytes]:
        """Return the prepared output of all two-phase sinks, in order of the subtasks."""
        return [self.committables[key] for key in sorted(self.committables)]

    def status(self, now: float) -> dict[str, Any]:
        """Return the status of the attempt, and its failure if any, as plain JSON types."""
        cause = self.execution.cause
        return {
            "attempt": self.number,
            "state": self.execution.state.value,
            "seconds": (now if self.ended_at is None else self.ended_at) - self.begun_at,
            "workers": list(self.execution.workers),
            "cause": None if cause is None else cause.to_dict(),
            "holders": list(self.execution.holders),
        }

    def story(self, now: float) -> dict[str, Any]:
        """Return the status, and details per region.

        The details are the number of subtasks in each state, the number of the last deployment, and
        the failures of regions while others went on.
        """
        return {
            **self.status(now),
            "regions": self.execution.region_states(),
            "region_attempts": {
                name: self.execution.number_of(min(region.subtasks))
                for name, region in self.execution.regions.items()
            },
            "region_failures": [
                {"regions": sorted(failure.regions), "cause": failure.cause.to_dict()}
                for failure in self.failures
            ],
        }

    def vertices(self, shape: JobGraph) -> list[dict[str, Any]]:
        """Return one row per vertex: the states of its subtasks, and the sums of their counters."""
        states = self.execution.subtask_states()
        rows = []
        for vertex in shape.vertices:
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

    def result(self) -> list[dict[str, Any]]:
        """Return one row per subtask, by vertex and index; ``collected`` stays as uploaded."""
        descriptors = {
            (descriptor.vertex, descriptor.index): (worker_id, descriptor)
            for worker_id, descriptors in self.placement.subtasks.items()
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
