"""Base of the file sinks: one file per subtask or per subtask and checkpoint."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flinknet.datastream.connectors.locations import RemoteLocation, location_of
from flinknet.datastream.connectors.output import Output, PartOutput, StagedOutput
from flinknet.datastream.connectors.output_directory import OutputDirectory
from flinknet.datastream.connectors.part_files import PartFiles
from flinknet.datastream.connectors.part_names import PartNames
from flinknet.datastream.connectors.remote_output import RemoteDirectory, RemoteParts
from flinknet.errors import ConfigurationError
from flinknet.functions.context import RuntimeContext
from flinknet.functions.functions import WithdrawableOutput
from flinknet.operators.sink import CheckpointedSink, CommitContext, Committer

__all__ = ["DirectorySink"]


class DirectorySink(CheckpointedSink, WithdrawableOutput):
    """Writes files below ``path``, ``part-00002-of-00004-JOB....``; the path may be a URL.

    When every subtask of the job has finished, the new files replace the directory's content as a
    whole. Readers see the previous result or the new one. A job that fails or is killed at any
    moment changes nothing (``output_directory.py``). The directory may hold only such results;
    otherwise opening it raises ConfigurationError. The parent directory must be writable, because
    the new directory is created beside the old one.

    In a job with checkpoints, a subtask writes a file for each checkpoint that has records for it.
    The file becomes visible when the checkpoint is complete (``part_files.py``). Readers see each
    record once, even after failures. If the newest checkpoint is lost, the files of later
    checkpoints than the resumed one are removed and written again. A new job requires an empty
    directory in this mode.

    ``remote_output.py`` describes the differences for URLs. Each sink of a job needs a directory of
    its own; use ``union`` for streams that form one result.
    """

    takes_whole_batches = False

    def __init__(self, path: str | Path, names: PartNames) -> None:
        self._location = location_of(path)
        self._names = names
        self._subtask = 0, 1
        self._staged: StagedOutput | None = None
        self._parts: PartOutput | None = None
        self._number = 0
        """Number of the current file, or of the next one."""
        self._is_begun = False
        self._ended: list[str] = []
        """Complete files that have not been reported to the runtime yet."""
        self._is_prepared = False

    @abstractmethod
    def end_file(self, *, is_last: bool) -> None:
        """Write buffered records, and close the current file, if any, with ``file_ended``.

        If ``is_last``, in a job without checkpoints, the subclass may create an empty file.
        """

    @abstractmethod
    def abandon_file(self) -> None:
        """Close the current file, if any; it will be removed."""

    def begin_file(self) -> Path:
        """Return the path of the next file, for the subclass to write."""
        self._is_begun = True
        return self._output.writable(self._present_name())

    def file_ended(self) -> None:
        """Record that the current file is complete and closed."""
        self._ended.append(self._present_name())
        self._number += 1
        self._is_begun = False

    def exclusive_output(self) -> str:
        """Return the directory, since two sinks would use the same file names in it."""
        location = self._location
        return str(location if isinstance(location, RemoteLocation) else location.resolve())

    async def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.index, runtime_context.parallelism
        job_id, attempt = runtime_context.job_id, runtime_context.attempt
        try:
            if runtime_context.checkpointed:
                self._parts = self._parts_of(job_id, attempt)
                may_repeat = runtime_context.allows_repeated_output
                restored = runtime_context.state.restored_from
                await asyncio.to_thread(self._parts.open, restored, may_repeat=may_repeat)
            else:
                self._staged = self._staged_of(job_id, attempt)
                await asyncio.to_thread(self._staged.open)
        except ConfigurationError as error:
            raise ConfigurationError(f'sink "{runtime_context.operator_name}": {error}') from error

    def finish(self) -> None:
        # With checkpoints, the buffered records belong to the last part.
        if self._staged is not None:
            self.end_file(is_last=True)

    async def prepare_commit(self) -> list[str]:
        """Return the names of this subtask's files; an empty list if it wrote none."""
        await asyncio.to_thread(self._output.persist, list(self._ended))
        self._is_prepared = True
        return self._ended

    def roll(self) -> list[str]:
        """End the current file, if it has records.

        Returns the names of all files that ended since the last call.
        """
        if self._parts is not None:
            self.end_file(is_last=False)
        ended, self._ended = self._ended, []
        return ended

    def persist(self, committables: list[str]) -> None:
        """Flush files to disk, so that they survive a power failure."""
        self._part_output().persist(committables)

    def publish(self, checkpoint_id: int, committables: list[str]) -> None:
        """Make files visible to readers."""
        self._part_output().publish(checkpoint_id, committables)

    def withdraw_after(self, checkpoint_id: int) -> None:
        """Remove the files that became visible with later checkpoints."""
        self._part_output().withdraw_after(checkpoint_id, self._subtask[0])

    def discard(self, kept: Collection[str], is_own: Callable[[int], bool]) -> None:
        """Remove prepared files of earlier attempts that will not be committed."""
        self._part_output().discard(kept, is_own)

    def create_committer(self, context: CommitContext) -> Committer:
        """Create the committer of the job.

        It replaces the directory's content, or removes the staged files. With checkpoints, it
        removes the files that no checkpoint committed.
        """
        if context.checkpointed:
            return PartCommitter(self._parts_of(context.job_id, context.attempt))
        return DirectoryCommitter(self._staged_of(context.job_id, context.attempt))

    def close(self) -> None:
        if self._parts is None and self._staged is None:
            return
        output = self._output
        # Every step runs even if another one fails; the callbacks run last, in reverse order.
        with ExitStack() as stack:
            stack.callback(output.close)
            if self._is_begun:
                unfinished = output.writable(self._present_name())
                stack.callback(unfinished.unlink, missing_ok=True)
            # After ``prepare_commit`` the committer needs the files.
            if self._staged is not None and not self._is_prepared:
                for name in self._ended:
                    stack.callback(output.writable(name).unlink, missing_ok=True)
            self.abandon_file()

    @property
    def _output(self) -> Output:
        output = self._staged if self._parts is None else self._parts
        assert output is not None, "it is open"
        return output

    def _part_output(self) -> PartOutput:
        assert self._parts is not None, "a job with checkpoints writes parts"
        return self._parts

    def _present_name(self) -> str:
        return self._output.name(*self._subtask, self._number)

    def _parts_of(self, job_id: str, attempt: int) -> PartOutput:
        if isinstance(self._location, RemoteLocation):
            return RemoteParts(self._location, job_id, attempt, self._names)
        return PartFiles(self._location, job_id, attempt, self._names)

    def _staged_of(self, job_id: str, attempt: int) -> StagedOutput:
        transaction = f"{job_id}-{attempt}"
        if isinstance(self._location, RemoteLocation):
            return RemoteDirectory(self._location, transaction, self._names)
        return OutputDirectory(self._location, transaction, self._names)


class PartCommitter(Committer):
    """Cleans up after a job that committed its files with its checkpoints."""

    def __init__(self, parts: PartOutput) -> None:
        self._parts = parts

    def commit(self, committables: list[list[str]]) -> None:
        """Remove files that no checkpoint has committed."""
        self._parts.finish()

    def abort(self) -> None:
        """Do nothing: prepared files may be part of a checkpoint, and a resumed job decides."""


class DirectoryCommitter(Committer):
    """Commits the files of all subtasks as one directory."""

    def __init__(self, output: StagedOutput) -> None:
        self._output = output

    def commit(self, committables: list[list[str]]) -> None:
        """Make the files the content of the directory."""
        self._output.commit(_all_of(committables))

    def abort(self) -> None:
        """Remove the files that the subtasks have written."""
        self._output.abort()


def _all_of(committables: list[Any]) -> list[str]:
    return [name for names in committables for name in names]
