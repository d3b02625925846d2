"""Each checkpoint's parts go to its place, also when that is not known yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster.worker.checkpoint_places import CheckpointPlaces
from flinknet.config import CheckpointingConfig
from tests.unit.checkpoint.checkpoints import LARGE, files_below

CONFIG = CheckpointingConfig()
SAVEPOINT = CheckpointDirectory(True, 3, 0)


def store(top: Path) -> CheckpointStore:
    return CheckpointStore(FileStorage(top, CONFIG), "job", CONFIG)


async def test_checkpoints_and_savepoints_go_to_their_own_places(tmp_path: Path) -> None:
    places = CheckpointPlaces(store(tmp_path / "own"), CONFIG)
    places.announce(3, store(tmp_path / "saved"))
    places.announce(3, store(tmp_path / "twice"))
    await places.write_part(CheckpointDirectory(False, 2, 0), "p", [(0, LARGE)])
    await places.write_part(SAVEPOINT, "p", [(0, LARGE)])
    assert files_below(tmp_path) == [
        "own/job/checkpoint-2-attempt-0/p",
        "saved/job/savepoint-3-attempt-0/p",
    ]


async def test_a_part_waits_for_the_word(tmp_path: Path) -> None:
    places = CheckpointPlaces(None, CONFIG)
    writing = asyncio.create_task(places.write_part(SAVEPOINT, "p", [(0, LARGE)]))
    given_up = asyncio.create_task(places.write_part(SAVEPOINT, "q", [(0, LARGE)]))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    places.announce(3, store(tmp_path))
    await writing
    assert files_below(tmp_path) == ["job/savepoint-3-attempt-0/p"]


async def test_the_end_of_a_savepoint_ends_the_waiting() -> None:
    places = CheckpointPlaces(None, CONFIG)
    writing = asyncio.create_task(places.write_part(SAVEPOINT, "p", [(0, LARGE)]))
    await asyncio.sleep(0)
    places.forget(3)
    places.forget(3)
    with pytest.raises(asyncio.CancelledError):
        await writing
