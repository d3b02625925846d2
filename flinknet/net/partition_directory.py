"""Names of partitions in a directory of files, where each producer has a file with its address.

Theory of operation. Below the directory there is a folder for each job, in it one for each
partition, and in that a file for each worker that produces one of that name, with its address. The
producer keeps the file locked as long as it lives, however it ends. So a file that is not locked is
of a process that is gone, and the next process that finds the file removes it. A file gets its name
when it is locked, and no two files have the same name: a process that removes the file of an
earlier worker cannot hit the file that this worker has published since it was started again. The
directory is of this machine, as all addresses are, and of a file system that has locks.

The error of a producer that failed before its readers had come stands in a file beside these
(``failed-...``), with the numbers of their subpartitions. Each reader takes its number away. The
error means nothing when it is older than ``ended_partitions_remembered_ms``, or is of the future
because the clock was set back; the next process that finds it removes it. Each worker has one such
file for each name, and a folder has at most ``ended_partitions_remembered_max`` of them.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from flinknet import machine
from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError, RemoteError, remote_error
from flinknet.net.partition_names import FailedProducer, PartitionNames, Withdraw

__all__ = ["PartitionDirectory", "Publication"]

_UNNAMED = ".new-"
_FAILED = "failed-"

_FAILURE_BYTES_MAX = 1 << 24
"""More than the text of an error and the numbers of all subpartitions take."""

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
        super().__init__(job, str(Path(place)), config)
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

    async def _publish(self, name: str, worker_id: str, address: str) -> Withdraw:
        publication = self.publish(name, worker_id, address)
        try:
            self._failure_of(name, worker_id).unlink(missing_ok=True)
        except OSError as error:
            publication.close()
            raise self._unusable(error) from error

        async def withdraw(failed: FailedProducer | None) -> None:
            with closing(publication):
                if failed is not None:
                    self._leave(name, worker_id, failed)

        return withdraw

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
        """Leave the error for readers that come later.

        If the file cannot be written the error is lost here; the producer has raised it itself.
        """
        path = self._failure_of(name, worker_id)
        with suppress(OSError):
            descriptor, unnamed = tempfile.mkstemp(prefix=_UNNAMED, dir=path.parent)
            try:
                with os.fdopen(descriptor, "w") as file:
                    json.dump(failed.as_json(), file)
                Path(unnamed).rename(path)
            except OSError:
                Path(unnamed).unlink(missing_ok=True)
                raise
            others = [each for each in self._files(name) if each.name.startswith(_FAILED)]
            others.sort(key=_age_s, reverse=True)
            remembered_max = self._config.ended_partitions_remembered_max
            for old in others[: max(0, len(others) - remembered_max)]:
                old.unlink(missing_ok=True)

    def _take_failure(self, name: str, subpartition: int) -> RemoteError | None:
        """Remove the errors that were left for the reader of a subpartition, and return one."""
        found: RemoteError | None = None
        for path in self._files(name):
            if not path.name.startswith(_FAILED):
                continue
            with suppress(OSError, ValueError, KeyError), _locked(path) as descriptor:
                age_s = _age_s(path)
                if not 0 <= age_s * 1000 <= self._config.ended_partitions_remembered_ms:
                    path.unlink(missing_ok=True)
                    continue
                said = json.loads(os.read(descriptor, _FAILURE_BYTES_MAX))
                unread = said["unread"]
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
    """Return how long ago a file was written; 0 if it is gone."""
    try:
        return machine.wall_time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Lock a file against other processes. Raises FileNotFoundError if it is gone."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not os.fstat(descriptor).st_nlink:  # the process that had the lock has removed it
            raise FileNotFoundError(f"{path} is gone")
        yield descriptor
    finally:
        os.close(descriptor)


def _write_anew(path: Path, descriptor: int, said: dict[str, object]) -> None:
    """Replace the content of a file, which keeps its time; remove it if no reader is left."""
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
