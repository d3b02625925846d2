"""Checkpoint settings of a job: their interval, mode and tolerance of failures."""

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
"""Maximum timeout that fits into a barrier."""

INTERVAL_LEAST_MS = 10.0
"""Flink's MINIMAL_CHECKPOINT_TIME; with a shorter interval, a job would do little else."""


@dataclass(frozen=True, slots=True)
class JobCheckpointingConfig:
    """The checkpoint settings of one job; they travel with the job graph."""

    interval_ms: float
    """Interval between periodic checkpoints, if no checkpoint is delayed.

    Flink: execution.checkpointing.interval.
    """

    mode: CheckpointingMode = "exactly_once"
    """The guarantee for records that were processed before a failure.

    With "at_least_once", a record may be processed again although state already includes it. Flink:
    execution.checkpointing.mode.
    """

    unaligned: bool = False
    """Whether barriers overtake data, which then becomes part of the checkpoint.

    A checkpoint then takes no longer under backpressure, but more space. Savepoints are always
    aligned. Flink: execution.checkpointing.unaligned.enabled.
    """

    aligned_timeout_ms: float = 0.0
    """Time for which an unaligned checkpoint first tries to align, counted from its trigger.

    Data is stored only where barriers are late. With 0, barriers overtake data at once. Flink:
    execution.checkpointing.aligned-checkpoint-timeout.
    """

    timeout_ms: float = 600_000.0
    """Time after which a pending checkpoint is abandoned.

    Flink: execution.checkpointing.timeout (10 min).
    """

    min_pause_ms: float = 0.0
    """Minimum time between the end of a periodic checkpoint and the start of the next.

    A job with slow checkpoints thus still makes progress. Flink: execution.checkpointing.min-pause.
    """

    max_concurrent: int = 1
    """Maximum number of concurrent periodic checkpoints; 1 if there is a pause between them.

    Flink: execution.checkpointing.max-concurrent-checkpoints.
    """

    tolerable_failures: int = 0
    """Number of periodic checkpoints that may fail in a row; one more fails the job.

    Checkpoints that fail for lack of space do not count here; in Flink they do. Flink:
    execution.checkpointing.tolerable-failed-checkpoints.
    """

    directory: str = ""
    """Directory of the job's checkpoints; empty for the cluster's (checkpointing.directory).

    Flink: execution.checkpointing.dir.
    """

    retention: CheckpointRetention = "retain_on_cancellation"
    """Whether checkpoints are kept after a cancellation, only after a failure, or never.

    Checkpoints of a finished job are always removed, savepoints never. Flink:
    execution.checkpointing.externalized-checkpoint-retention. Flink keeps none by default. Here,
    checkpoints from which a job could resume are removed only if a program asks for it.
    """

    allow_repeated_output: bool = False
    """Whether the job may emit records again that cannot be taken back.

    This happens if its newest checkpoint, which functions or sinks were notified of, is lost, and
    the job resumes from an older one. It also happens if the job continues another job that has
    written to the same files since. Without this option, the job fails. The option is flinknet's
    own; Flink repeats output without notice.
    """

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
            "unaligned checkpoints need the mode exactly-once: choose it, or disable them",
        )
        require(
            not self.unaligned or self.concurrent == 1,
            f"{self.max_concurrent} unaligned checkpoints at a time: choose one, because in-flight "
            "data is stored for one checkpoint at a time",
        )
        require(
            self.aligned_timeout_ms <= ALIGNED_TIMEOUT_MS_MAX,
            f"the aligned checkpoint time-out is {self.aligned_timeout_ms:g} ms: choose "
            f"{ALIGNED_TIMEOUT_MS_MAX} ms (49 days) or less",
        )

    @property
    def concurrent(self) -> int:
        """Maximum number of concurrent periodic checkpoints."""
        return 1 if self.min_pause_ms else self.max_concurrent

    def are_retained(self, *, failed: bool, cancelled: bool) -> bool:
        """Return whether the checkpoints of a job that ended in this way are kept."""
        return (failed and self.retention != "no_externalized_checkpoints") or (
            cancelled and self.retention == "retain_on_cancellation"
        )
