"""What a job says of its checkpoints: when they are taken, how, and when they have failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flinknet.config.checks import (
    check_fields,
    require,
    require_at_least,
    require_positive,
)

__all__ = ["CheckpointRetention", "CheckpointingMode", "JobCheckpointingConfig"]

CheckpointingMode = Literal["exactly_once", "at_least_once"]
CheckpointRetention = Literal[
    "retain_on_cancellation", "delete_on_cancellation", "no_externalized_checkpoints"
]

ALIGNED_TIMEOUT_MS_MAX = 0xFFFFFFFF
"""What a barrier has room for."""

INTERVAL_LEAST_MS = 10.0
"""Flink's MINIMAL_CHECKPOINT_TIME: below it, a job would do little else."""


@dataclass(frozen=True, slots=True)
class JobCheckpointingConfig:
    """The checkpoints of one job; it travels with the job graph."""

    interval_ms: float
    """Time from one periodic checkpoint to the next, as long as none holds it up. Flink:
    execution.checkpointing.interval."""

    mode: CheckpointingMode = "exactly_once"
    """Whether a record that was processed before a failure may be processed again after it with
    its effect on the state still there. Flink: execution.checkpointing.mode."""

    unaligned: bool = False
    """Whether barriers overtake the data in front of them, which is stored then: so a checkpoint
    takes no longer when the job is backpressured, but more room. Savepoints never do. Flink:
    execution.checkpointing.unaligned.enabled."""

    aligned_timeout_ms: float = 0.0
    """How long an unaligned checkpoint tries to be aligned first, counted from its trigger: data is
    stored only where barriers are late. 0 does not try. Flink:
    execution.checkpointing.aligned-checkpoint-timeout."""

    timeout_ms: float = 600_000.0
    """Time after which a checkpoint that is still under way is given up. Flink:
    execution.checkpointing.timeout (10 min)."""

    min_pause_ms: float = 0.0
    """Least time between the end of one periodic checkpoint and the start of the next, so that a
    job which needs long for each still gets on with its work. Flink:
    execution.checkpointing.min-pause."""

    max_concurrent: int = 1
    """Periodic checkpoints under way at a time; one if there is a pause between them. Flink:
    execution.checkpointing.max-concurrent-checkpoints."""

    tolerable_failures: int = 0
    """Periodic checkpoints that may fail one after the other; one more fails the job. Those
    for which there was no room do not count. Flink:
    execution.checkpointing.tolerable-failed-checkpoints, for which they do."""

    directory: str = ""
    """Where the job's checkpoints are kept; empty takes the cluster's directory
    (checkpointing.directory). Flink: execution.checkpointing.dir."""

    retention: CheckpointRetention = "retain_on_cancellation"
    """Whether the job's checkpoints stay when it has been cancelled, or only when it has failed, or
    in no case; those of a job that has finished are removed, and savepoints never. Flink:
    execution.checkpointing.externalized-checkpoint-retention, which keeps none by default: here
    what a job could go on from is removed only if that is said."""

    allow_repeated_output: bool = False
    """Whether the job may give out records a second time that cannot be taken back. That happens
    if its newest checkpoint, of which functions or sinks have been told, is lost, and it goes on
    from an older one; or if it continues another job that has written to the same files since.
    Without this, the job fails. flinknet's own: Flink repeats output in silence."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.interval_ms >= INTERVAL_LEAST_MS,
            f"the checkpoint interval is {self.interval_ms} ms: choose {INTERVAL_LEAST_MS:g} ms or "
            "more",
        )
        require_positive(self, "timeout_ms")
        require_at_least(self, 0, "aligned_timeout_ms", "min_pause_ms", "tolerable_failures")
        require_at_least(self, 1, "max_concurrent")
        require(
            not self.unaligned or self.mode == "exactly_once",
            "unaligned checkpoints are exactly once: choose that mode, or disable them",
        )
        require(
            not self.unaligned or self.concurrent == 1,
            f"{self.max_concurrent} unaligned checkpoints at a time: choose one, since what is in "
            "flight is stored for one after the other",
        )
        require(
            self.aligned_timeout_ms <= ALIGNED_TIMEOUT_MS_MAX,
            f"the aligned checkpoint time-out is {self.aligned_timeout_ms:g} ms: choose "
            f"{ALIGNED_TIMEOUT_MS_MAX} ms (49 days) or less",
        )

    @property
    def concurrent(self) -> int:
        """How many periodic checkpoints may be under way at a time."""
        return 1 if self.min_pause_ms else self.max_concurrent

    def stay(self, *, failed: bool, cancelled: bool) -> bool:
        """Whether the checkpoints of a job that has ended so are kept."""
        return (failed and self.retention != "no_externalized_checkpoints") or (
            cancelled and self.retention == "retain_on_cancellation"
        )
