"""The history of a job's checkpoints: counts, and records of the last ones.

Theory of operation. A checkpoint is counted when it is triggered and again when it ends. Of the
ended ones, the last ``retained`` are kept. The last completed checkpoint is kept separately. Its
*age* tells how much work the job would repeat if it failed now. Flink: CheckpointStatsTracker.

Invariant: the triggered checkpoints are the completed, the failed and the pending ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.pending_checkpoint import PendingCheckpoint, SubtaskId, SubtaskReport
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["CheckpointHistory", "CheckpointStats"]

_SUMS = ("state_bytes", "processed_bytes", "persisted_bytes")
_LONGEST = ("start_delay_ms", "alignment_ms", "sync_ms", "async_ms")


@dataclass(frozen=True, slots=True)
class CheckpointStats:
    """The course of one checkpoint. Times are seconds of the coordinator's clock."""

    checkpoint_id: int
    kind: CheckpointKind
    triggered_at: float
    timestamp_ms: int
    """Time of the trigger, by the wall clock."""
    seconds: float
    """Time from the trigger to the end."""
    subtasks: int
    acknowledged: int
    """Number of subtasks that took part, including those that had finished."""
    reason: CheckpointFailureReason | None
    """Reason of a failure; None if the checkpoint is complete."""
    explanation: str
    """Details beyond the reason."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Sums of the sizes over the subtasks, and maxima of the durations; see ``SubtaskReport``."""
    reports: Mapping[SubtaskId, SubtaskReport] = field(default_factory=dict, repr=False)
    """The reports of the subtasks, without the handles of their state."""
    finished: frozenset[SubtaskId] = frozenset()
    """The subtasks that had finished before."""

    def to_dict(self, now: float) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "checkpoint_id": self.checkpoint_id,
            "kind": self.kind.name,
            "timestamp_ms": self.timestamp_ms,
            "age_s": now - self.triggered_at,
            "seconds": self.seconds,
            "subtasks": self.subtasks,
            "acknowledged": self.acknowledged,
            "reason": None if self.reason is None else self.reason.name,
            "explanation": self.explanation,
            **self.metrics,
        }


class CheckpointHistory:
    """The records of a job's checkpoints, at most ``retained``."""

    def __init__(self, retained: int) -> None:
        self.triggered = 0
        self.completed = 0
        self.failed = 0
        self.last_completed: CheckpointStats | None = None
        self._checkpoints: deque[CheckpointStats] = deque(maxlen=retained)

    @property
    def checkpoints(self) -> tuple[CheckpointStats, ...]:
        """The retained records, in the order of their ends."""
        return tuple(self._checkpoints)

    def note_trigger(self) -> None:
        """Count a checkpoint that was triggered."""
        self.triggered += 1

    def note_end(self, checkpoint: PendingCheckpoint, now: float, explanation: str = "") -> None:
        """Record a checkpoint that is complete, or has failed for its ``reason``."""
        reports = list(checkpoint.reports.values())
        stats = CheckpointStats(
            checkpoint_id=checkpoint.checkpoint_id,
            kind=checkpoint.kind,
            triggered_at=checkpoint.triggered_at,
            timestamp_ms=checkpoint.timestamp_ms,
            seconds=now - checkpoint.triggered_at,
            subtasks=len(reports) + len(checkpoint.finished) + len(checkpoint.missing),
            acknowledged=len(reports) + len(checkpoint.finished),
            reason=checkpoint.reason,
            explanation=explanation,
            metrics=_metrics(reports),
            # A handle may contain small state itself, and only the metadata needs it.
            reports={
                subtask: report._replace(handle=b"")
                for subtask, report in checkpoint.reports.items()
            },
            finished=frozenset(checkpoint.finished),
        )
        self._checkpoints.append(stats)
        if checkpoint.reason is None:
            self.completed += 1
            self.last_completed = stats
        else:
            self.failed += 1

    def reason_of(self, checkpoint_id: int) -> CheckpointFailureReason | None:
        """Return the reason of a retained failure; None if the checkpoint is unknown or good."""
        reasons = {stats.checkpoint_id: stats.reason for stats in self._checkpoints}
        return reasons.get(checkpoint_id)

    def why_failed(self, checkpoint_id: int) -> str:
        """Return, for people, why a retained checkpoint has failed."""
        for stats in self._checkpoints:
            if stats.checkpoint_id == checkpoint_id and stats.reason is not None:
                detail = f": {stats.explanation}" if stats.explanation else ""
                return f"{stats.reason.value}{detail}"
        return "the reason is not remembered"

    def age_s(self, now: float) -> float | None:
        """Return the seconds since the last completed checkpoint was triggered, None for none."""
        return None if self.last_completed is None else now - self.last_completed.triggered_at

    def to_dict(self, now: float) -> dict[str, Any]:
        """Return the whole history as plain JSON types."""
        last = self.last_completed
        return {
            "triggered": self.triggered,
            "completed": self.completed,
            "failed": self.failed,
            "in_progress": self.triggered - self.completed - self.failed,
            "last_completed": None if last is None else last.to_dict(now),
            "history": [stats.to_dict(now) for stats in self._checkpoints],
        }

    def check_invariants(self, under_way: int) -> None:
        """Raise AssertionError if the counts are inconsistent."""
        assert self.triggered == self.completed + self.failed + under_way, (
            "the counts of checkpoints differ"
        )


def _metrics(reports: list[SubtaskReport]) -> dict[str, float]:
    sums = {name: sum(getattr(report, name) for report in reports) for name in _SUMS}
    longest = {
        name: max((getattr(report, name) for report in reports), default=0.0) for name in _LONGEST
    }
    return {**sums, **longest}
