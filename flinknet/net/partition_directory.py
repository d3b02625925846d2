"""Names of partitions in a directory of files: who produces one says where, in a file there.

Theory of operation. Below the directory there is a folder for each job, in it one for each
partition, and in that a file for each worker that produces one of that name, with its address. Its
producer keeps the file locked as long as it lives, however it ends: a file that is not locked is
what a process has left that is gone, and is removed by whoever finds it. A file gets its name when
it is locked, and no two have the same one: who removes what a worker has left cannot hit what the
worker has published since it was started again. The directory is of this machine, as all addresses
are, and of a file system that has locks.

The error of a producer that failed before its readers had come stands in a file beside these
(``failed-...``), with the subpartitions for whose readers it is left: each takes its own away. It
means nothing when it is older than ``ended_partitions_remembered_ms``, or comes from the future
because the clock was set back, and is removed by whichever process finds it. Each worker has one
such file for each name, and a folder at most ``ended_partitions_remembered_max`` of them.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError, RemoteError, remote_error
from flinknet.net.partition_names import FailedProducer, PartitionNames

__all__ = ["PartitionDirectory", "Publication"]

_UNNAMED = ".new-"
_FAILED = "failed-"

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

    def __init__(
        self, place: str | os.PathLike[str], job: str, config: NetworkConfig | None = None
    ) -> None:
        super().__init__(job, str(Path(place)))
        config = config if config is not None else NetworkConfig()
        self._remembered_max = config.ended_partitions_remembered_max
        self._remembered_s = config.ended_partitions_remembered_ms / 1000
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
        files = (path for path in self._files(name) if not path.name.startswith(_FAILED))
        return [address for path in files if (address := _address_in(path)) is not None]

    def _files(self, name: str) -> list[Path]:
        """The files of a partition, in the order of the workers' ids."""
        try:
            files = self._folder(name).iterdir()
            return sorted(path for path in files if not path.name.startswith(_UNNAMED))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from error

    @asynccontextmanager
    async def published(
        self,
        name: str,
        worker_id: str,
        address: str,
        failure: Callable[[], FailedProducer | None] = lambda: None,
    ) -> AsyncIterator[None]:
        with closing(self.publish(name, worker_id, address)):
            self._failure_of(name, worker_id).unlink(missing_ok=True)
            try:
                yield
            finally:
                failed = failure()
                if failed is not None:
                    self._leave(name, worker_id, failed)

    async def look(
        self, name: str, producers: int, wait_s: float, subpartition: int = 0
    ) -> list[str]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            found = self.addresses(name)
            failure = self._take_failure(name, subpartition)
            if len(found) >= producers:
                return found
            if failure is not None:
                raise failure
            if loop.time() >= until:
                return found
            await asyncio.sleep(_LOOK_AGAIN_S)

    # -- producers that failed --------------------------------------------------------------------

    def _failure_of(self, name: str, worker_id: str) -> Path:
        return self._folder(name) / f"{_FAILED}{_file_name('worker', worker_id)}"

    def _leave(self, name: str, worker_id: str, failed: FailedProducer) -> None:
        """Leave the error for readers that come later; without a file it is lost, as it was said
        where it was raised."""
        path = self._failure_of(name, worker_id)
        with suppress(OSError):
            descriptor, unnamed = tempfile.mkstemp(prefix=_UNNAMED, dir=path.parent)
            with os.fdopen(descriptor, "w") as file:
                json.dump(failed.as_json(), file)
            Path(unnamed).rename(path)
            others = [each for each in self._files(name) if each.name.startswith(_FAILED)]
            others.sort(key=_age_s, reverse=True)
            for old in others[: max(0, len(others) - self._remembered_max)]:
                old.unlink(missing_ok=True)

    def _take_failure(self, name: str, subpartition: int) -> RemoteError | None:
        """Return an error that was left for the reader of a subpartition, and take all that were
        left for it away."""
        found: RemoteError | None = None
        for path in self._files(name):
            if not path.name.startswith(_FAILED):
                continue
            with suppress(OSError, ValueError, KeyError), _locked(path) as descriptor:
                age_s = _age_s(path)
                said = json.loads(os.read(descriptor, 1 << 24))
                unread = said["unread"]
                if not 0 <= age_s <= self._remembered_s:
                    path.unlink(missing_ok=True)
                    continue
                if unread is not None and subpartition not in unread:
                    continue
                if found is None:
                    found = remote_error(said["code"], f"{said['text']} ({age_s:.0f} s ago)")
                if unread is not None:
                    unread.remove(subpartition)
                    _write_anew(path, descriptor, said)
        return found

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


def _age_s(path: Path) -> float:
    """How long ago a file was renamed to what it is called, by the clock of the file system."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Have a file to oneself; OSError if it is gone."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _write_anew(path: Path, descriptor: int, said: dict[str, object]) -> None:
    """Replace what stands in a file, which keeps its time; without readers it is not needed."""
    if not said["unread"]:
        path.unlink(missing_ok=True)
        return
    status = os.fstat(descriptor)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(said).encode(), 0)
    os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))


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
