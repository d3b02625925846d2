"""A job's checkpoints, claimed by one attempt, which completes and removes them.

Theory of operation
-------------------
::

    claim       create the next journal entry, which says that this attempt takes over; incomplete
                checkpoints of earlier attempts may be removed from now on
    complete    create the metadata, then the next journal entry
    remove      delete the metadata, the other files and the entry, in this order

"Create" fails if the file exists. A checkpoint is complete from the creation of its entry to the
removal of its metadata; both are single steps. If the entry's number is taken, a later attempt has
claimed the checkpoints (``journal.py`` explains why this is certain). The metadata is then removed,
and all later calls are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from flinknet.checkpoint.journal import (
    ENTRY_BYTES_MAX,
    JOURNAL,
    Entry,
    decode_entry,
    encode_entry,
    entry_path,
)
from flinknet.checkpoint.metadata import (
    METADATA,
    CheckpointDirectory,
    CheckpointMetadata,
    encode_metadata,
)
from flinknet.checkpoint.store import CheckpointStore, CompletedCheckpoint
from flinknet.errors import (
    CheckpointError,
    CheckpointFencedError,
    CheckpointStorageError,
    LocalProtocolError,
)

__all__ = ["Check", "FencedStore", "may_change"]

_log = logging.getLogger("flinknet.checkpoint")


Check = Callable[[], Awaitable[None]]
"""Raises if the checkpoints must not be changed: their coordinator has a successor."""


async def may_change() -> None:
    """Let everything be changed, as a coordinator without a successor does."""


class FencedStore:
    """A job's checkpoints in the hands of one attempt; created by ``claim``."""

    def __init__(
        self,
        store: CheckpointStore,
        attempt: int,
        next_number: int,
        completed: Iterable[CompletedCheckpoint],
        check: Check = may_change,
    ) -> None:
        self._check = check
        self.store = store
        self.attempt = attempt
        self._next_number = next_number
        self._retained = deque(one for one in completed if not one.directory.is_savepoint)
        self._numbers: dict[CheckpointDirectory, int] = {}
        self._completing = asyncio.Lock()
        self._fenced = False

    @classmethod
    async def claim(
        cls,
        store: CheckpointStore,
        attempt: int,
        is_passed_over: Callable[[int], bool] = lambda number: False,
        check: Check = may_change,
    ) -> FencedStore:
        """Take over the checkpoints of a job for an attempt, which must be later than all before.

        From then on no other attempt can complete a checkpoint. Checkpoints for which
        ``is_passed_over`` is true are the first to be removed. ``check`` is called before each
        change, and raises if the change must not be made.

        Raises CheckpointFencedError if this attempt or a later one has taken over already.
        """
        while True:
            # Use one listing for both: if an entry is added after it, the number is taken.
            files = await store.storage.files(store.path(JOURNAL))
            entries = await store.entries(files)
            last = max((entry.attempt for entry in entries.values()), default=-1)
            if last >= attempt:
                raise _fenced(store, attempt, last)
            number = max(store.entry_numbers(files).values(), default=-1) + 1
            path = store.path(entry_path(number))
            await check()
            if await store.storage.create(path, encode_entry(Entry(attempt))):
                completed = await store.completed()
                completed.sort(key=lambda one: not is_passed_over(one.directory.checkpoint_id))
                return cls(store, attempt, number + 1, completed, check)

    def directory(self, checkpoint_id: int, *, is_savepoint: bool = False) -> CheckpointDirectory:
        """Return the directory in which this attempt keeps a checkpoint."""
        return CheckpointDirectory(is_savepoint, checkpoint_id, self.attempt)

    async def complete(self, metadata: CheckpointMetadata) -> str:
        """Complete a checkpoint with all parts written; return its location.

        After any error the checkpoint is not complete. Raises CheckpointFencedError if a later
        attempt has taken over, CheckpointStorageError if the storage fails, CheckpointError if the
        metadata exceeds ``metadata_bytes_max``. Old checkpoints are removed by ``remove_all_but``.
        """
        if metadata.attempt != self.attempt or metadata.job_id != self.store.job_id:
            raise LocalProtocolError(
                f"attempt {self.attempt} of {self.store.job_id} cannot complete "
                f"{metadata.job_id}/{metadata.directory}"
            )
        file = encode_metadata(metadata, self.store.config.metadata_bytes_max)
        path = self.store.path(metadata.directory, METADATA)
        async with self._completing:
            await self._check_not_fenced()
            if not await self.store.storage.create(path, file):
                raise CheckpointStorageError(f"{self.store.storage.location}/{path} exists already")
            # Until the entry exists, the metadata alone does not make the checkpoint complete.
            try:
                await self._check()
                number = await self._write_entry(Entry(self.attempt, str(metadata.directory)))
            except BaseException:
                with suppress(CheckpointError):
                    await self.store.storage.delete(path)
                raise
            self._numbers[metadata.directory] = number
            if not metadata.kind.is_savepoint:
                self._retained.append(CompletedCheckpoint(number, metadata.directory))
        return self.store.location(metadata.directory)

    async def remove_all_but(self, number: int) -> None:
        """Remove the oldest completed checkpoints, all but ``number``; keep savepoints.

        A failure is logged, and the removal is tried again the next time.
        """
        async with self._completing:
            while not self._fenced and len(self._retained) > number:
                await self._check()
                oldest = self._retained[0]
                try:
                    await self._remove(oldest)
                except CheckpointError as error:
                    _log.warning("an old checkpoint could not be removed yet: %s", error)
                    return
                self._retained.popleft()

    async def remove_journal(self) -> None:
        """Remove the directory of a job that has ended for good; nothing is completed afterwards.

        The directory stays if it holds a checkpoint, a savepoint or any other file.
        """
        async with self._completing:
            await self._check()
            store = self.store
            files = await store.storage.files(store.job_id)
            if not self._fenced and all(one.startswith(store.path(JOURNAL, "")) for one in files):
                self._fenced = True
                await store.storage.delete_directory(store.job_id)

    async def discard(self, directory: CheckpointDirectory) -> None:
        """Remove the files of a checkpoint that was never announced as complete.

        If the checkpoint has been completed meanwhile, its entry is removed, too, and it does not
        count among the retained ones.
        """
        await self._check_not_fenced()
        async with self._completing:
            number = self._numbers.pop(directory, None)
            if number is None:
                await self.store.storage.delete_directory(self.store.path(directory))
                return
            completed = CompletedCheckpoint(number, directory)
            with suppress(ValueError):
                self._retained.remove(completed)
            await self._remove(completed)

    async def remove_leftovers(self) -> None:
        """Remove incomplete checkpoints of earlier attempts.

        A savepoint with metadata stays, even if the journal does not list it: its user may have
        requested it by another name of this location.
        """
        await self._check_not_fenced()
        complete = {one.directory for one in await self.store.completed()}
        storage = self.store.storage
        files = await storage.files(self.store.job_id)
        for name in await storage.directories(self.store.job_id):
            directory = CheckpointDirectory.parse(name)
            if directory is None or directory in complete:
                continue
            if directory.is_savepoint and self.store.path(directory, METADATA) in files:
                continue
            # An earlier attempt cannot complete anything any more.
            if directory.attempt < self.attempt:
                await storage.delete_directory(self.store.path(directory))
        # Under the lock, because this attempt must not write an entry meanwhile.
        async with self._completing:
            await storage.delete_unfinished(self.store.path(JOURNAL))

    async def _remove(self, checkpoint: CompletedCheckpoint) -> None:
        directory = self.store.path(checkpoint.directory)
        # Metadata first: without it, the checkpoint is not complete, and no restore tries it.
        await self.store.storage.delete(f"{directory}/{METADATA}")
        await self.store.storage.delete_directory(directory)
        await self.store.storage.delete(self.store.path(entry_path(checkpoint.number)))
        self._numbers.pop(checkpoint.directory, None)

    async def _write_entry(self, entry: Entry) -> int:
        storage = self.store.storage
        while True:
            number = self._next_number
            path = self.store.path(entry_path(number))
            if await storage.create(path, encode_entry(entry)):
                self._next_number += 1
                return number
            there = decode_entry(await storage.read(path, ENTRY_BYTES_MAX), path)
            if there.attempt != self.attempt:
                self._fenced = True
                raise _fenced(self.store, self.attempt, there.attempt)
            # The entry is this attempt's own, from a call that was cancelled before it returned.
            # That call gave its checkpoint up, so the checkpoint has no metadata.
            self._next_number += 1

    async def _check_not_fenced(self) -> None:
        await self._check()
        if self._fenced:
            raise _fenced(self.store, self.attempt, None)


def _fenced(store: CheckpointStore, attempt: int, other: int | None) -> CheckpointFencedError:
    other_attempt = "a later attempt" if other is None else f"attempt {other}"
    return CheckpointFencedError(
        f"attempt {attempt} of job {store.job_id} cannot complete checkpoints: {other_attempt} has "
        f"taken over {store.storage.location}/{store.job_id}"
    )
