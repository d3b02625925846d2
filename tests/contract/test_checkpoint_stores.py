"""The contract of checkpoint storage, over every kind of storage.

The kinds are a file system, and a file system and memory through obstore.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from obstore.store import LocalStore, MemoryStore

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.location import absolute_location, open_storage
from flinknet.checkpoint.object_storage import ObjectStorage
from flinknet.checkpoint.storage import Storage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig
from flinknet.errors import (
    CheckpointCorruptedError,
    CheckpointFencedError,
    CheckpointNotFoundError,
    CheckpointStorageError,
    ConfigurationError,
)
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.contract import checkpoint_reader
from tests.unit.checkpoint.checkpoints import LARGE, SMALL, change, made, metadata

CONFIG = CheckpointingConfig(retained=2, files_max=20)
LARGE_PART_BYTES = 12_000_000
"""More than obstore sends in one request."""


def in_files(folder: Path) -> Storage:
    return FileStorage(folder, CONFIG)


def in_files_by_obstore(folder: Path) -> Storage:
    return ObjectStorage(LocalStore(folder), str(folder), CONFIG)


def in_memory(_folder: Path) -> Storage:
    return ObjectStorage(MemoryStore(), "memory", CONFIG)


@pytest.fixture(params=[in_files, in_files_by_obstore, in_memory], ids=lambda make: make.__name__)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    make: Callable[[Path], Storage] = request.param
    return make(tmp_path)


@pytest.fixture
def store(storage: Storage) -> CheckpointStore:
    return CheckpointStore(storage, "job-1", CONFIG)


# -- files


async def test_a_file_of_many_blocks_is_written_and_read(storage: Storage) -> None:
    blocks = [bytes([number]) * 1_000_000 for number in range(LARGE_PART_BYTES // 1_000_000)]
    await storage.write("a/b", iter(blocks))
    whole = b"".join(blocks)
    assert await storage.read("a/b", LARGE_PART_BYTES) == whole
    assert await storage.read_range("a/b", 999_999, 3) == b"\0\1\1"
    assert await storage.files() == {"a/b": LARGE_PART_BYTES}


async def test_an_empty_file_is_a_file(storage: Storage) -> None:
    await storage.write("a", [])
    assert await storage.files() == {"a": 0}
    assert await storage.read("a", 0) == b""


async def test_a_later_file_takes_the_place_of_an_earlier_one(storage: Storage) -> None:
    await storage.write("a", [b"1", b"2"])
    await storage.write("a", [b"3"])
    assert await storage.read("a", 1) == b"3"


async def test_only_one_of_several_creators_creates_a_file(storage: Storage) -> None:
    contents = [str(number).encode() for number in range(8)]
    created = await asyncio.gather(*(storage.create("a/b", content) for content in contents))
    assert created.count(True) == 1
    assert await storage.read("a/b", 1) == contents[created.index(True)]
    assert await storage.files() == {"a/b": 1}


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 2, b"ab"), (2, 9, b"c"), (3, 1, b""), (9, 9, b""), (1, 0, b"")],
)
async def test_a_range_ends_where_the_file_does(
    storage: Storage, start: int, length: int, expected: bytes
) -> None:
    await storage.write("a", [b"abc"])
    assert await storage.read_range("a", start, length) == expected


async def test_an_absent_file_is_named(storage: Storage) -> None:
    for reading in (storage.read("a/b", 9), storage.read_range("a/b", 0, 9)):
        with pytest.raises(CheckpointNotFoundError, match=f"cannot read {storage.location}/a/b: "):
            await reading
    await storage.delete("a/b")
    await storage.delete_directory("a")
    assert await storage.files() == await storage.files("a") == {}


async def test_too_large_files_and_too_many_files_are_refused(storage: Storage) -> None:
    await storage.write("a", [b"123"])
    with pytest.raises(CheckpointStorageError, match="a is larger than the 2 bytes that are"):
        await storage.read("a", 2)
    await asyncio.gather(*(storage.write(f"d/{number}", [b"1"]) for number in range(20)))
    assert len(await storage.files("d")) == 20
    with pytest.raises(CheckpointStorageError, match="has more than 20 "):
        await storage.files()


async def test_files_are_listed_below_a_directory_in_order(storage: Storage) -> None:
    for path in ("b/2", "b/1/x", "bb/1", "a"):
        await storage.write(path, [path.encode()])
    assert [*await storage.files()] == ["a", "b/1/x", "b/2", "bb/1"]
    assert await storage.files("b") == {"b/1/x": 5, "b/2": 3}
    assert await storage.directories() == ["b", "bb"]
    assert await storage.directories("b") == ["1"]
    assert await storage.directories("c") == []
    await storage.delete("b/2")
    await storage.delete_unfinished("b")
    await storage.delete_directory("b")
    assert [*await storage.files()] == ["a", "bb/1"]


async def test_a_failed_write_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield bytes(LARGE_PART_BYTES)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await storage.write("a", failing())
    assert await storage.files() == {}


# -- checkpoints


async def test_a_checkpoint_is_complete_or_not_there(store: CheckpointStore) -> None:
    claimed = await FencedStore.claim(store, 1)
    await store.write_part(claimed.directory(1), "p", [(0, LARGE)])
    assert await store.completed() == []
    done = await made(claimed, 1)
    (one,) = await store.completed()
    assert await store.read_metadata(one.directory) == done
    keyed, _ = [part for *_, part in done.parts()]
    assert [one async for one in store.read_part(done.directory, keyed, {4})] == [
        (4, b"group 4, more")
    ]
    assert (await store.latest_valid()).refused == []


async def test_an_old_coordinator_cannot_complete(store: CheckpointStore) -> None:
    old = await FencedStore.claim(store, 1)
    await made(old, 1)
    new = await FencedStore.claim(store, 2)
    with pytest.raises(CheckpointFencedError, match="attempt 2 has taken over"):
        await made(old, 2)
    await new.remove_leftovers()
    await made(new, 2)
    assert [str(one.directory) for one in await store.completed()] == [
        "checkpoint-1-attempt-1",
        "checkpoint-2-attempt-2",
    ]
    assert not [path for path in await store.storage.files() if "checkpoint-2-attempt-1" in path]


async def test_old_checkpoints_are_removed_and_savepoints_stay(store: CheckpointStore) -> None:
    claimed = await FencedStore.claim(store, 1)
    await made(claimed, 1, CheckpointKind.SAVEPOINT)
    for checkpoint_id in (2, 3, 4):
        await made(claimed, checkpoint_id)
    assert [one.directory.checkpoint_id for one in await store.completed()] == [1, 3, 4]
    assert not [path for path in await store.storage.files() if "checkpoint-2" in path]


async def test_a_damaged_checkpoint_is_found_and_the_one_before_is_used(
    store: CheckpointStore,
) -> None:
    claimed = await FencedStore.claim(store, 1)
    first = await made(claimed, 1)
    second = await made(claimed, 2)
    path = store.path(second.directory, "keyed-0")
    content = bytearray(await store.storage.read(path, 2 * len(LARGE)))
    content[70] ^= 1
    await store.storage.write(path, [bytes(content)])
    found = await store.latest_valid()
    assert found.checkpoint == first
    (error,) = found.refused
    assert isinstance(error, CheckpointCorruptedError)
    assert f"{store.storage.location}/{path} is damaged" in str(error)


async def test_an_abandoned_checkpoint_is_discarded(store: CheckpointStore) -> None:
    claimed = await FencedStore.claim(store, 1)
    await store.write_part(claimed.directory(1), "p", [(0, LARGE)])
    await claimed.discard(claimed.directory(1))
    assert len(await store.storage.files()) == 1
    await claimed.complete(metadata(2, 1))


# -- locations


def test_a_path_is_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("here/checkpoints", CONFIG)
    assert isinstance(storage, FileStorage)
    assert storage.location == f"{tmp_path}/here/checkpoints"
    assert not Path("here").exists()


def test_a_url_of_a_file_is_a_directory_too(tmp_path: Path) -> None:
    """The directory of a ``file:`` URL is created by the first write, as for a path."""
    storage = open_storage(f"file://{tmp_path}/my%20checkpoints", CONFIG)
    assert isinstance(storage, FileStorage)
    assert storage.location == f"{tmp_path}/my checkpoints"
    assert absolute_location(f"file://{tmp_path}/x") == f"{tmp_path}/x"
    assert absolute_location("s3://bucket/jobs") == "s3://bucket/jobs"


def test_no_place_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="set checkpointing.directory to a dir"):
        open_storage("", CONFIG)


def test_without_the_extra_a_url_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(ConfigurationError, match=r"in an object store: install flinknet\[obstore"):
        open_storage("s3://bucket/jobs", CONFIG)


def test_a_url_is_an_object_store() -> None:
    storage = open_storage("s3://bucket/jobs/", CONFIG)
    assert isinstance(storage, ObjectStorage)
    assert storage.location == "s3://bucket/jobs"
    with pytest.raises(ConfigurationError, match="^teapot://x is not an object store: "):
        open_storage("teapot://x", CONFIG)


@pytest.mark.parametrize("location", ["memory://", "memory:///jobs"])
def test_a_place_that_no_other_process_can_read_is_refused(location: str) -> None:
    with pytest.raises(ConfigurationError, match=r"each process's own memory.*object store"):
        open_storage(location, CONFIG)


# -- errors of obstore


async def test_a_refusal_of_an_object_store_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    storage = in_files_by_obstore(tmp_path)
    for call in (
        storage.write("file/part", [b"1"]),
        storage.create("file/part", b"1"),
        storage.delete("file/part"),
    ):
        with pytest.raises(CheckpointStorageError, match=r"cannot \w+ .*/file/part: ") as raised:
            await call
        assert "\n" not in str(raised.value)


# -- a reader written from FORMAT.md alone


async def test_a_foreign_reader_reads_a_checkpoint_and_finds_its_damage(tmp_path: Path) -> None:
    store = CheckpointStore(in_files(tmp_path), "job-1", CONFIG)
    claimed = await FencedStore.claim(store, 1)
    for checkpoint_id in (1, 2, 3):
        await made(claimed, checkpoint_id)
    await store.write_part(claimed.directory(4), "p", [(0, LARGE)])
    found = checkpoint_reader.complete(tmp_path / "job-1")
    assert [one.name for one in found] == ["checkpoint-2-attempt-1", "checkpoint-3-attempt-1"]
    assert checkpoint_reader.state(found[-1]) == {
        ("counts", 0, "keyed"): [(3, LARGE), (4, b"group 4, more")],
        ("counts", 0, "operator"): [("offsets", SMALL)],
    }
    change(found[-1] / "keyed-0", "a bit")
    with pytest.raises(ValueError, match="section 3 is damaged"):
        checkpoint_reader.state(found[-1])
    change(found[-1] / "metadata", "a bit")
    with pytest.raises(ValueError, match="metadata: damaged"):
        checkpoint_reader.state(found[-1])
