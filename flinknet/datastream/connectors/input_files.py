"""The files that a source reads, and how they are opened.

Files are looked up once, when the source is made, so that every subtask sees the same files in the
same order. Local files are read on the worker's event loop in batches. Files in a store are read in
a thread, because the store's response time is unknown.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from flinknet.datastream.connectors.compressed_files import UNSUPPORTED, kind_of, suffix_of
from flinknet.datastream.connectors.locations import Location, RemoteLocation, location_of
from flinknet.errors import ConfigurationError, FlinknetError
from flinknet.texts import text_of

__all__ = ["UnreadableError", "batches_of_files", "input_files", "naming"]

Paths = str | Path | Sequence[str | Path]

HIDDEN = ("_", ".")
"""First characters of names that Spark, Hadoop and flinknet keep beside results."""


class UnreadableError(ValueError):
    """A file, or part of it, cannot be read; the message names the file."""


@contextmanager
def naming(file: Location, place: str = "") -> Iterator[None]:
    """Add the name of the file, and ``place``, to errors from reading it."""
    try:
        yield
    except (FlinknetError, UnreadableError):
        raise
    except Exception as error:
        raise UnreadableError(f"{file}{place}: {type(error).__name__}: {text_of(error)}") from error


def input_files(paths: Paths, suffixes: Sequence[str], kind: str) -> tuple[Location, ...]:
    """Return the named files, and the files in the named directories.

    A directory stands for all files below it with one of the suffixes (any suffix if ``suffixes``
    is empty), except paths in which a name begins with "_" or ".". Suffixes may be in capital
    letters. Links are followed; a directory with several paths is read once. ``kind`` describes
    such files in messages.

    Raises ConfigurationError if ``paths`` is empty or one of them has no such file. Raises it as
    well if a file below a path cannot be read: its compression is not supported, or it is a
    dangling link.
    """
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    if not named:
        raise ConfigurationError(
            f"a source was given an empty list, so there is no {kind} to read: name at least one "
            "path, and check that the pattern of the list matches files"
        )
    return tuple(file for one in named for file in _files_of(location_of(one), suffixes, kind))


def _files_of(location: Location, suffixes: Sequence[str], kind: str) -> list[Location]:
    if isinstance(location, RemoteLocation):
        filesystem, path = location.filesystem(), location.path
        # fsspec caches listings, and files may have come since.
        filesystem.invalidate_cache()
        is_file, exists = filesystem.isfile(path), filesystem.exists(path)
        below: dict[str, Location] = {
            one.removeprefix(path).lstrip("/"): RemoteLocation(filesystem.unstrip_protocol(one))
            for one in ([] if is_file else filesystem.find(path))
        }
    else:
        location = location.absolute()
        is_file, exists = location.is_file(), location.exists()
        below = {} if is_file or not exists else _below(location)
    if is_file:
        _require_readable(location)
        return [location]
    found = [
        below[name]
        for name in sorted(below, key=lambda name: PurePosixPath(name).parts)
        if (not suffixes or kind_of(below[name]) in suffixes)
        and not any(part.startswith(HIDDEN) for part in PurePosixPath(name).parts)
    ]
    for file in found:
        _require_readable(file)
    if not found:
        pattern = (
            " (a pattern is not expanded: pass glob.glob(...))" if "*" in str(location) else ""
        )
        problem = f"holds no {kind}" if exists else f"does not exist{pattern}"
        raise ConfigurationError(f"{location} {problem}: choose another path for the source")
    return found


def _below(directory: Path) -> dict[str, Location]:
    """Return the files below a directory, by their relative paths."""
    below: dict[str, Location] = {}
    seen: set[tuple[int, int]] = set()

    def walk(place: Path, prefix: str) -> None:
        status = place.stat()
        if (status.st_dev, status.st_ino) in seen:  # a link to a directory that was already read
            return
        seen.add((status.st_dev, status.st_ino))
        linked = []
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.startswith(HIDDEN):
                    continue
                if not entry.is_dir():
                    if entry.is_file() or entry.is_symlink():
                        below[prefix + entry.name] = Path(entry.path)
                elif entry.is_symlink():
                    linked.append(entry.name)
                else:
                    walk(Path(entry.path), f"{prefix}{entry.name}/")
        links.extend((place / name, f"{prefix}{name}/") for name in linked)

    # Links come last, so that a directory is read under its own name rather than under a link.
    links = [(directory, "")]
    try:
        for place, prefix in links:
            walk(place, prefix)
    except OSError as error:
        raise ConfigurationError(
            f"{directory} cannot be listed, so its files would be missing: {error}"
        ) from error
    return below


def _require_readable(file: Location) -> None:
    if suffix_of(file.name) in UNSUPPORTED:
        raise ConfigurationError(
            f"{file} has a compression that sources do not support, and would be missing: "
            'decompress it, or give it a name that begins with "_"'
        )
    if isinstance(file, Path) and not file.is_file():
        raise ConfigurationError(f"{file} is a broken link: remove or correct it")


Reading = Generator[list[Any], None, None]


def batches_of_files(files: Sequence[Location], reading: Reading) -> Reading | AsyncIterator[Any]:
    """Return an iterator that reads the files, in a thread if one of them is remote."""
    if any(isinstance(file, RemoteLocation) for file in files):
        return _in_thread(reading)
    return reading


async def _in_thread(reading: Reading) -> AsyncIterator[list[Any]]:
    """Read in a thread; a consumer that ends early does not wait for the thread's current read."""
    step: asyncio.Future[list[Any] | None] | None = None

    def close(ended: asyncio.Future[list[Any] | None]) -> None:
        if not ended.cancelled():  # otherwise the thread still reads
            ended.exception()
            reading.close()

    try:
        while True:
            step = asyncio.ensure_future(asyncio.to_thread(next, reading, None))
            # Shielded, because the thread cannot be cancelled while it reads.
            batch = await asyncio.shield(step)
            if batch is None:
                return
            yield batch
    finally:
        if step is not None:
            step.add_done_callback(close)
