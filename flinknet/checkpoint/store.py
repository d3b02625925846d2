"""The stored checkpoints of a job: writing by subtasks, listing, reading and verification.

Subtasks write their parts (``write_part``) and report them. The coordinator, which has claimed the
checkpoints for its attempt (``fenced_store.py``), completes a checkpoint: it writes the metadata
and an entry in the journal. A complete checkpoint never changes; it can only be removed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import NamedTuple

from flinknet.checkpoint.journal import (
    ENTRY_BYTES_MAX,
    JOURNAL,
    Entry,
    decode_entry,
    entry_number,
)
from flinknet.checkpoint.metadata import (
    METADATA,
    PART_NAME,
    CheckpointDirectory,
    CheckpointMetadata,
    Label,
    StatePart,
    decode_metadata,
)
from flinknet.checkpoint.state_parts import read_sections, write_part
from flinknet.checkpoint.storage import Storage
from flinknet.checkpoint.verification import find_damage, find_torn
from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointCorruptedError, CheckpointError, CheckpointNotFoundError

__all__ = ["CheckpointStore", "CompletedCheckpoint", "LatestValid"]

_log = logging.getLogger("flinknet.checkpoint")


class CompletedCheckpoint(NamedTuple):
    """A checkpoint that is complete according to the journal."""

    number: int
    """Number of its journal entry; it rises in the order of completion."""
    directory: CheckpointDirectory


class LatestValid(NamedTuple):
    """The checkpoint to restore, and the errors of the later ones that were rejected."""

    checkpoint: CheckpointMetadata
    refused: list[CheckpointError]


class CheckpointStore:
    """The checkpoints of one job. All methods raise CheckpointStorageError if the storage fails.

    A store has no state, so that any number of processes may have one each.
    """

    def __init__(self, storage: Storage, job_id: str, config: CheckpointingConfig) -> None:
        """``job_id`` is a directory name of letters, digits, ``_``, ``-`` and ``.``."""
        if re.fullmatch(PART_NAME, job_id) is None:
            raise CheckpointError(
                f"job {job_id!r} has no checkpoints: there is no directory of this name"
            )
        self.storage = storage
        self.job_id = job_id
        self.config = config

    def path(self, *names: object) -> str:
        """Return a path below the job's directory."""
        return "/".join([self.job_id, *map(str, names)])

    def location(self, directory: CheckpointDirectory) -> str:
        """Return the location of a checkpoint, for people."""
        return f"{self.storage.location}/{self.path(directory)}"

    # -- subtasks

    async def write_part(
        self, directory: CheckpointDirectory, name: str, blocks: Iterable[tuple[Label, bytes]]
    ) -> StatePart | None:
        """Write a state part; return its description for the metadata, or None if it is empty.

        ``name`` must be unique in its checkpoint. See ``state_parts.write_part``.
        """
        if re.fullmatch(PART_NAME, name) is None or name == METADATA:
            raise CheckpointError(f"{name!r} is not a valid name of a state part")
        return await write_part(self.storage, self.path(directory, name), blocks, self.config)

    def read_part(
        self,
        directory: CheckpointDirectory,
        part: StatePart,
        labels: Collection[Label] | None = None,
    ) -> AsyncIterator[tuple[Label, bytes]]:
        """Yield label and content of a part's sections: of the given labels, or of all."""
        return read_sections(self.storage, self.path(directory), part, labels)

    # -- restoring and inspection

    async def read_metadata(self, directory: CheckpointDirectory) -> CheckpointMetadata:
        """Return the metadata of a checkpoint.

        Raises CheckpointNotFoundError if there is none, CheckpointCorruptedError if it is damaged.
        """
        path = self.path(directory, METADATA)
        file = await self.storage.read(path, self.config.metadata_bytes_max)
        metadata = decode_metadata(file, f"{self.storage.location}/{path}")
        if (metadata.directory, metadata.job_id) != (directory, self.job_id):
            raise CheckpointCorruptedError(
                f"{self.storage.location}/{path} is the metadata of "
                f"{metadata.job_id}/{metadata.directory}"
            )
        return metadata

    async def completed(self) -> list[CompletedCheckpoint]:
        """Return the complete checkpoints and savepoints, in the order of completion."""
        files = await self.storage.files(self.job_id)
        return [
            CompletedCheckpoint(number, directory)
            for number, entry in sorted((await self.entries(files)).items())
            if entry.completed is not None
            and (directory := CheckpointDirectory.parse(entry.completed)) is not None
            and self.path(directory, METADATA) in files
        ]

    async def verify(
        self, directory: CheckpointDirectory, *, reads: bool = True
    ) -> list[CheckpointError]:
        """Verify a checkpoint; return an error for each bad file.

        With ``reads``, all files are read. Without it, only the metadata is read, and the other
        files are checked for existence and length. That suffices before a restore, because each
        subtask verifies the sections that it reads.
        """
        try:
            metadata = await self.read_metadata(directory)
        except (CheckpointCorruptedError, CheckpointNotFoundError) as error:
            return [error]
        find = find_damage if reads else find_torn
        return await find(self.storage, self.path(directory), metadata)

    async def newest_claimed(self, is_passed_over: Callable[[int], bool]) -> int:
        """Return the largest number of a completed checkpoint in the journal; 0 for none.

        The files of that checkpoint need not exist any more. Checkpoints for which
        ``is_passed_over`` is true are ignored.
        """
        entries = await self.entries(await self.storage.files(self.path(JOURNAL)))
        named = [CheckpointDirectory.parse(one.completed or "") for one in entries.values()]
        numbers = [one.checkpoint_id for one in named if one and not one.is_savepoint]
        return max((one for one in numbers if not is_passed_over(one)), default=0)

    async def latest_valid(
        self, *, reads: bool = True, is_passed_over: Callable[[int], bool] = lambda number: False
    ) -> LatestValid:
        """Return the last completed checkpoint with valid files, see ``verify``.

        Checkpoints for which ``is_passed_over`` is true are skipped. Savepoints are skipped, too:
        users own them, and may have moved or removed them. Each invalid checkpoint is logged,
        with its bad files.

        Raises CheckpointNotFoundError if there is none. Raises CheckpointStorageError if the
        storage does not answer. Falling back to an earlier checkpoint would then only make the job
        repeat work.
        """
        refused: list[CheckpointError] = []
        for _, directory in reversed(await self.completed()):
            if directory.is_savepoint or is_passed_over(directory.checkpoint_id):
                continue
            errors = await self.verify(directory, reads=reads)
            if not errors:
                return LatestValid(await self.read_metadata(directory), refused)
            refused += errors
            _log.warning(
                "checkpoint %s cannot be restored, so an earlier one is used: %s",
                self.location(directory),
                "; ".join(map(str, errors)),
            )
        wrong = "".join(f"; {error}" for error in refused)
        raise CheckpointNotFoundError(
            f"{self.storage.location}/{self.job_id} has no checkpoint that can be restored{wrong}"
        )

    async def entries(self, files: Iterable[str]) -> dict[int, Entry]:
        """Return the journal entries among some files, by number.

        A damaged entry is logged and left out; the checkpoint that it names is then not complete.
        """
        found: dict[int, Entry] = {}
        for path, number in self.entry_numbers(files).items():
            try:
                file = await self.storage.read(path, ENTRY_BYTES_MAX)
                found[number] = decode_entry(file, f"{self.storage.location}/{path}")
            except CheckpointNotFoundError:
                continue  # It was removed after the listing.
            except CheckpointCorruptedError as error:
                _log.warning("an entry of a job's journal is ignored: %s", error)
        return found

    def entry_numbers(self, files: Iterable[str]) -> dict[str, int]:
        """Return the numbers of the journal entries among some files, by path."""
        numbers = {path: entry_number(path.removeprefix(f"{self.job_id}/")) for path in files}
        return {path: number for path, number in numbers.items() if number is not None}
