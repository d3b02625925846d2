"""Which files a source reads, and how they are opened.

They are looked up once, when the source is made, so that every subtask sees the same ones in the
same order. Those of this machine are read on the worker's event loop, a batch at a time; those of a
store in a thread, because nobody knows how long it takes to answer.
"""

from __future__ import annotations

import asyncio
import bz2
import gzip
import lzma
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from flinknet.datastream.connectors.locations import Location, RemoteLocation, location_of
from flinknet.errors import ConfigurationError

__all__ = ["batches_of_files", "input_files", "kind_of", "open_decompressed"]

Paths = str | Path | Sequence[str | Path]

HIDDEN = ("_", ".")
"""What Spark, Hadoop and flinknet itself keep beside results begins with one of these."""

DECOMPRESSED: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda opened: gzip.GzipFile(fileobj=opened),
    ".gzip": lambda opened: gzip.GzipFile(fileobj=opened),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}


def input_files(paths: Paths, suffixes: Sequence[str], kind: str) -> tuple[Location, ...]:
    """Return the files that are named, and those of directories that are: everything below them
    with one of the suffixes (any, if there is none) and of which no name begins with "_" or ".".

    ConfigurationError if a path has none; ``kind`` is what they are called then.
    """
    named = [paths] if isinstance(paths, str | Path) else paths
    return tuple(file for one in named for file in _files_of(location_of(one), suffixes, kind))


def _files_of(location: Location, suffixes: Sequence[str], kind: str) -> list[Location]:
    if isinstance(location, RemoteLocation):
        filesystem, path = location.filesystem(), location.path
        filesystem.invalidate_cache()
        is_file, exists = filesystem.isfile(path), filesystem.exists(path)
        below: dict[str, Location] = {
            one.removeprefix(path): RemoteLocation(filesystem.unstrip_protocol(one))
            for one in ([] if is_file else filesystem.find(path))
        }
    else:
        location = location.absolute()
        is_file, exists = location.is_file(), location.exists()
        below = {
            file.relative_to(location).as_posix(): file
            for file in location.rglob("*")
            if file.is_file()
        }
    if is_file:
        return [location]
    found = [
        below[name]
        for name in sorted(below, key=lambda name: PurePosixPath(name).parts)
        if (not suffixes or kind_of(below[name]) in suffixes)
        and not any(part.startswith(HIDDEN) for part in PurePosixPath(name.lstrip("/")).parts)
    ]
    if not found:
        problem = f"holds no {kind}" if exists else "does not exist"
        raise ConfigurationError(f"{location} {problem}: choose another path for the source")
    return found


def kind_of(file: Location) -> str:
    """Return the suffix that says what is in it, whether it is compressed or not."""
    name = PurePosixPath(file.name)
    return PurePosixPath(name.stem).suffix if name.suffix in DECOMPRESSED else name.suffix


@contextmanager
def open_decompressed(file: Location) -> Iterator[BinaryIO]:
    """Open a file to be read, as what it was before it was compressed, if its suffix says so."""
    decompress = DECOMPRESSED.get(PurePosixPath(file.name).suffix)
    with file.open() if isinstance(file, RemoteLocation) else file.open("rb") as opened:
        if decompress is None:
            yield opened
            return
        with decompress(opened) as content:
            yield content


Reading = Generator[list[Any], None, None]


def batches_of_files(files: Sequence[Location], reading: Reading) -> Reading | AsyncIterator[Any]:
    """Return what reads the files, in a thread if one of them is elsewhere."""
    if any(isinstance(file, RemoteLocation) for file in files):
        return _in_thread(reading)
    return reading


async def _in_thread(reading: Reading) -> AsyncIterator[list[Any]]:
    """Read on; whoever ends early does not wait for what the thread waits for."""
    step: asyncio.Future[list[Any] | None] | None = None

    def close(ended: asyncio.Future[list[Any] | None]) -> None:
        if not ended.cancelled():  # otherwise the thread still reads
            ended.exception()
            reading.close()

    try:
        while True:
            step = asyncio.ensure_future(asyncio.to_thread(next, reading, None))
            batch = await asyncio.shield(step)
            if batch is None:
                return
            yield batch
    finally:
        if step is not None:
            step.add_done_callback(close)
