"""Checkpoints in an object store, by ``obstore``: the extra ``flinknet[obstore]``.

An object appears whole or not at all by itself. Large ones are sent in several parts, as they are
made. *Created only if absent* is what S3, Google's, Azure's and R2's stores do; keys, regions and
endpoints are taken from the environment, as obstore's documentation has them.
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
    """An object store, from its prefix on."""

    def __init__(self, store: ObjectStore, location: str, config: CheckpointingConfig) -> None:
        """``store`` is any of obstore's; whoever made it has given it its prefix."""
        self.location = location
        self._store = store
        self._files_max = config.files_max

    async def write(self, path: str, blocks: Iterable[bytes]) -> None:
        """As ``Storage.write``."""
        with self._explained("write", path):
            await obstore.put_async(self._store, path, _one_by_one(blocks))

    async def create(self, path: str, content: bytes) -> bool:
        """As ``Storage.create``."""
        with self._explained("write", path):
            try:
                await obstore.put_async(self._store, path, content, mode="create")
            except AlreadyExistsError:
                return False
        return True

    async def read(self, path: str, bytes_max: int) -> bytes:
        """As ``Storage.read``."""
        with self._explained("read", path):
            found = await obstore.get_async(self._store, path)
            if found.meta["size"] > bytes_max:
                raise CheckpointStorageError(
                    f"{self.location}/{path} is larger than the {bytes_max} bytes that are allowed"
                )
            return bytes(await found.bytes_async())

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """As ``Storage.read_range``."""
        with self._explained("read", path):
            size = (await obstore.head_async(self._store, path))["size"]
            if start >= size or not length:
                return b""
            found = await obstore.get_range_async(self._store, path, start=start, length=length)
            return bytes(found)

    async def files(self, directory: str = "") -> dict[str, int]:
        """As ``Storage.files``."""
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
        """As ``Storage.directories``: what stands before the next ``/`` in keys."""
        with self._explained("list", directory):
            found = await obstore.list_with_delimiter_async(self._store, prefix=directory or None)
        return sorted(prefix.rpartition("/")[2] for prefix in found["common_prefixes"])

    async def delete(self, path: str) -> None:
        """As ``Storage.delete``."""
        with self._explained("remove", path), suppress(FileNotFoundError):
            await obstore.delete_async(self._store, path)

    async def delete_unfinished(self, directory: str) -> None:
        """As ``Storage.delete_unfinished``: what is not complete is no object, and none is left."""

    async def delete_directory(self, directory: str) -> None:
        """As ``Storage.delete_directory``."""
        with self._explained("remove", directory):
            async for listed in obstore.list(self._store, prefix=directory):
                for one in listed:
                    with suppress(FileNotFoundError):
                        await obstore.delete_async(self._store, one["path"])

    @contextmanager
    def _explained(self, done: str, path: str) -> Iterator[None]:
        """Turn what obstore says into an error that names the path."""
        try:
            yield
        except FileNotFoundError as cause:
            raise CheckpointNotFoundError(
                f"cannot {done} {self.location}/{path}: there is no such object"
            ) from cause
        except (BaseError, OSError) as cause:
            reason = str(cause).partition("\n")[0]  # what follows is for who debugs obstore
            raise CheckpointStorageError(
                f"cannot {done} {self.location}/{path}: {reason}"
            ) from cause


async def _one_by_one(blocks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block
