"""Checkpoints are found in any of their directories that a user names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.inspection import KeptCheckpoint, find_checkpoints
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointNotFoundError, CheckpointStorageError
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.checkpoint.checkpoints import LARGE, change, made

CONFIG = CheckpointingConfig()


async def job(top: Path, job_id: str) -> FencedStore:
    """Make a job with a checkpoint, a savepoint and an unfinished checkpoint."""
    store = CheckpointStore(FileStorage(top, CONFIG), job_id, CONFIG)
    claimed = await FencedStore.claim(store, 1)
    await made(claimed, 9)
    await made(claimed, 10, CheckpointKind.SAVEPOINT)
    await store.write_part(claimed.directory(11), "p", [(0, LARGE)])
    return claimed


def described(found: list[KeptCheckpoint]) -> list[tuple[str, str]]:
    return [(kept.directory, kept.state) for kept in found]


OF_A_JOB = [
    ("checkpoint-9-attempt-1", "complete"),
    ("savepoint-10-attempt-1", "complete"),
    ("checkpoint-11-attempt-1", "incomplete"),
]


@pytest.fixture
async def top(tmp_path: Path) -> Path:
    for job_id in ("job-1", "job-2"):
        await job(tmp_path / "all", job_id)
    return tmp_path / "all"


async def test_all_jobs_are_found(top: Path) -> None:
    await FileStorage(top, CONFIG).write("notes", [b"of a user"])
    found = await find_checkpoints(str(top), CONFIG)
    assert described(found) == [
        (f"{job_id}/{name}", state) for job_id in ("job-1", "job-2") for name, state in OF_A_JOB
    ]
    assert found[0].location == f"{top}/job-1/checkpoint-9-attempt-1"
    assert [kept.metadata.checkpoint_id for kept in found if kept.metadata] == [9, 10, 9, 10]


async def test_one_job_is_found(top: Path) -> None:
    found = await find_checkpoints(f"{top}/job-2/", CONFIG)
    assert described(found) == [(f"job-2/{name}", state) for name, state in OF_A_JOB]


async def test_one_checkpoint_is_found_wherever_it_was_moved_to(top: Path, tmp_path: Path) -> None:
    shutil.copytree(top / "job-1" / "savepoint-10-attempt-1", tmp_path / "before the upgrade")
    (kept,) = await find_checkpoints(str(tmp_path / "before the upgrade"), CONFIG)
    assert (kept.directory, kept.state) == ("before the upgrade", "copied")
    assert await kept.verify() == []
    change(tmp_path / "before the upgrade" / "keyed-0", "torn")
    (error,) = await kept.verify()
    assert f"{tmp_path}/before the upgrade/keyed-0 is torn" in str(error)


async def test_copies_of_checkpoints_have_no_journal(top: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copies" / "job-1"
    shutil.copytree(top / "job-1", copied)
    shutil.rmtree(copied / "journal")
    assert [kept.state for kept in await find_checkpoints(str(copied), CONFIG)] == [
        "copied",
        "copied",
        "incomplete",
    ]


async def test_unreadable_checkpoints_are_found_too(top: Path) -> None:
    change(top / "job-1" / "checkpoint-9-attempt-1" / "metadata", "newer")
    bad, _, incomplete = await find_checkpoints(f"{top}/job-1", CONFIG)
    assert (bad.state, bad.metadata) == ("complete", None)
    (error,) = await bad.verify()
    assert error is bad.error
    assert "metadata has version 2" in str(error)
    (error,) = await incomplete.verify()
    assert "checkpoint-11-attempt-1 is incomplete: it has no metadata" in str(error)


async def test_a_directory_without_any_is_told_so(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path, CONFIG)
    for location in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(CheckpointNotFoundError, match=f"^{location} has no files: name a dir"):
            await find_checkpoints(str(location), CONFIG)
    await storage.write("a/b", [b""])
    await storage.write("c/d/e", [b""])
    with pytest.raises(CheckpointNotFoundError, match=f"^{tmp_path} has no checkpoints: name the"):
        await find_checkpoints(str(tmp_path), CONFIG)


async def test_a_file_is_no_directory(tmp_path: Path) -> None:
    await FileStorage(tmp_path, CONFIG).write("file", [b""])
    with pytest.raises(CheckpointStorageError, match="Not a directory"):
        await find_checkpoints(str(tmp_path / "file"), CONFIG)
