"""Access to one checkpoint or savepoint by its location.

Only the directory of the checkpoint is needed. It may have been moved or copied, under any name.
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
    """Reads parts of checkpoints: from a job's store, or from a single checkpoint."""

    def location(self, directory: CheckpointDirectory) -> str:
        """Return the location of the checkpoint, for people."""

    def read_part(
        self,
        directory: CheckpointDirectory,
        part: StatePart,
        labels: Collection[Label] | None = None,
    ) -> AsyncIterator[tuple[Label, bytes]]:
        """Yield label and content of a part's sections: of the given labels, or of all."""


class CheckpointReader(NamedTuple):
    """A checkpoint with its metadata; created by ``open``."""

    storage: Storage
    directory: str
    """Path in ``storage``."""
    metadata: CheckpointMetadata

    @classmethod
    async def open(cls, location: str, config: CheckpointingConfig) -> CheckpointReader:
        """Read the metadata of the checkpoint in a directory or at a URL.

        Raises CheckpointNotFoundError if there is none; CheckpointCorruptedError, with the file's
        name, if the metadata is damaged, foreign or of a later version; CheckpointStorageError if
        the storage fails; ConfigurationError if the location is invalid.
        """
        # Storage at the parent directory reads the checkpoint under any name, as for a job's store.
        above, _, name = open_storage(location, config).location.rpartition("/")
        storage = open_storage(above or "/", config)
        path = f"{name}/{METADATA}"
        try:
            file = await storage.read(path, config.metadata_bytes_max)
        except CheckpointNotFoundError as error:
            raise CheckpointNotFoundError(
                f"{location} is not a checkpoint or savepoint: it has no file {METADATA}; name the "
                "directory of a complete checkpoint (flinknet checkpoints list shows them)"
            ) from error
        return cls(storage, name, decode_metadata(file, f"{storage.location}/{path}"))

    @property
    def place(self) -> str:
        """Location of the checkpoint, for people."""
        return f"{self.storage.location}/{self.directory}"

    def location(self, directory: CheckpointDirectory) -> str:
        """Return the location of this checkpoint; its original directory does not matter."""
        return self.place

    def read_part(
        self,
        directory: CheckpointDirectory,
        part: StatePart,
        labels: Collection[Label] | None = None,
    ) -> AsyncIterator[tuple[Label, bytes]]:
        """Yield label and content of a part's sections: of the given labels, or of all."""
        return read_sections(self.storage, self.directory, part, labels)

    async def verify(self) -> list[CheckpointError]:
        """Read the whole checkpoint; return an error for each bad file."""
        return await find_damage(self.storage, self.directory, self.metadata)
