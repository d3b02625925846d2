"""Files that come with a job: Python modules, wheels and archives, in transit and unpacked.

Theory of operation
-------------------
The client reads the files and puts them in front of the pickled graph, which the coordinator
forwards unchanged. Each worker that runs a part of the job unpacks them into a temporary directory
before it unpickles the graph, and removes them when nothing of the job is left there. A file of
several jobs is unpacked once, since files are identified by their contents.

A module, a zip or a wheel is put at the end of the worker's own path, so that it never shadows a
library. A module is refused if it could be imported already, or if another job on the worker has a
module of that name with other contents. Otherwise one job would silently get the code of the other.
When a file is removed, modules imported from it are removed from ``sys.modules``.

An archive is untrusted data. Paths that leave its directory and links are refused. Its unpacked
size is counted while it is written, and the sizes that it declares are ignored.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import lzma
import os
import shutil
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import msgpack

from flinknet import machine
from flinknet.config import ClusterConfig
from flinknet.config.locked_directory import LockedDirectory, remove_leftovers
from flinknet.config.temporary_directory import temporary_directory
from flinknet.errors import ConfigurationError
from flinknet.functions.archives import ARCHIVES

__all__ = ["FilesInUse", "JobFile", "check_files", "pack_job", "read_job_files", "unpack_job"]

_PREFIX = "flinknet-files-"
_MAGIC = b"flinknet files\n"
"""Precedes the files; no pickle starts with it."""
_LENGTH = struct.Struct(">I")
_COPY_BYTES = 64 * 1024
_PYTHON = (".py", ".zip", ".whl")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_UNREADABLE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    RuntimeError,  # It is encrypted, or compressed in an unknown way.
    OSError,  # A file has the name of a directory, or the disk is full.
)
"""Errors of an archive that cannot be unpacked."""

Kind = Literal["python", "archive"]


@dataclass(frozen=True, slots=True)
class JobFile:
    """One file that a job brings."""

    kind: Kind
    name: str
    """The file's own name."""
    target: str
    """For an archive, the directory into which it is unpacked."""
    content: bytes = field(repr=False)

    @property
    def key(self) -> str:
        """A key that is equal for files with the same use and the same contents."""
        name = f"{self.kind} {self.name} {self.target}\n"
        return hashlib.sha256(name.encode() + self.content).hexdigest()


def read_job_files(python_files: Sequence[str], archives: Sequence[str]) -> tuple[JobFile, ...]:
    """Read the files at these paths.

    ``#NAME`` after the path of an archive sets its directory, instead of the archive's own name.
    Raises ConfigurationError if a file cannot be read, or is of no known kind.
    """
    files = []
    for path in python_files:
        if not path.endswith(_PYTHON):
            raise ConfigurationError(
                f"{path} is not a file of Python code: give modules (.py), zips (.zip) and wheels "
                "(.whl)"
            )
        files.append(JobFile("python", Path(path).name, "", _content(path)))
    for written in archives:
        path, _, target = written.partition("#")
        if not path.endswith((".zip", *_TAR)):
            raise ConfigurationError(
                f"{path} is not an archive: give a .zip, or one of {', '.join(_TAR)}"
            )
        target = target or Path(path).name
        if PurePosixPath(target).name != target or target == "..":
            raise ConfigurationError(f"{target!r} of {written} is not the name of a directory")
        files.append(JobFile("archive", Path(path).name, target, _content(path)))
    return tuple(files)


def _content(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error


def pack_job(files: Sequence[JobFile], graph: bytes) -> bytes:
    """Put the files in front of the pickled graph; without files it is unchanged."""
    if not files:
        return graph
    header = msgpack.packb([[one.kind, one.name, one.target, len(one.content)] for one in files])
    contents = [one.content for one in files]
    return b"".join([_MAGIC, _LENGTH.pack(len(header)), header, *contents, graph])


def unpack_job(job: bytes) -> tuple[tuple[JobFile, ...], bytes]:
    """Return the files and the graph that ``pack_job`` has joined.

    Raises ConfigurationError if the files are damaged.
    """
    described, at = _described(job)
    files = []
    for kind, name, target, size in described:
        files.append(JobFile(kind, name, target, job[at : at + size]))
        at += size
    return tuple(files), job[at:]


def check_files(job: bytes, header_bytes_max: int | None) -> None:
    """Raise ConfigurationError unless ``unpack_job`` would find complete files and a graph.

    The length of the files' header is checked before the header is decoded.
    """
    _described(job, header_bytes_max)


def _described(
    job: bytes, header_bytes_max: int | None = None
) -> tuple[list[tuple[Kind, str, str, int]], int]:
    """Return kind, name, target and size of each file, and the offset of the first file."""
    if not job.startswith(_MAGIC):
        return [], 0
    begin = len(_MAGIC) + _LENGTH.size
    try:
        (length,) = _LENGTH.unpack_from(job, len(_MAGIC))
        if header_bytes_max is not None and length > header_bytes_max:
            raise ValueError(f"{length} bytes describe them, more than {header_bytes_max}")
        at = begin + length
        described = [_file(*fields) for fields in msgpack.unpackb(job[begin:at])]
    except Exception as error:
        raise _damaged(str(error)) from error
    if at + sum(size for *_, size in described) >= len(job):
        raise _damaged("they end too early")
    return described, at


def _file(kind: object, name: object, target: object, size: object) -> tuple[Kind, str, str, int]:
    if kind != "python" and kind != "archive":
        raise ValueError(f"{kind!r} is not a kind of file")
    if not (isinstance(name, str) and isinstance(target, str)):
        raise TypeError("a name is not a string")
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"{size!r} is not a size")
    return kind, name, target, size


def _damaged(why: str) -> ConfigurationError:
    return ConfigurationError(f"the files that come with the job are damaged: {why}; submit again")


@dataclass(slots=True)
class _Unpacked:
    directory: Path
    modules: frozenset[str]
    """The names by which its modules are imported."""
    users: int = 1


class FilesInUse:
    """The files of the jobs that run in this process.

    Any thread may call it. Calls run one after the other.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._lock = machine.RLock()
        self._base: LockedDirectory | None = None
        self._unpacked: dict[str, _Unpacked] = {}
        self._giving_back: set[asyncio.Future[None]] = set()
        """Removals that run in threads, also after their call has been cancelled."""

    def take(self, files: Sequence[JobFile]) -> dict[str, Path]:
        """Provide files until ``give_back``; return the directories of archives by their names.

        Raises ConfigurationError for an invalid file. In that case none of the files is provided.
        """
        budget = _Budget(self._config)
        taken: list[JobFile] = []
        with self._lock:
            try:
                for file in files:
                    if file.key in self._unpacked:
                        self._unpacked[file.key].users += 1
                    else:
                        self._unpacked[file.key] = self._unpack(file, budget)
                    taken.append(file)
            except BaseException:
                self.give_back(taken)
                raise
            return {
                file.target: self._unpacked[file.key].directory
                for file in files
                if file.kind == "archive"
            }

    async def take_in_thread(self, files: Sequence[JobFile]) -> dict[str, Path]:
        """Run ``take``, which may unpack for long, in a thread.

        If this call is cancelled the thread goes on, and the files that it takes are given back at
        once.
        """
        taking = asyncio.ensure_future(asyncio.to_thread(self.take, files))

        def give_back(done: asyncio.Future[dict[str, Path]]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._begin_to_give_back(files)

        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(give_back)
            raise

    def give_back(self, files: Sequence[JobFile]) -> None:
        """Remove files that no other job uses, and the modules imported from them."""
        with self._lock:
            for file in files:
                unpacked = self._unpacked[file.key]
                unpacked.users -= 1
                if not unpacked.users:
                    del self._unpacked[file.key]
                    _remove(unpacked.directory)
            if self._base is not None and not self._unpacked:
                self._base.close()
                self._base = None

    async def give_back_in_thread(self, files: Sequence[JobFile]) -> None:
        """Run ``give_back`` in a thread.

        It may remove many files, and waits while other files are unpacked. This call ends only when
        ``give_back`` has ended, even if it is cancelled.
        """
        if not files:
            return
        giving_back = self._begin_to_give_back(files)
        try:
            await asyncio.shield(giving_back)
        except asyncio.CancelledError:
            while not giving_back.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(giving_back)
            raise

    def _begin_to_give_back(self, files: Sequence[JobFile]) -> asyncio.Future[None]:
        giving_back = asyncio.ensure_future(asyncio.to_thread(self.give_back, files))
        self._giving_back.add(giving_back)
        giving_back.add_done_callback(self._giving_back.discard)
        return giving_back

    @contextmanager
    def used(self, files: Sequence[JobFile]) -> Iterator[None]:
        """Provide the files inside the block."""
        archives = self.take(files)
        try:
            with _found(archives):
                yield
        finally:
            self.give_back(files)

    @asynccontextmanager
    async def used_in_task(self, files: Sequence[JobFile]) -> AsyncIterator[None]:
        """Provide the files inside the block, without blocking the event loop."""
        archives = await self.take_in_thread(files)
        try:
            with _found(archives):
                yield
        finally:
            await self.give_back_in_thread(files)

    def _unpack(self, file: JobFile, budget: _Budget) -> _Unpacked:
        if PurePosixPath(file.name).name != file.name:
            raise ConfigurationError(f"{file.name!r} is not the name of a file")
        if self._base is None:
            base = Path(temporary_directory())
            remove_leftovers(_PREFIX, base)
            self._base = LockedDirectory(_PREFIX, base)
        directory = self._base.path / file.key[:32]
        directory.mkdir()
        try:
            if file.kind == "archive" or not file.name.endswith(".py"):
                budget.unpack(file, directory)
            else:
                budget.write(file, directory / file.name, BytesIO(file.content))
            modules = frozenset(_modules(directory) if file.kind == "python" else ())
            self._check_modules(file, modules, directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        if file.kind == "python":
            # At the end of the path, so that no file of a job shadows a library.
            sys.path.append(str(directory))
            importlib.invalidate_caches()
        return _Unpacked(directory, modules)

    def _check_modules(self, file: JobFile, modules: frozenset[str], directory: Path) -> None:
        for other in self._unpacked.values():
            if both := sorted(modules & other.modules):
                raise ConfigurationError(
                    f"{file.name} has the module {both[0]}, but another file of this job or of "
                    "another running one has a different module of that name: rename the module, "
                    "or wait for the end of the other job"
                )
        for name in sorted(modules):
            place = _place(name)
            if place is not None and not _is_same(name, Path(place), directory):
                raise ConfigurationError(
                    f"{file.name} has the module {name}, which is already installed as {place}: "
                    "the job would import that one, so leave the file out or rename the module"
                )


@contextmanager
def _found(archives: Mapping[str, Path]) -> Iterator[None]:
    """Let ``job_archive`` find these directories inside the block."""
    token = ARCHIVES.set({**ARCHIVES.get(), **archives})
    try:
        yield
    finally:
        ARCHIVES.reset(token)


class _Budget:
    """The size and number of files to which the files of one job may still unpack."""

    def __init__(self, config: ClusterConfig) -> None:
        self._bytes_max = self._bytes = config.job_files_unpacked_bytes_max
        self._count_max = self._count = config.job_files_count_max

    def unpack(self, file: JobFile, directory: Path) -> None:
        """Unpack an archive."""
        try:
            if file.name.endswith(_TAR):
                self._unpack_tar(file, directory)
            else:
                self._unpack_zip(file, directory)
        except _UNREADABLE as error:
            raise ConfigurationError(f"{file.name} cannot be unpacked: {error}") from error

    def write(self, file: JobFile, place: Path, source: IO[bytes]) -> None:
        """Copy one member, within the budget."""
        self._count -= 1
        if self._count < 0:
            raise ConfigurationError(
                f"the job has more files than cluster.job_files_count_max = {self._count_max}, "
                f"which {file.name} exceeds: send fewer, or raise that option"
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        # If several members have one name, the last one counts.
        with place.open("wb") as copy:
            while data := source.read(_COPY_BYTES):
                self._bytes -= len(data)
                if self._bytes < 0:
                    raise ConfigurationError(
                        "the files of the job unpack to more than "
                        f"cluster.job_files_unpacked_bytes_max = {self._bytes_max}, which "
                        f"{file.name} exceeds: send less, or raise that option"
                    )
                copy.write(data)

    def _unpack_zip(self, file: JobFile, directory: Path) -> None:
        with zipfile.ZipFile(BytesIO(file.content)) as archive:
            for member in archive.infolist():
                place = _inside(file, directory, member.filename)
                # The upper half of the attributes is a Unix mode; links must be refused.
                if (member.external_attr >> 16) & 0o170000 == 0o120000:
                    raise ConfigurationError(f"{file.name} has a link, {member.filename!r}")
                if not member.is_dir():
                    with archive.open(member) as source:
                        self.write(file, place, source)

    def _unpack_tar(self, file: JobFile, directory: Path) -> None:
        with tarfile.open(fileobj=BytesIO(file.content)) as archive:
            for member in archive:
                place = _inside(file, directory, member.name)
                source = archive.extractfile(member) if member.isreg() else None
                if source is not None:
                    self.write(file, place, source)
                elif not member.isdir():
                    raise ConfigurationError(
                        f"{file.name} has {member.name!r}, which is neither a file nor a directory"
                    )


def _inside(file: JobFile, directory: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise ConfigurationError(f"{file.name} has the path {name!r}, which leaves its directory")
    return directory / path


def _modules(directory: Path) -> Iterator[str]:
    for entry in directory.iterdir():
        name = entry.name.partition(".")[0] if entry.is_file() else entry.name
        is_module = entry.suffix in (".py", ".so") if entry.is_file() else any(entry.rglob("*.py"))
        if is_module and name.isidentifier():
            yield name


def _is_same(name: str, place: Path, directory: Path) -> bool:
    """Return whether the existing module has the same code.

    A worker that runs beside the program can import the module from the program's own directory.
    """
    own = directory / f"{name}.py"
    own = own if own.is_file() else directory / name / "__init__.py"
    with suppress(OSError):
        return own.read_bytes() == place.read_bytes()
    return False


def _place(name: str) -> str | None:
    """Return the file from which a module of that name would be imported, or None."""
    with suppress(ValueError, ImportError):
        spec = importlib.util.find_spec(name)
        if spec is not None:
            return str(spec.origin or list(spec.submodule_search_locations or ())[:1])
    return None


def _remove(directory: Path) -> None:
    if str(directory) in sys.path:
        sys.path.remove(str(directory))
    for name, module in list(sys.modules.items()):
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if any(place and place.startswith(f"{directory}{os.sep}") for place in places):
            sys.modules.pop(name, None)
    shutil.rmtree(directory, ignore_errors=True)
    importlib.invalidate_caches()
