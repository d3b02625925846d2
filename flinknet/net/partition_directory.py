"""Partition names in a directory, where each producer has a file with its address.

The directory has a folder for each job, with a folder for each partition name. In the latter, each
worker that produces such a partition has a file. The file contains the address. The producer
keeps it locked while it lives, and the system releases the lock however the process ends. An
unlocked file therefore belongs to a process that is gone, and the next process that finds the file
removes it. A file is renamed into place after it is locked, and no two files have the same name. A
process that removes the file of an earlier worker thus cannot remove the file of the worker's
restart. The directory must be on this machine, as all its addresses are, and its file system must
support locks.

A producer that failed before its readers came leaves its error in another file (``failed-...``),
with the numbers of their subpartitions. Each reader removes its number. The error is void when it
is older than ``ended_partitions_remembered_ms``, or in the future because the clock was set back.
The next process that finds a void error removes it. Each worker has one such file for each name,
and a folder has at most ``ended_partitions_remembered_max`` of them.
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
"""Exceeds the size of an error text and the numbers of all subpartitions."""

_LOOK_AGAIN_S = 0.05
"""Time in seconds between two looks at a folder: shorter than a program's start, and cheap."""


class Publication:
    """File with the address of a partition's producer; ``close`` withdraws it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def close(self) -> None:
        """Withdraw the address; idempotent."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


class PartitionDirectory(PartitionNames):
    """Published partitions of one job in the directory ``place``, which is created if missing."""

    def __init__(
        self, place: str | os.PathLike[str], job: str, config: NetworkConfig | None = None
    ) -> None:
        super().__init__(job, str(Path(place)), config)
        self._folder_of_job = Path(place) / _file_name("job", job)

    def publish(self, name: str, worker_id: str, address: str) -> Publication:
        """Publish a worker as a producer of a partition.

        Raises:
            ConfigurationError: If the file cannot be written.
        """
        folder = self._folder(name)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, unnamed = tempfile.mkstemp(prefix=_UNNAMED, dir=folder)
        except OSError as error:
            raise self._unusable(error) from error
        # Locked before it gets its name, so that no process takes it for abandoned.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, address.encode())
        unique = Path(unnamed).name.removeprefix(_UNNAMED)
        path = Path(unnamed).rename(folder / f"{_file_name('worker', worker_id)}.{unique}")
        return Publication(path, descriptor)

    def addresses(self, name: str) -> list[str]:
        """Return the addresses of the partition's current producers, ordered by worker id."""
        files = (path for path in self._files(name) if not path.name.startswith(_FAILED))
        return [address for path in files if (address := _address_in(path)) is not None]

    def _files(self, name: str) -> list[Path]:
        """Return the files of a partition, ordered by worker id."""
        try:
            files = self._folder(name).iterdir()
            return sorted(path for path in files if not path.name.startswith(_UNNAMED))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from error

    async def _publish(self, name: str, worker_id: str, address: str) -> Withdraw:
        publication = self.publish(name, worker_id, address)
        # The worker produces again, so an error that it left before is void.
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

    async def look_up(
        self, name: str, producers: int, wait_s: float, subpartition: int = 0
    ) -> list[str]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            found = self.addresses(name)
            # Removed even if all producers are found, because it is void then.
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
        """Leave the error for later readers.

        If the file cannot be written, the error is lost here, but the producer has raised it.
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
        """Remove the errors left for the reader of a subpartition, and return the first."""
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
            f"{error.strerror or error}; choose a directory where this process may write"
        )


def _file_name(kind: str, name: str) -> str:
    """Return a file name for any text; it cannot lead out of the directory."""
    return f"{kind}-{quote(name, safe='')}"


def _age_s(path: Path) -> float:
    """Return the age of a file in seconds; 0 if it is gone."""
    try:
        return machine.wall_time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Lock a file against other processes.

    Raises:
        FileNotFoundError: If the file is gone.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not os.fstat(descriptor).st_nlink:  # removed by the process that had the lock
            raise FileNotFoundError(f"{path} is gone")
        yield descriptor
    finally:
        os.close(descriptor)


def _write_anew(path: Path, descriptor: int, said: dict[str, object]) -> None:
    """Replace the content of a file and keep its time; remove it if no reader is left."""
    if not said["unread"]:
        path.unlink(missing_ok=True)
        return
    status = os.fstat(descriptor)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(said).encode(), 0)
    os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))


def _address_in(path: Path) -> str | None:
    """Return the address in a file; remove the file and return None if its writer is gone."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            # Succeeds only if no live writer holds the lock.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return os.read(descriptor, 1024).decode()
        finally:
            os.close(descriptor)
    return None
