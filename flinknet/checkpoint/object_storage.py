"""Checkpoint storage in an object store, by ``obstore`` (the extra ``flinknet[obstore]``).

An object store creates an object completely or not at all. Large objects are sent in parts while
they are produced. The stores of S3, Google, Azure and R2 support *create if absent*. Keys, regions
and endpoints come from the environment, as described in obstore's documentation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointNotFoundError, CheckpointStorageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["ObjectStorage"]


class ObjectStorage:
    """An object store below a prefix, as checkpoint storage."""

    def __init__(self, store: ObjectStore, location: str, config: CheckpointingConfig) -> None:
        """``store`` is any of obstore's stores, already limited to its prefix."""
        self.location = location
        self._store = store
        self._files_max = config.files_max

    async def write(self, path: str, blocks: Iterable[bytes]) -> None:
        """Write an object; see ``Storage.write``."""
        with self._explained("write", path):
            await obstore.put_async(self._store, path, _one_by_one(blocks))

    async def create(self, path: str, content: bytes) -> bool:
        """Create an object; see ``Storage.create``."""
        with self._explained("write", path):
            try:
                await obstore.put_async(self._store, path, content, mode="create")
            except AlreadyExistsError:
                return False
        return True

    async def read(self, path: str, bytes_max: int) -> bytes:
        """Read an object; see ``Storage.read``."""
        with self._explained("read", path):
            found = await obstore.get_async(self._store, path)
            if found.meta["size"] > bytes_max:
                raise CheckpointStorageError(
                    f"{self.location}/{path} is larger than the {bytes_max} bytes that are allowed"
                )
            return bytes(await found.bytes_async())

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """Read a range of an object; see ``Storage.read_range``."""
        with self._explained("read", path):
            # A file gives fewer bytes at its end; object stores refuse an empty range.
            size = (await obstore.head_async(self._store, path))["size"]
            if start >= size or not length:
                return b""
            found = await obstore.get_range_async(self._store, path, start=start, length=length)
            return bytes(found)

    async def files(self, directory: str = "") -> dict[str, int]:
        """List objects with their sizes; see ``Storage.files``."""
        found: dict[str, int] = {}
        with self._explained("list", directory):
            async for listed in obstore.list(self._store, prefix=directory or None):
                for one in listed:
                    if not one["path"].rpartition("/")[2].startswith("."):
                        found[one["path"]] = one["size"]
                if len(found) > self._files_max:
                    raise CheckpointStorageError(
                        f"{self.location}/{directory} has more than {self._files_max} objects "
                        "below it: name a place of checkpoints, or raise checkpointing.files_max"
                    )
        return dict(sorted(found.items()))

    async def directories(self, directory: str = "") -> list[str]:
        """List the key prefixes up to the next ``/``; see ``Storage.directories``."""
        with self._explained("list", directory):
            found = await obstore.list_with_delimiter_async(self._store, prefix=directory or None)
        return sorted(prefix.rpartition("/")[2] for prefix in found["common_prefixes"])

    async def delete(self, path: str) -> None:
        """Delete an object; see ``Storage.delete``."""
        with self._explained("remove", path), suppress(FileNotFoundError):
            await obstore.delete_async(self._store, path)

    async def delete_unfinished(self, directory: str) -> None:
        """Do nothing: an unfinished upload is not an object, and leaves none."""

    async def delete_directory(self, directory: str) -> None:
        """Delete all objects with a prefix; see ``Storage.delete_directory``."""
        with self._explained("remove", directory):
            async for listed in obstore.list(self._store, prefix=directory):
                for one in listed:
                    with suppress(FileNotFoundError):
                        await obstore.delete_async(self._store, one["path"])

    @contextmanager
    def _explained(self, done: str, path: str) -> Iterator[None]:
        """Convert an error of obstore to one that names the path."""
        try:
            yield
        except FileNotFoundError as cause:
            raise CheckpointNotFoundError(
                f"cannot {done} {self.location}/{path}: there is no such object"
            ) from cause
        except (BaseError, OSError) as cause:
            reason = str(cause).partition("\n")[0]  # The rest is for debugging obstore.
            raise CheckpointStorageError(
                f"cannot {done} {self.location}/{path}: {reason}"
            ) from cause


async def _one_by_one(blocks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block
