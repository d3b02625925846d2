"""The interface of a file sink's output: a directory, or a prefix in a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from flinknet.state.state_handler import RestoredCheckpoint

__all__ = ["Output", "PartOutput", "StagedOutput"]


class Output(Protocol):
    """Files that are written one by one and become visible when they are committed."""

    def name(self, index: int, parallelism: int, number: int) -> str:
        """Return the name of a subtask's file with this number."""

    def writable(self, name: str) -> Path:
        """Return the path on this machine where the subtask writes the file."""

    def persist(self, names: Iterable[str]) -> None:
        """Make complete files survive a power failure; idempotent."""

    def close(self) -> None:
        """Release the resources of this process.

        Also remove files that were written but not persisted, if no other process can find them.
        """


class StagedOutput(Output, Protocol):
    """An output that replaces the previous job's files by those of this job when the job ends."""

    def open(self) -> None:
        """Prepare for writing; ConfigurationError if the present content must not be replaced."""

    def commit(self, files: Sequence[str]) -> None:
        """Make these files the whole content of the output; idempotent."""

    def abort(self) -> None:
        """Remove the files that were written, unless they were committed; idempotent."""


class PartOutput(Output, Protocol):
    """An output that commits each file with its checkpoint."""

    def open(self, restored: RestoredCheckpoint | None, *, may_repeat: bool) -> None:
        """Prepare for writing.

        Raises ConfigurationError if the job is new and other jobs have written there. Raises it as
        well if the job continues another job that has committed files with later checkpoints,
        unless the job ``may_repeat`` their records.
        """

    def publish(self, checkpoint_id: int, names: Collection[str]) -> None:
        """Commit files with a checkpoint; idempotent. JobFailedError if a file is missing."""

    def withdraw_after(self, checkpoint_id: int, index: int) -> None:
        """Remove the files that a subtask committed with later checkpoints; idempotent."""

    def discard(self, kept: Collection[str], is_own: Callable[[int], bool]) -> None:
        """Remove files that earlier attempts prepared, except the files in ``kept``.

        Only files of subtasks for which ``is_own`` is true are removed.
        """

    def finish(self) -> None:
        """Remove prepared files that no checkpoint committed, when the job has finished."""
