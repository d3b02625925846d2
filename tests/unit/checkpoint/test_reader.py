"""A checkpoint is found by its place alone, even after it was moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.reader import CheckpointReader
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointCorruptedError, CheckpointNotFoundError
from tests.unit.checkpoint.checkpoints import LARGE, change, made

CONFIG = CheckpointingConfig()


async def moved(top: Path) -> Path:
    """Make a checkpoint, and move it to a place that does not tell its job."""
    store = CheckpointStore(FileStorage(top / "all", CONFIG), "job-1", CONFIG)
    await made(await FencedStore.claim(store, 2), 7)
    shutil.move(top / "all" / "job-1" / "checkpoint-7-attempt-2", top / "kept for later")
    return top / "kept for later"


async def test_a_moved_checkpoint_is_read_and_valid(tmp_path: Path) -> None:
    place = await moved(tmp_path)
    reader = await CheckpointReader.open(str(place), CONFIG)
    assert (reader.metadata.checkpoint_id, reader.metadata.job_id) == (7, "job-1")
    directory = reader.metadata.directory
    assert reader.location(directory) == reader.place == str(place)
    (large,) = reader.metadata.files().values()
    read = [content async for _, content in reader.read_part(directory, large)]
    assert b"".join(read).startswith(LARGE)
    assert await reader.verify() == []
    change(place / str(large.name), "torn")
    (error,) = await reader.verify()
    assert str(place) in str(error)


async def test_a_directory_without_metadata_is_none(tmp_path: Path) -> None:
    place = await moved(tmp_path)
    with pytest.raises(
        CheckpointNotFoundError, match=f"{tmp_path} is not a checkpoint or savepoint"
    ):
        await CheckpointReader.open(str(tmp_path), CONFIG)
    change(place / "metadata", "removed")
    with pytest.raises(CheckpointNotFoundError, match="has no file metadata"):
        await CheckpointReader.open(str(place), CONFIG)


@pytest.mark.parametrize("how", ["torn", "a bit", "foreign", "newer"])
async def test_damaged_metadata_is_named(tmp_path: Path, how: str) -> None:
    place = await moved(tmp_path)
    change(place / "metadata", how)
    with pytest.raises(CheckpointCorruptedError, match=f"{place}/metadata"):
        await CheckpointReader.open(str(place), CONFIG)
