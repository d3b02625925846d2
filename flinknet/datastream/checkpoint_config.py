"""Checkpoint settings of a job, with PyFlink's names."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.config.job_checkpointing import JobCheckpointingConfig

__all__ = ["CheckpointConfig", "CheckpointingMode", "ExternalizedCheckpointRetention"]


class CheckpointingMode(Enum):
    """The guarantee for records that were processed before a failure."""

    EXACTLY_ONCE = "exactly_once"
    """Each record affects state exactly once."""
    AT_LEAST_ONCE = "at_least_once"
    """A record may be processed again although state already includes it.

    Channels never wait for each other.
    """


class ExternalizedCheckpointRetention(Enum):
    """Retention of the checkpoints of a job that ends before its input.

    The checkpoints of a finished job are always removed. Savepoints are always kept.
    """

    RETAIN_ON_CANCELLATION = "retain_on_cancellation"
    """Keep checkpoints when the job has failed and when it was cancelled."""
    DELETE_ON_CANCELLATION = "delete_on_cancellation"
    """Keep checkpoints when the job has failed."""
    NO_EXTERNALIZED_CHECKPOINTS = "no_externalized_checkpoints"
    """Keep no checkpoints."""


class CheckpointConfig(PyFlinkNames):
    """The checkpoint settings of one environment's jobs; times are in milliseconds."""

    def __init__(self) -> None:
        self._interval_ms: float | None = None
        self._mode = CheckpointingMode.EXACTLY_ONCE
        self._options: dict[str, float | int | str] = {}

    def is_checkpointing_enabled(self) -> bool:
        """Return whether checkpoints are enabled."""
        return self._interval_ms is not None

    def set_checkpoint_interval(self, checkpoint_interval: float) -> CheckpointConfig:
        """Set the interval between checkpoints."""
        # Checks the value, so that a wrong one fails here.
        JobCheckpointingConfig(checkpoint_interval)
        self._interval_ms = checkpoint_interval
        return self

    def get_checkpoint_interval(self) -> float:
        """Return the interval between checkpoints; -1 if checkpoints are disabled."""
        return -1 if self._interval_ms is None else self._interval_ms

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the guarantee after a failure; exactly once by default."""
        self._mode = checkpointing_mode
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the guarantee after a failure."""
        return self._mode

    def set_checkpoint_timeout(self, checkpoint_timeout: float) -> CheckpointConfig:
        """Set the time after which a checkpoint is abandoned; 10 minutes by default."""
        return self._set("timeout_ms", checkpoint_timeout)

    def get_checkpoint_timeout(self) -> float:
        """Return the time after which a checkpoint is abandoned."""
        return self._in_force().timeout_ms

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: float
    ) -> CheckpointConfig:
        """Set the minimum time between the end of a checkpoint and the start of the next."""
        return self._set("min_pause_ms", min_pause_between_checkpoints)

    def get_min_pause_between_checkpoints(self) -> float:
        """Return the minimum time between two checkpoints."""
        return self._in_force().min_pause_ms

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set the maximum number of concurrent checkpoints; 1 by default."""
        return self._set("max_concurrent", max_concurrent_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """Return the maximum number of concurrent checkpoints."""
        return self._in_force().max_concurrent

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many checkpoints may fail in a row before the job fails; 0 by default.

        A checkpoint that failed for lack of space does not count.
        """
        return self._set("tolerable_failures", tolerable_checkpoint_failure_number)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return the tolerable number of failed checkpoints in a row."""
        return self._in_force().tolerable_failures

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake data, which becomes part of the checkpoint.

        This keeps checkpoints fast under backpressure. It requires exactly once mode and one
        checkpoint at a time.
        """
        return self._set("unaligned", enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Keep barriers behind data; this is the default."""
        return self._set("unaligned", False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether barriers may overtake data."""
        return bool(self._options.get("unaligned", False))

    def set_aligned_checkpoint_timeout(
        self, alignment_timeout: float | timedelta
    ) -> CheckpointConfig:
        """Set how long an unaligned checkpoint first tries to align, counted from its trigger.

        The time is in milliseconds, or a timedelta, as PyFlink's Duration. The default is 0:
        barriers overtake data at once.
        """
        if isinstance(alignment_timeout, timedelta):
            alignment_timeout = alignment_timeout.total_seconds() * 1000
        return self._set("aligned_timeout_ms", alignment_timeout)

    def get_aligned_checkpoint_timeout(self) -> timedelta:
        """Return the alignment timeout."""
        return timedelta(milliseconds=float(self._options.get("aligned_timeout_ms", 0.0)))

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set when checkpoints outlive the job.

        By default they do if the job has failed or was cancelled.
        """
        return self._set("retention", retention_mode.value)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return when checkpoints outlive the job."""
        default = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION.value
        return ExternalizedCheckpointRetention(self._options.get("retention", default))

    def set_allow_repeated_output(self, allowed: bool = True) -> CheckpointConfig:
        """Let the job resume from an older checkpoint if the newest is lost.

        Records that cannot be taken back are then emitted a second time. By default the job fails.
        """
        return self._set("allow_repeated_output", allowed)

    def is_repeated_output_allowed(self) -> bool:
        """Return whether the job may emit records a second time."""
        return self._in_force().allow_repeated_output

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Set the checkpoint directory, instead of the cluster's ``checkpointing.directory``."""
        return self._set("directory", checkpoint_path)

    def _in_force(self) -> JobCheckpointingConfig:
        """Return the current settings with defaults filled in; the interval is a placeholder."""
        return JobCheckpointingConfig(1000.0, **self._options)  # type: ignore[arg-type]

    def _set(self, option: str, value: float | str) -> CheckpointConfig:
        options = {**self._options, option: value}
        # Checks all options together, because some exclude each other.
        JobCheckpointingConfig(1000.0, **options)  # type: ignore[arg-type]
        self._options = options
        return self

    def job_checkpointing(self) -> JobCheckpointingConfig | None:
        """Return the checkpoint settings to send with a job; None if checkpoints are disabled."""
        if self._interval_ms is None:
            return None
        mode = self._mode.value
        return JobCheckpointingConfig(self._interval_ms, mode, **self._options)  # type: ignore[arg-type]
