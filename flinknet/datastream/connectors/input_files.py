"""Which files a source reads, and how they are opened.

They are looked up once, when the source is made, so that every subtask sees the same ones in the
same order. Those of this machine are read on the worker's event loop, a batch at a time; those of a
store in a thread, because nobody knows how long it takes to answer.
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
"""What Spark, Hadoop and flinknet itself keep beside results begins with one of these."""


class UnreadableError(ValueError):
    """A file, or something in it, cannot be read as it is; the text names the file."""


@contextmanager
def naming(file: Location, place: str = "") -> Iterator[None]:
    """Give each error of reading a file the name of the file, and what ``place`` says."""
    try:
        yield
    except (FlinknetError, UnreadableError):
        raise
    except Exception as error:
        raise UnreadableError(f"{file}{place}: {type(error).__name__}: {text_of(error)}") from error


def input_files(paths: Paths, suffixes: Sequence[str], kind: str) -> tuple[Location, ...]:
    """Return the files that are named, and those of directories that are: everything below them
    with one of the suffixes (any, if there is none) and of which no name begins with "_" or ".".

    Suffixes may be in capital letters. Links are followed; a directory that several paths lead to
    is read once. ConfigurationError if no path is named, if one has no such file, or if a file
    below it cannot be read: it is compressed as no source can read it, or is a link to nothing.
    ``kind`` is the name for such files in messages.
    """
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    if not named:
        raise ConfigurationError(
            f"a source was given an empty list, so there is no {kind} to read: name at least one "
            "path, and look whether the pattern that the list was made with matches anything"
        )
    return tuple(file for one in named for file in _files_of(location_of(one), suffixes, kind))


def _files_of(location: Location, suffixes: Sequence[str], kind: str) -> list[Location]:
    if isinstance(location, RemoteLocation):
        filesystem, path = location.filesystem(), location.path
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
    """Return the files below a directory, by their paths from there."""
    below: dict[str, Location] = {}
    seen: set[tuple[int, int]] = set()

    def walk(place: Path, prefix: str) -> None:
        status = place.stat()
        if (status.st_dev, status.st_ino) in seen:  # a link to a directory that is read anyway
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

    # Links come last, so that a directory that is read under its own name is not read under a link.
    links = [(directory, "")]
    try:
        for place, prefix in links:
            walk(place, prefix)
    except OSError as error:
        raise ConfigurationError(
            f"{directory} cannot be listed, and files in it would be left out: {error}"
        ) from error
    return below


def _require_readable(file: Location) -> None:
    if suffix_of(file.name) in UNSUPPORTED:
        raise ConfigurationError(
            f"{file} is compressed as no source can read it, and would be left out: decompress "
            'it, or give it a name that begins with "_"'
        )
    if isinstance(file, Path) and not file.is_file():
        raise ConfigurationError(f"{file} is a link to no file: remove it, or mend it")


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
