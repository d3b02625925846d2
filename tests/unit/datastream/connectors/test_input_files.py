"""Which files a source reads, on this machine and in a store."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import lzma
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import aclosing
from inspect import GEN_CLOSED, GEN_RUNNING, getgeneratorstate
from pathlib import Path

import fsspec
import pytest

from flinknet.datastream.connectors.input_files import (
    batches_of_files,
    input_files,
    kind_of,
    open_decompressed,
)
from flinknet.datastream.connectors.locations import Location, RemoteLocation
from flinknet.errors import ConfigurationError

NAMES = ("b.txt", "a.txt", "a-b/x.txt", "below/c.txt.gz", "other.csv")
HIDDEN = ("_hidden.txt", ".hidden.txt", "_temporary/d.txt", ".out.staging/e.txt")


@pytest.fixture(params=["path", "local://", "memory://"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str, None, None]:
    """A directory with these files, each with its name in it."""
    place = str(tmp_path) if request.param == "path" else f"{request.param}{tmp_path}"
    filesystem, path = fsspec.core.url_to_fs(place)
    for name in NAMES + HIDDEN:
        filesystem.makedirs(f"{path}/{name}".rpartition("/")[0], exist_ok=True)
        content = gzip.compress(name.encode()) if name.endswith(".gz") else name.encode()
        filesystem.pipe_file(f"{path}/{name}", content)
    yield place
    filesystem.rm(path, recursive=True)


def content_of(file: Location) -> str:
    with open_decompressed(file) as content:
        return content.read().decode()


def test_what_is_below_a_directory_but_for_what_is_hidden(root: str) -> None:
    found = input_files(root, [".txt"], "file")
    assert list(map(content_of, found)) == ["a-b/x.txt", "a.txt", "b.txt", "below/c.txt.gz"]
    assert [content_of(file) for file in input_files(root, (), "file")][-1] == "other.csv"
    named = input_files([f"{root}/b.txt", f"{root}/_hidden.txt"], [".csv"], "file")
    assert list(map(content_of, named)) == ["b.txt", "_hidden.txt"]


def test_where_there_is_nothing_to_read(root: str) -> None:
    with pytest.raises(ConfigurationError, match=r"holds no file of the kind \.png: choose"):
        input_files(root, [".png"], "file of the kind .png")
    with pytest.raises(ConfigurationError, match="nowhere does not exist: choose another path"):
        input_files(f"{root}/nowhere", (), "file")


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("a.csv", bytes),
        ("a.csv.gz", gzip.compress),
        ("a.csv.gzip", gzip.compress),
        ("a.csv.bz2", bz2.compress),
        ("a.csv.xz", lzma.compress),
    ],
    ids=["plain", "gz", "gzip", "bz2", "xz"],
)
def test_what_is_compressed_is_read_as_what_it_was(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(compress(b"text"))
    assert content_of(tmp_path / name) == "text"
    assert kind_of(tmp_path / name) == ".csv"


def reading(release: threading.Event | None = None) -> Generator[list[int], None, None]:
    yield [1]
    if release is not None:
        release.wait()
    yield [2]


async def test_a_store_is_read_in_a_thread() -> None:
    local = reading()
    assert batches_of_files([Path("a")], local) is local
    batches = batches_of_files([RemoteLocation("memory://a")], reading())
    assert isinstance(batches, AsyncIterator)
    assert [batch async for batch in batches] == [[1], [2]]


async def test_who_ends_early_does_not_wait_for_the_store() -> None:
    """The file is closed when the thread has come back from it."""
    release = threading.Event()
    read = reading(release)
    batches = batches_of_files([RemoteLocation("memory://a")], read)
    assert isinstance(batches, AsyncGenerator)
    try:
        async with aclosing(batches):
            assert await anext(batches) == [1]
            second = asyncio.ensure_future(anext(batches))
            while getgeneratorstate(read) != GEN_RUNNING:
                await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
    finally:
        release.set()
    while getgeneratorstate(read) != GEN_CLOSED:
        await asyncio.sleep(0)


async def test_what_cannot_be_read_is_an_error_of_who_asks() -> None:
    def failing() -> Generator[list[int], None, None]:
        yield [1]
        raise OSError("the store has gone")

    batches = batches_of_files([RemoteLocation("memory://a")], failing())
    assert isinstance(batches, AsyncIterator)
    assert await anext(batches) == [1]
    with pytest.raises(OSError, match="the store has gone"):
        await anext(batches)
