"""The limits and defaults of checkpoints: where they are kept, how many, and how large."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.config.checks import GIB, KIB, MIB, check_fields, require, require_at_least

__all__ = ["CheckpointingConfig"]


@dataclass(frozen=True, slots=True)
class CheckpointingConfig:
    """Where checkpoints are kept, and what one may take."""

    directory: str = ""
    """Directory of all jobs' checkpoints, which every process of the cluster must reach; or, with
    flinknet[obstore], a URL such as s3://bucket/checkpoints. Empty: there is none. Flink:
    execution.checkpointing.dir."""

    retained: int = 3
    """Completed checkpoints of a job that are kept; savepoints are not counted, and never removed.
    Flink keeps one, and a job whose only checkpoint is damaged has lost its state. Here the one
    before takes its place, and still has one behind it. Flink:
    execution.checkpointing.num-retained (1)."""

    inline_bytes_max: int = 20 * KIB
    """Largest state part that is kept in the checkpoint's metadata instead of in a file: a file
    costs more than that to make durable, and 1,000 subtasks with it make 20 MiB of metadata. Flink:
    execution.checkpointing.data-inline-threshold (20 KB)."""

    part_bytes_max: int = 16 * GIB
    """Largest state part: one kind of state of one operator in one subtask. A subtask that would
    write more fails the checkpoint instead of filling the disk."""

    channel_state_bytes_max: int = 256 * MIB
    """Most that a subtask may copy of what was in flight, per checkpoint. A worker has
    network_memory_bytes (64 MiB) of buffers; the rest is for long records that are put together,
    some of which are on disk."""

    aborted_checkpoints_max: int = 1_000
    """Checkpoints that a subtask remembers as aborted before their barriers have come to it; of
    more the earliest are forgotten, and collect in vain. Flink: ChannelStateWriterImpl's 1000."""

    metadata_bytes_max: int = 64 * MIB
    """Largest metadata of a checkpoint, which is read at once: 32,768 key groups of 30 operators
    take some 20 MiB."""

    files_max: int = 1_000_000
    """Files that may be found below a directory of checkpoints. It is far from what 20 jobs have,
    and keeps a wrong directory, such as /, from being searched for hours."""

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
