"""How a job takes checkpoints, in PyFlink's names."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.config.job_checkpointing import JobCheckpointingConfig

__all__ = ["CheckpointConfig", "CheckpointingMode", "ExternalizedCheckpointRetention"]


class CheckpointingMode(Enum):
    """What a failure may do to a record that was processed before it."""

    EXACTLY_ONCE = "exactly_once"
    """Nothing: its effect on state is there once."""
    AT_LEAST_ONCE = "at_least_once"
    """It may be processed again with its effect still there; channels never wait for each other."""


class ExternalizedCheckpointRetention(Enum):
    """When the checkpoints of a job stay that has ended before its input; those of a job that has
    finished are removed. Savepoints always stay."""

    RETAIN_ON_CANCELLATION = "retain_on_cancellation"
    """When it has failed, and when it was cancelled."""
    DELETE_ON_CANCELLATION = "delete_on_cancellation"
    """When it has failed."""
    NO_EXTERNALIZED_CHECKPOINTS = "no_externalized_checkpoints"
    """Never."""


class CheckpointConfig(PyFlinkNames):
    """The checkpoints of the jobs of one environment; times are in milliseconds."""

    def __init__(self) -> None:
        self._interval_ms: float | None = None
        self._mode = CheckpointingMode.EXACTLY_ONCE
        self._options: dict[str, float | int | str] = {}

    def is_checkpointing_enabled(self) -> bool:
        """Whether there are any."""
        return self._interval_ms is not None

    def set_checkpoint_interval(self, checkpoint_interval: float) -> CheckpointConfig:
        """Take a checkpoint this often."""
        JobCheckpointingConfig(checkpoint_interval)
        self._interval_ms = checkpoint_interval
        return self

    def get_checkpoint_interval(self) -> float:
        """Return the interval; -1 if there are no checkpoints."""
        return -1 if self._interval_ms is None else self._interval_ms

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set what a failure may do; by default nothing, exactly once."""
        self._mode = checkpointing_mode
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return what a failure may do."""
        return self._mode

    def set_checkpoint_timeout(self, checkpoint_timeout: float) -> CheckpointConfig:
        """Give a checkpoint up after this time; by default 10 minutes."""
        return self._set("timeout_ms", checkpoint_timeout)

    def get_checkpoint_timeout(self) -> float:
        """Return that time."""
        return self._in_force().timeout_ms

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: float
    ) -> CheckpointConfig:
        """Leave at least this time between the end of one and the beginning of the next."""
        return self._set("min_pause_ms", min_pause_between_checkpoints)

    def get_min_pause_between_checkpoints(self) -> float:
        """Return that time."""
        return self._in_force().min_pause_ms

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Let so many be under way at a time; by default one."""
        return self._set("max_concurrent", max_concurrent_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """Return how many."""
        return self._in_force().max_concurrent

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Let so many fail in a row before the job does; by default none. One for
        which there was no room harms no job, and does not count."""
        return self._set("tolerable_failures", tolerable_checkpoint_failure_number)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many."""
        return self._in_force().tolerable_failures

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake data, which is stored then, so that checkpoints are quick under
        backpressure, too; only exactly once, and one at a time."""
        return self._set("unaligned", enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Have barriers wait behind data, as they do by default."""
        return self._set("unaligned", False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake data."""
        return bool(self._options.get("unaligned", False))

    def set_aligned_checkpoint_timeout(
        self, alignment_timeout: float | timedelta
    ) -> CheckpointConfig:
        """Have an unaligned checkpoint try to be aligned for this time, counted from its trigger;
        milliseconds, or PyFlink's Duration as a timedelta. 0, the default, does not try."""
        if isinstance(alignment_timeout, timedelta):
            alignment_timeout = alignment_timeout.total_seconds() * 1000
        return self._set("aligned_timeout_ms", alignment_timeout)

    def get_aligned_checkpoint_timeout(self) -> timedelta:
        """Return that time."""
        return timedelta(milliseconds=float(self._options.get("aligned_timeout_ms", 0.0)))

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Say when they stay after the end of the job; by default if it has failed or was
        cancelled."""
        return self._set("retention", retention_mode.value)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return when they stay."""
        default = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION.value
        return ExternalizedCheckpointRetention(self._options.get("retention", default))

    def set_allow_repeated_output(self, allowed: bool = True) -> CheckpointConfig:
        """Let the job go on from an older checkpoint if the newest is lost, although records that
        cannot be taken back come a second time; by default it fails."""
        return self._set("allow_repeated_output", allowed)

    def is_repeated_output_allowed(self) -> bool:
        """Whether it goes on then."""
        return self._in_force().allow_repeated_output

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keep them here, and not in the cluster's ``checkpointing.directory``."""
        return self._set("directory", checkpoint_path)

    def _in_force(self) -> JobCheckpointingConfig:
        """Return what is set, and else the defaults; nothing of it is about the interval."""
        return JobCheckpointingConfig(1000.0, **self._options)  # type: ignore[arg-type]

    def _set(self, option: str, value: float | str) -> CheckpointConfig:
        options = {**self._options, option: value}
        JobCheckpointingConfig(1000.0, **options)  # type: ignore[arg-type]
        self._options = options
        return self

    def job_checkpointing(self) -> JobCheckpointingConfig | None:
        """What travels with a job; None without checkpoints."""
        if self._interval_ms is None:
            return None
        mode = self._mode.value
        return JobCheckpointingConfig(self._interval_ms, mode, **self._options)  # type: ignore[arg-type]
