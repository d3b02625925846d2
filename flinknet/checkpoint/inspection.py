"""Search for checkpoints in a directory of all jobs, of one job, or of one checkpoint.

A directory of all jobs has one subdirectory per job, which has one per checkpoint. A directory of
one checkpoint may have been moved or copied to another place, under any name.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from flinknet.checkpoint.journal import JOURNAL
from flinknet.checkpoint.location import open_storage
from flinknet.checkpoint.metadata import (
    METADATA,
    CheckpointDirectory,
    CheckpointMetadata,
    decode_metadata,
)
from flinknet.checkpoint.storage import Storage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.checkpoint.verification import find_damage
from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointError, CheckpointNotFoundError

__all__ = ["KeptCheckpoint", "find_checkpoints"]


class KeptCheckpoint(NamedTuple):
    """A checkpoint that was found, valid or not."""

    storage: Storage
    directory: str
    """Path in ``storage``."""
    state: str
    """``complete``; ``incomplete``: in progress or abandoned; ``copied``: not in a journal."""
    metadata: CheckpointMetadata | None
    error: CheckpointError | None
    """Why required metadata is absent."""

    @property
    def location(self) -> str:
        """Location of the checkpoint, for people."""
        return f"{self.storage.location}/{self.directory}"

    async def verify(self) -> list[CheckpointError]:
        """Read the whole checkpoint; return an error for each bad file."""
        if self.metadata is None:
            missing = CheckpointNotFoundError(
                f"{self.location} is incomplete: it has no {METADATA}"
            )
            return [self.error or missing]
        return await find_damage(self.storage, self.directory, self.metadata)


async def find_checkpoints(location: str, config: CheckpointingConfig) -> list[KeptCheckpoint]:
    """Return the checkpoints of a directory or URL, by job and in the order of their creation.

    Raises CheckpointNotFoundError if there is no such directory, or no checkpoint in it.
    """
    storage = open_storage(location, config)
    paths = [PurePosixPath(path) for path in await storage.files()]
    if not paths:
        raise CheckpointNotFoundError(f"{location} has no files: name a directory of checkpoints")
    if PurePosixPath(METADATA) in paths:
        above, name = _above(storage.location)
        return [await _kept(open_storage(above, config), name, "copied", config)]
    tops = {path.parts[0] for path in paths}
    if JOURNAL in tops or any(map(CheckpointDirectory.parse, tops)):
        above, name = _above(storage.location)
        return await _of_job(open_storage(above, config), name, config)
    found = []
    for job in sorted(tops):
        if any(path.match(f"{job}/*/*") for path in paths):
            found += await _of_job(storage, job, config)
    if not found:
        raise CheckpointNotFoundError(
            f"{location} has no checkpoints: name the directory of all jobs, of one job or of one "
            "checkpoint"
        )
    return found


async def _of_job(storage: Storage, job: str, config: CheckpointingConfig) -> list[KeptCheckpoint]:
    store = CheckpointStore(storage, job, config)
    files = await storage.files(job)
    complete = {one.directory for one in await store.completed()}
    has_journal = bool(store.entry_numbers(files))
    directories = {
        CheckpointDirectory.parse(path.removeprefix(f"{job}/").partition("/")[0]) for path in files
    }
    found = []
    for directory in sorted(
        (one for one in directories if one is not None),
        key=lambda one: (one.attempt, one.checkpoint_id, one.is_savepoint),
    ):
        has_metadata = store.path(directory, METADATA) in files
        if directory in complete:
            state = "complete"
        else:  # Without any journal, a directory with metadata was copied from another place.
            state = "incomplete" if has_journal or not has_metadata else "copied"
        found.append(await _kept(storage, store.path(directory), state, config))
    return found


async def _kept(
    storage: Storage, directory: str, state: str, config: CheckpointingConfig
) -> KeptCheckpoint:
    path = f"{directory}/{METADATA}"
    try:
        file = await storage.read(path, config.metadata_bytes_max)
        metadata = decode_metadata(file, f"{storage.location}/{path}")
    except CheckpointNotFoundError:
        return KeptCheckpoint(storage, directory, state, None, None)
    except CheckpointError as error:
        return KeptCheckpoint(storage, directory, state, None, error)
    return KeptCheckpoint(storage, directory, state, metadata, None)


def _above(location: str) -> tuple[str, str]:
    """Return the parent directory and the name; works for URLs, too."""
    above, _, name = location.rpartition("/")
    return above or "/", name
