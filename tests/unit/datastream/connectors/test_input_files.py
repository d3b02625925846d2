"""The files that a source reads, on this machine and in a store."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing
from inspect import GEN_CLOSED, GEN_RUNNING, getgeneratorstate
from pathlib import Path

import fsspec
import pytest

from flinknet.datastream.connectors.compressed_files import open_decompressed
from flinknet.datastream.connectors.input_files import batches_of_files, input_files
from flinknet.datastream.connectors.locations import Location, RemoteLocation
from flinknet.errors import ConfigurationError

NAMES = ("b.txt", "a.txt", "a-b/x.txt", "below/c.txt.gz", "other.csv")
HIDDEN = ("_hidden.txt", ".hidden.txt", "_temporary/d.txt", ".out.staging/e.txt")


@pytest.fixture(params=["path", "local://", "memory://"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str, None, None]:
    """Make a directory with these files, each with its name as content."""
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


def test_files_below_a_directory_except_hidden_ones(root: str) -> None:
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


def test_no_path_at_all() -> None:
    """This is the result of glob.glob() where nothing matches."""
    with pytest.raises(ConfigurationError, match="an empty list, so there is no file to read"):
        input_files([], (), "file")


def test_a_pattern_is_named_that_is_not_expanded(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"day\*\.txt does not exist \(a pattern is"):
        input_files(tmp_path / "day*.txt", (), "file")


def test_suffixes_in_capital_letters(tmp_path: Path) -> None:
    for name in ("a.CSV", "b.csv.GZ", "c.Csv.Bz2"):
        (tmp_path / name).touch()
    assert [file.name for file in input_files(tmp_path, [".csv"], "file")] == [
        "a.CSV", "b.csv.GZ", "c.Csv.Bz2",
    ]  # fmt: skip


def test_links_are_followed_and_no_directory_is_read_twice(tmp_path: Path) -> None:
    """A link may lead to a file, to a directory elsewhere, to a directory that is read anyway, or
    in a circle."""
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "root"
    (elsewhere / "below").mkdir(parents=True)
    (root / "own").mkdir(parents=True)
    for file in (elsewhere / "below" / "a.txt", root / "own" / "b.txt", elsewhere / "c.txt"):
        file.write_text(file.name)
    (root / "2024").symlink_to(elsewhere)
    (root / "latest").symlink_to("own")
    (root / "d.txt").symlink_to(elsewhere / "c.txt")
    (elsewhere / "below" / "up").symlink_to(root)

    found = input_files(root, [".txt"], "file")

    names = [file.relative_to(root).as_posix() for file in found]  # type: ignore[union-attr]
    assert names == ["2024/below/a.txt", "2024/c.txt", "d.txt", "own/b.txt"]


def test_unsupported_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    other = tmp_path / "b.csv.lz4"
    other.touch()
    with pytest.raises(
        ConfigurationError, match=r"b\.csv\.lz4 has a compression that sources do not"
    ):
        input_files(tmp_path, [".csv"], "file")
    other.unlink()
    (tmp_path / "c.csv").symlink_to(tmp_path / "nowhere.csv")
    with pytest.raises(ConfigurationError, match=r"c\.csv is a broken link: remove"):
        input_files(tmp_path, [".csv"], "file")


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


async def test_an_early_end_does_not_wait_for_the_store() -> None:
    """The file is closed when the thread has returned from its call."""
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


async def test_a_read_error_is_raised_to_the_reader() -> None:
    def failing() -> Generator[list[int], None, None]:
        yield [1]
        raise OSError("the store has gone")

    batches = batches_of_files([RemoteLocation("memory://a")], failing())
    assert isinstance(batches, AsyncIterator)
    assert await anext(batches) == [1]
    with pytest.raises(OSError, match="the store has gone"):
        await anext(batches)
