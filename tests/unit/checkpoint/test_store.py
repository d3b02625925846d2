"""Listing, reading and verifying a job's checkpoints, and finding the last good one."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.journal import Entry
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig
from flinknet.errors import (
    CheckpointCorruptedError,
    CheckpointError,
    CheckpointNotFoundError,
    CheckpointStorageError,
)
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.checkpoint.checkpoints import LARGE, SMALL, change, made

CONFIG = CheckpointingConfig()


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(FileStorage(tmp_path, CONFIG), "job-1", CONFIG)


async def test_a_checkpoint_is_read_as_it_was_written(store: CheckpointStore) -> None:
    claimed = await FencedStore.claim(store, 1)
    done = await made(claimed, 7)
    (one,) = await store.completed()
    assert (one.number, str(one.directory)) == (1, "checkpoint-7-attempt-1")
    metadata = await store.read_metadata(one.directory)
    assert metadata == done
    keyed, state = [part for *_, part in metadata.parts()]
    assert [section async for section in store.read_part(one.directory, keyed)] == [
        (3, LARGE),
        (4, b"group 4, more"),
    ]
    assert [section async for section in store.read_part(one.directory, state, {"x"})] == []
    assert [section async for section in store.read_part(one.directory, state)] == [
        ("offsets", SMALL)
    ]
    assert await store.verify(one.directory) == []


@pytest.mark.parametrize("job_id", ["", ".", "../other", "a/b", "x" * 201])
def test_a_job_id_that_is_no_directory_is_refused(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(
        CheckpointError, match="has no checkpoints: there is no directory of this name"
    ):
        CheckpointStore(FileStorage(tmp_path, CONFIG), job_id, CONFIG)


@pytest.mark.parametrize("name", ["", "metadata", "../x", ".x"])
async def test_a_part_that_is_no_file_is_refused(store: CheckpointStore, name: str) -> None:
    with pytest.raises(CheckpointError, match="is not a valid name of a state part"):
        await store.write_part(CheckpointDirectory(False, 1, 1), name, [])


async def test_without_any_there_is_none(store: CheckpointStore, tmp_path: Path) -> None:
    assert await store.completed() == []
    with pytest.raises(
        CheckpointNotFoundError, match="job-1 has no checkpoint that can be"
    ) as raised:
        await store.latest_valid()
    assert str(raised.value).startswith(str(tmp_path))
    (error,) = await store.verify(CheckpointDirectory(False, 1, 1))
    assert isinstance(error, CheckpointNotFoundError)


async def test_savepoints_are_listed_and_not_restored_by_themselves(
    store: CheckpointStore,
) -> None:
    claimed = await FencedStore.claim(store, 1)
    await made(claimed, 1)
    await made(claimed, 2, CheckpointKind.SAVEPOINT)
    assert [str(one.directory) for one in await store.completed()] == [
        "checkpoint-1-attempt-1",
        "savepoint-2-attempt-1",
    ]
    assert (await store.latest_valid()).checkpoint.checkpoint_id == 1


BAD = [("keyed-0", how) for how in ("removed", "torn", "a bit")] + [
    ("metadata", how) for how in ("torn", "a bit", "foreign", "newer")
]


@pytest.mark.parametrize(("name", "how"), BAD)
async def test_a_bad_file_is_named_and_the_checkpoint_before_is_used(
    store: CheckpointStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    how: str,
) -> None:
    """A torn, truncated, bit-flipped, foreign or newer-version checkpoint is refused."""
    claimed = await FencedStore.claim(store, 1)
    first = await made(claimed, 1)
    second = await made(claimed, 2)
    file = tmp_path / "job-1" / str(second.directory) / name
    change(file, how)
    with caplog.at_level(logging.WARNING, "flinknet.checkpoint"):
        found = await store.latest_valid()
    assert found.checkpoint == first
    (error,) = found.refused
    assert isinstance(error, CheckpointCorruptedError)
    assert str(error).startswith(f"{file} ")
    (line,) = caplog.messages
    assert f"{second.directory} cannot be restored, so an earlier one is used: {file} " in line


@pytest.mark.parametrize("name", ["metadata", ""])
async def test_the_journal_knows_what_was_completed_and_is_gone(
    store: CheckpointStore, tmp_path: Path, name: str
) -> None:
    claimed = await FencedStore.claim(store, 1)
    await made(claimed, 1)
    second = await made(claimed, 2)
    await made(claimed, 3, CheckpointKind.SAVEPOINT)
    lost = tmp_path / "job-1" / str(second.directory)
    if name:
        (lost / name).unlink()
    else:
        shutil.rmtree(lost)
    assert (await store.latest_valid()).checkpoint.checkpoint_id == 1
    assert await store.newest_claimed(lambda number: False) == 2
    assert await store.newest_claimed(lambda number: number == 2) == 1


async def test_passed_over_checkpoints_are_not_restored_and_removed_first(
    store: CheckpointStore,
) -> None:
    claimed = await FencedStore.claim(store, 1)
    for number in (1, 2):
        await made(claimed, number)

    def is_passed_over(number: int) -> bool:
        return number == 2

    found = await store.latest_valid(is_passed_over=is_passed_over)
    assert (found.checkpoint.checkpoint_id, found.refused) == (1, [])
    claimed = await FencedStore.claim(store, 2, is_passed_over)
    await made(claimed, 3)
    await claimed.remove_all_but(2)
    assert [one.directory.checkpoint_id for one in await store.completed()] == [1, 3]


@pytest.mark.parametrize(("how", "is_seen"), [("removed", True), ("torn", True), ("a bit", False)])
async def test_verification_without_reads_reads_no_files(
    store: CheckpointStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    is_seen: bool,
) -> None:
    claimed = await FencedStore.claim(store, 1)
    await made(claimed, 1)
    second = await made(claimed, 2)
    change(tmp_path / "job-1" / str(second.directory) / "keyed-0", how)

    async def reads(storage: FileStorage, path: str, start: int, length: int) -> bytes:
        raise AssertionError(f"{path} is read")

    monkeypatch.setattr(FileStorage, "read_range", reads)
    found = await store.latest_valid(reads=False)
    assert found.checkpoint.checkpoint_id == (1 if is_seen else 2)
    assert len(found.refused) == is_seen


async def test_a_place_that_does_not_answer_is_no_damage(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job would otherwise go back to an earlier checkpoint because of a network failure."""
    claimed = await FencedStore.claim(store, 1)
    for checkpoint_id in (1, 2):
        await made(claimed, checkpoint_id)

    async def fails(storage: FileStorage, path: str, start: int, length: int) -> bytes:
        raise CheckpointStorageError(f"cannot read {path}: time-out")

    monkeypatch.setattr(FileStorage, "read_range", fails)
    with pytest.raises(CheckpointStorageError, match="checkpoint-2-attempt-1/keyed-0: time-out"):
        await store.latest_valid()


async def test_if_all_are_bad_each_is_named(store: CheckpointStore, tmp_path: Path) -> None:
    claimed = await FencedStore.claim(store, 1)
    for checkpoint_id in (1, 2):
        done = await made(claimed, checkpoint_id)
        change(tmp_path / "job-1" / str(done.directory) / "keyed-0", "torn")
    with pytest.raises(CheckpointNotFoundError) as raised:
        await store.latest_valid()
    assert str(raised.value).count("keyed-0 is torn") == 2


async def test_metadata_in_another_s_place_is_refused(
    store: CheckpointStore, tmp_path: Path
) -> None:
    claimed = await FencedStore.claim(store, 1)
    one, other = [await made(claimed, checkpoint_id) for checkpoint_id in (1, 2)]
    job = tmp_path / "job-1"
    (job / str(one.directory) / "metadata").replace(job / str(other.directory) / "metadata")
    with pytest.raises(CheckpointCorruptedError, match="is the metadata of job-1/checkpoint-1"):
        await store.read_metadata(other.directory)


async def test_a_damaged_entry_is_passed_over_and_logged(
    store: CheckpointStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    claimed = await FencedStore.claim(store, 1)
    await made(claimed, 1)
    await made(claimed, 2)
    change(tmp_path / "job-1" / "journal" / f"{2:020d}", "a bit")
    assert [one.directory.checkpoint_id for one in await store.completed()] == [1]
    assert "ignored" in caplog.text


async def test_an_entry_is_only_believed_if_it_names_a_checkpoint_that_is_there(
    store: CheckpointStore, tmp_path: Path
) -> None:
    claimed = await FencedStore.claim(store, 1)
    done = await made(claimed, 1)
    (tmp_path / "job-1" / str(done.directory) / "metadata").unlink()
    assert await store.completed() == []


async def test_an_entry_that_is_removed_meanwhile_is_none(store: CheckpointStore) -> None:
    await FencedStore.claim(store, 1)
    files: Iterable[str] = [store.path("journal", f"{number:020d}") for number in (0, 1)]
    assert await store.entries(files) == {0: Entry(1)}
