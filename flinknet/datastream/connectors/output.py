"""What a sink of files writes to, wherever that is: a directory, or a prefix in a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from flinknet.state.state_handler import RestoredCheckpoint

__all__ = ["Output", "PartOutput", "StagedOutput"]


class Output(Protocol):
    """Files that are written one by one, and visible when they are committed."""

    def name(self, index: int, parallelism: int, number: int) -> str:
        """How a subtask's file with this number is called."""

    def writable(self, name: str) -> Path:
        """Where on this machine the subtask writes it."""

    def persist(self, names: Iterable[str]) -> None:
        """Have files that are complete survive a loss of power; idempotent."""

    def close(self) -> None:
        """Let go of what is held in this process, and remove what was written and not persisted
        if nobody else could find it."""


class StagedOutput(Output, Protocol):
    """All files of a job are committed at its end, in the place of those of the job before."""

    def open(self) -> None:
        """Be ready to write. ConfigurationError if what is there must not be replaced."""

    def commit(self, files: Sequence[str]) -> None:
        """Let these files, and nothing else, be the output; idempotent."""

    def abort(self) -> None:
        """Remove what was written, unless it has been committed; idempotent."""


class PartOutput(Output, Protocol):
    """Files are committed with the checkpoint that they are part of."""

    def open(self, restored: RestoredCheckpoint | None, *, may_repeat: bool) -> None:
        """Be ready to write. ConfigurationError if the job begins and others have written there, or
        if the job continues another one, which has committed more than it continues from, and it
        ``may_repeat`` nothing."""

    def publish(self, checkpoint_id: int, names: Collection[str]) -> None:
        """Commit files with a checkpoint; idempotent. JobFailedError if one is not there any
        more."""

    def withdraw_after(self, checkpoint_id: int, index: int) -> None:
        """Remove what a subtask of the job has committed with later checkpoints; idempotent."""

    def discard(self, kept: Collection[str], is_own: Callable[[int], bool]) -> None:
        """Remove what earlier attempts have prepared, but for what is kept, of the subtasks that
        are meant."""

    def finish(self) -> None:
        """The job has finished: remove what it has prepared in vain."""
