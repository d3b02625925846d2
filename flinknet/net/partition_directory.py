"""Names of partitions in a directory of files: who produces one says where, in a file there.

Theory of operation. Below the directory there is a folder for each job, in it one for each
partition, and in that a file for each worker that produces one of that name, with its address. Its
producer keeps the file locked as long as it lives, however it ends: a file that is not locked is
what a process has left that is gone, and is removed by whoever finds it. A file gets its name when
it is locked, and no two have the same one: who removes what a worker has left cannot hit what the
worker has published since it was started again. The directory is of this machine, as all addresses
are, and of a file system that has locks.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from urllib.parse import quote

from flinknet.errors import ConfigurationError
from flinknet.net.partition_names import PartitionNames

__all__ = ["PartitionDirectory", "Publication"]

_UNNAMED = ".new-"

_LOOK_AGAIN_S = 0.05
"""Between two looks at a folder: shorter than a program takes to start, and next to no work."""


class Publication:
    """The file that says where a partition is; ``close`` takes it back."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def close(self) -> None:
        """Say no more that the partition is there; idempotent."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


class PartitionDirectory(PartitionNames):
    """The partitions of one job in the directory at ``place``, which is made if it is not there."""

    def __init__(self, place: str | os.PathLike[str], job: str) -> None:
        super().__init__(job, str(Path(place)))
        self._folder_of_job = Path(place) / _file_name("job", job)

    def publish(self, name: str, worker_id: str, address: str) -> Publication:
        """Say that a worker produces a partition. Raises ConfigurationError if it cannot be
        written."""
        folder = self._folder(name)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, unnamed = tempfile.mkstemp(prefix=_UNNAMED, dir=folder)
        except OSError as error:
            raise self._unusable(error) from error
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, address.encode())
        unique = Path(unnamed).name.removeprefix(_UNNAMED)
        path = Path(unnamed).rename(folder / f"{_file_name('worker', worker_id)}.{unique}")
        return Publication(path, descriptor)

    def addresses(self, name: str) -> list[str]:
        """Where the partition is produced now, in the order of the workers' ids."""
        folder = self._folder(name)
        try:
            files = sorted(path for path in folder.iterdir() if not path.name.startswith(_UNNAMED))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from error
        return [address for path in files if (address := _address_in(path)) is not None]

    @asynccontextmanager
    async def published(self, name: str, worker_id: str, address: str) -> AsyncIterator[None]:
        with closing(self.publish(name, worker_id, address)):
            yield

    async def look(self, name: str, producers: int, wait_s: float) -> list[str]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            found = self.addresses(name)
            if len(found) >= producers or loop.time() >= until:
                return found
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _folder(self, name: str) -> Path:
        return self._folder_of_job / _file_name("partition", name)

    def _unusable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"the directory {self._place} cannot be used for names of partitions: "
            f"{error.strerror or error}; choose one where this process may write"
        )


def _file_name(kind: str, name: str) -> str:
    """Any name as that of a file, which cannot be a way out of the directory."""
    return f"{kind}-{quote(name, safe='')}"


def _address_in(path: Path) -> str | None:
    """What a file says, None if its writer is gone; the file goes, too."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return os.read(descriptor, 1024).decode()
        finally:
            os.close(descriptor)
    return None
