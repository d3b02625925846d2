"""Limits and defaults of checkpoints: their location, number and size."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.config.checks import GIB, KIB, MIB, check_fields, require, require_at_least

__all__ = ["CheckpointingConfig"]


@dataclass(frozen=True, slots=True)
class CheckpointingConfig:
    """The location of checkpoints, and the limits of one checkpoint."""

    directory: str = ""
    """Directory for the checkpoints of all jobs; empty for none.

    Every process of the cluster must reach it. With flinknet[obstore] it can be a URL such as
    s3://bucket/checkpoints. Flink: execution.checkpointing.dir.
    """

    retained: int = 3
    """Number of completed checkpoints kept for a job, without savepoints, which are never removed.

    Flink keeps one, so a job with one damaged checkpoint has lost its state. Here the previous
    checkpoint replaces it, and still has one behind it. Flink: execution.checkpointing.num-retained
    (1).
    """

    inline_bytes_max: int = 20 * KIB
    """Maximum size of a state part kept in the checkpoint's metadata instead of in a file.

    Making a file durable costs more than this size. 1,000 subtasks with this size make 20 MiB of
    metadata. Flink: execution.checkpointing.data-inline-threshold (20 KB).
    """

    part_bytes_max: int = 16 * GIB
    """Maximum size of a state part: one kind of state of one operator in one subtask.

    A subtask that would write more fails the checkpoint instead of filling the disk.
    """

    channel_state_bytes_max: int = 256 * MIB
    """Maximum amount of in-flight data that a subtask copies per checkpoint.

    A worker has network_memory_bytes (64 MiB) of buffers. The rest is for long records under
    reassembly, some of which are on disk.
    """

    aborted_checkpoints_max: int = 1_000
    """Maximum number of aborted checkpoints that a subtask remembers until their barriers arrive.

    Beyond this number the earliest are forgotten, and collect data in vain. Flink:
    ChannelStateWriterImpl's 1000.
    """

    metadata_bytes_max: int = 64 * MIB
    """Maximum size of a checkpoint's metadata, which is read at once.

    32,768 key groups of 30 operators take about 20 MiB.
    """

    files_max: int = 1_000_000
    """Maximum number of files below a checkpoint directory.

    This is far above the number for 20 jobs. It prevents a search of a wrong directory, such as /,
    for hours.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 1, "retained", "aborted_checkpoints_max", "files_max")
        require_at_least(self, 0, "inline_bytes_max")
        require_at_least(self, 1 * MIB, "part_bytes_max", "channel_state_bytes_max")
        require(
            4 * self.inline_bytes_max <= self.metadata_bytes_max,
            f"metadata_bytes_max is {self.metadata_bytes_max}: choose at least four times "
            f"inline_bytes_max ({self.inline_bytes_max}), which are inside it",
        )
        require_at_least(self, 64 * KIB, "metadata_bytes_max")
