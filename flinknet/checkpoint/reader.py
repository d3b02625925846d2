"""One checkpoint or savepoint, wherever it lies: found by its place, read, verified.

Nothing but its own directory is needed, which may have been moved or copied, under any name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import NamedTuple, Protocol

from flinknet.checkpoint.location import open_storage
from flinknet.checkpoint.metadata import (
    METADATA,
    CheckpointDirectory,
    CheckpointMetadata,
    Label,
    StatePart,
    decode_metadata,
)
from flinknet.checkpoint.state_parts import read_sections
from flinknet.checkpoint.storage import Storage
from flinknet.checkpoint.verification import find_damage
from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointError, CheckpointNotFoundError

__all__ = ["CheckpointReader", "PartReader"]


class PartReader(Protocol):
    """Where the parts of a checkpoint are read: among a job's checkpoints, or wherever it lies."""

    def location(self, directory: CheckpointDirectory) -> str:
        """Return where the checkpoint is, for people."""

    def read_part(
        self,
        directory: CheckpointDirectory,
        part: StatePart,
        labels: Collection[Label] | None = None,
    ) -> AsyncIterator[tuple[Label, bytes]]:
        """Yield label and content of a part's sections: those with ``labels``, or all."""


class CheckpointReader(NamedTuple):
    """A checkpoint whose metadata has been read; made by ``open``."""

    storage: Storage
    directory: str
    """Its path in ``storage``."""
    metadata: CheckpointMetadata

    @classmethod
    async def open(cls, location: str, config: CheckpointingConfig) -> CheckpointReader:
        """Read what the checkpoint in a directory, or at a URL, says of itself.

        CheckpointNotFoundError if none is there, CheckpointCorruptedError, with the file's name, if
        its metadata is damaged, foreign or of a later version, CheckpointStorageError if the place
        does not answer, ConfigurationError if it cannot be one.
        """
        above, _, name = open_storage(location, config).location.rpartition("/")
        storage = open_storage(above or "/", config)
        path = f"{name}/{METADATA}"
        try:
            file = await storage.read(path, config.metadata_bytes_max)
        except CheckpointNotFoundError as error:
            raise CheckpointNotFoundError(
                f"{location} is no checkpoint or savepoint: it has no file {METADATA}; name the "
                "directory of a complete one (flinknet checkpoints list shows them)"
            ) from error
        return cls(storage, name, decode_metadata(file, f"{storage.location}/{path}"))

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.storage.location}/{self.directory}"

    def location(self, directory: CheckpointDirectory) -> str:
        """The same, whatever it was called when it was made."""
        return self.place

    def read_part(
        self,
        directory: CheckpointDirectory,
        part: StatePart,
        labels: Collection[Label] | None = None,
    ) -> AsyncIterator[tuple[Label, bytes]]:
        """Yield label and content of a part's sections: those with ``labels``, or all."""
        return read_sections(self.storage, self.directory, part, labels)

    async def verify(self) -> list[CheckpointError]:
        """Read all of it, and return an error for each bad file."""
        return await find_damage(self.storage, self.directory, self.metadata)
