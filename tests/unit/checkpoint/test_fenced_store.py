"""Completion, fencing and retention on files.

`contract/test_checkpoint_stores.py` tests the same on other places.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.journal import Entry, encode_entry, entry_path
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig
from flinknet.errors import (
    CheckpointError,
    CheckpointFencedError,
    CheckpointStorageError,
    CoordinatorSupersededError,
    LocalProtocolError,
)
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.checkpoint.checkpoints import files_below, made, metadata

CONFIG = CheckpointingConfig(retained=2)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(FileStorage(tmp_path, CONFIG), "job-1", CONFIG)


async def completed(store: CheckpointStore) -> list[str]:
    return [str(one.directory) for one in await store.completed()]


async def test_a_checkpoint_is_complete_when_it_is_in_the_journal(
    store: CheckpointStore, tmp_path: Path
) -> None:
    claimed = await FencedStore.claim(store, 0)
    directory = claimed.directory(1)
    part = await store.write_part(directory, "p", [(0, bytes(30_000))])
    assert part is not None
    assert await completed(store) == []
    location = await claimed.complete(metadata(1, 0))
    assert location == f"{tmp_path}/job-1/{directory}"
    assert await completed(store) == ["checkpoint-1-attempt-0"]


async def test_the_oldest_are_removed_and_savepoints_are_not(
    store: CheckpointStore, tmp_path: Path
) -> None:
    claimed = await FencedStore.claim(store, 0)
    await made(claimed, 1, CheckpointKind.SAVEPOINT)
    for checkpoint_id in (2, 3, 4, 5):
        await made(claimed, checkpoint_id)
    kept = ["savepoint-1-attempt-0", "checkpoint-4-attempt-0", "checkpoint-5-attempt-0"]
    assert await completed(store) == kept
    found = files_below(tmp_path / "job-1")
    assert {path.partition("/")[0] for path in found} == {*kept, "journal"}
    assert len([path for path in found if path.startswith("journal/")]) == 4


async def test_checkpoints_of_earlier_attempts_count(store: CheckpointStore) -> None:
    for attempt in (1, 2):
        claimed = await FencedStore.claim(store, attempt)
        for checkpoint_id in (1, 2):
            await made(claimed, attempt * 10 + checkpoint_id)
    await made(await FencedStore.claim(store, 3), 30)
    assert await completed(store) == ["checkpoint-22-attempt-2", "checkpoint-30-attempt-3"]


async def test_an_attempt_that_was_replaced_completes_nothing(
    store: CheckpointStore, tmp_path: Path
) -> None:
    old = await FencedStore.claim(store, 1)
    await made(old, 1)
    new = await FencedStore.claim(store, 2)
    for _ in range(2):
        with pytest.raises(CheckpointFencedError, match="attempt 1 of job job-1 cannot complete"):
            await made(old, 2)
    for refused in (old.discard(old.directory(1)), old.remove_leftovers()):
        with pytest.raises(CheckpointFencedError, match="a later attempt has taken over"):
            await refused
    assert await completed(store) == ["checkpoint-1-attempt-1"]
    assert not (tmp_path / "job-1" / "checkpoint-2-attempt-1" / "metadata").exists()
    await made(new, 2)
    assert await completed(store) == ["checkpoint-1-attempt-1", "checkpoint-2-attempt-2"]


async def test_an_attempt_cannot_come_after_its_successor(store: CheckpointStore) -> None:
    await FencedStore.claim(store, 2)
    for attempt in (1, 2):
        with pytest.raises(CheckpointFencedError, match="attempt 2 has taken over"):
            await FencedStore.claim(store, attempt)


async def test_of_two_that_claim_at_once_both_know_how_it_ended(store: CheckpointStore) -> None:
    """The attempt that takes over last completes its checkpoint, the other attempt does not."""
    both = await asyncio.gather(
        FencedStore.claim(store, 1), FencedStore.claim(store, 2), return_exceptions=True
    )
    assert isinstance(both[1], FencedStore)
    if isinstance(both[0], FencedStore):
        with pytest.raises(CheckpointFencedError):
            await made(both[0], 1)
    await made(both[1], 1)
    assert await completed(store) == ["checkpoint-1-attempt-2"]


async def test_a_number_taken_during_the_claim_stays_with_its_taker(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = FileStorage.create

    async def late(storage: FileStorage, path: str, content: bytes) -> bool:
        monkeypatch.undo()
        assert await create(storage, path, encode_entry(Entry(1)))
        return await create(storage, path, content)

    monkeypatch.setattr(FileStorage, "create", late)
    claimed = await FencedStore.claim(store, 2)
    await made(claimed, 1)
    assert [one.number for one in await store.completed()] == [2]


async def test_an_own_entry_of_an_interrupted_call_is_ignored(
    store: CheckpointStore,
) -> None:
    """A call that was interrupted may have written its entry all the same."""
    claimed = await FencedStore.claim(store, 1)
    lost = encode_entry(Entry(1, "checkpoint-1-attempt-1"))
    assert await store.storage.create(store.path(entry_path(1)), lost)
    await made(claimed, 2)
    assert await completed(store) == ["checkpoint-2-attempt-1"]


async def test_several_complete_at_once_one_after_the_other(store: CheckpointStore) -> None:
    claimed = await FencedStore.claim(store, 1)
    await asyncio.gather(*(claimed.complete(metadata(number, 1)) for number in range(5)))
    assert len(await completed(store)) == 5
    await claimed.remove_all_but(2)
    assert len(await completed(store)) == 2


async def test_a_checkpoint_completes_once(store: CheckpointStore) -> None:
    claimed = await FencedStore.claim(store, 1)
    await made(claimed, 1)
    with pytest.raises(CheckpointStorageError, match="metadata exists already"):
        await claimed.complete(metadata(1, 1))
    assert await completed(store) == ["checkpoint-1-attempt-1"]


@pytest.mark.parametrize("other", [metadata(1, 2), metadata(1, 1, job_id="job-2")], ids=["a", "j"])
async def test_another_s_metadata_is_a_misuse(store: CheckpointStore, other: object) -> None:
    claimed = await FencedStore.claim(store, 1)
    with pytest.raises(LocalProtocolError, match="attempt 1 of job-1 cannot complete job-"):
        await claimed.complete(other)  # type: ignore[arg-type]


async def test_an_entry_that_cannot_be_written_takes_the_metadata_back(
    store: CheckpointStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = await FencedStore.claim(store, 1)
    create = FileStorage.create

    async def full(storage: FileStorage, path: str, content: bytes) -> bool:
        if "journal" in path:
            raise CheckpointStorageError("the disk is full")
        return await create(storage, path, content)

    monkeypatch.setattr(FileStorage, "create", full)
    with pytest.raises(CheckpointStorageError, match="the disk is full"):
        await claimed.complete(metadata(1, 1))
    assert files_below(tmp_path / "job-1") == ["journal/00000000000000000000"]
    monkeypatch.undo()
    await claimed.complete(metadata(1, 1))
    assert await completed(store) == ["checkpoint-1-attempt-1"]


async def test_an_aborted_checkpoint_is_discarded(store: CheckpointStore, tmp_path: Path) -> None:
    claimed = await FencedStore.claim(store, 1)
    await store.write_part(claimed.directory(1), "p", [(0, bytes(30_000))])
    await claimed.discard(claimed.directory(1))
    assert files_below(tmp_path / "job-1") == ["journal/00000000000000000000"]


@pytest.mark.parametrize("kind", [CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT])
async def test_a_checkpoint_completed_too_late_is_discarded_completely(
    store: CheckpointStore, tmp_path: Path, kind: CheckpointKind
) -> None:
    """The job was cancelled or failed while the metadata was written.

    Retention no longer counts this checkpoint, and keeps the one before it.
    """
    claimed = await FencedStore.claim(store, 1)
    await made(claimed, 1)
    await made(claimed, 2, kind)
    await claimed.discard(claimed.directory(2, is_savepoint=kind.is_savepoint))
    await claimed.remove_all_but(1)
    assert await completed(store) == ["checkpoint-1-attempt-1"]
    assert (await store.latest_valid()).checkpoint.checkpoint_id == 1
    assert "journal/00000000000000000002" not in files_below(tmp_path / "job-1")


async def test_leftovers_of_earlier_attempts_are_removed_and_nothing_else(
    store: CheckpointStore, tmp_path: Path
) -> None:
    old = await FencedStore.claim(store, 1)
    await made(old, 1)
    await made(old, 2, CheckpointKind.SAVEPOINT)
    await store.write_part(old.directory(3), "p", [(0, bytes(30_000))])
    new = await FencedStore.claim(store, 2)
    await store.write_part(new.directory(3), "p", [(0, bytes(30_000))])
    await store.storage.write(store.path("notes"), [b"of a user"])
    leave_unfinished(tmp_path / "job-1" / "journal")
    leave_unfinished(tmp_path / "job-1" / "checkpoint-4-attempt-1")
    for directory in ("savepoint-5-attempt-1/metadata", "savepoint-6-attempt-1/p"):
        await store.storage.write(store.path(directory), [b"by another name of the place"])
    await new.remove_leftovers()
    assert {path.partition("/")[0] for path in files_below(tmp_path / "job-1")} == {
        "checkpoint-1-attempt-1",
        "savepoint-2-attempt-1",
        "savepoint-5-attempt-1",
        "checkpoint-3-attempt-2",
        "journal",
        "notes",
    }
    assert not (tmp_path / "job-1" / "checkpoint-4-attempt-1").exists()
    assert [path for path in files_below(tmp_path) if path.endswith(".unfinished")] == []


def leave_unfinished(directory: Path) -> None:
    """Create the remains of a file as left by a killed writer."""
    directory.mkdir(exist_ok=True)
    (directory / ".file.0123456789abcdef.unfinished").touch()


async def test_an_old_checkpoint_that_cannot_be_removed_stays_until_it_can(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    claimed = await FencedStore.claim(store, 1)
    for checkpoint_id in (1, 2):
        await made(claimed, checkpoint_id)

    async def fails(storage: FileStorage, directory: str) -> None:
        raise CheckpointError(f"cannot remove {directory}")

    monkeypatch.setattr(FileStorage, "delete_directory", fails)
    with caplog.at_level(logging.WARNING, "flinknet.checkpoint"):
        await made(claimed, 3)
    warning = "an old checkpoint could not be removed yet: cannot remove job-1/checkpoint-1"
    assert warning in caplog.text
    monkeypatch.undo()
    await made(claimed, 4)
    assert await completed(store) == ["checkpoint-3-attempt-1", "checkpoint-4-attempt-1"]


def store_is_there(directory: Path) -> bool:
    return any(directory.iterdir())


async def test_the_journal_of_an_ended_job_goes_unless_something_else_is_there(
    store: CheckpointStore, tmp_path: Path
) -> None:
    """Nothing is completed after that, as no entry would tell which attempt has taken over."""
    claimed = await FencedStore.claim(store, 0)
    await made(claimed, 1)
    await made(claimed, 2, CheckpointKind.SAVEPOINT)
    await claimed.remove_journal()
    assert len(await completed(store)) == 2
    await claimed.remove_all_but(0)
    await claimed.remove_journal()
    assert await completed(store) == ["savepoint-2-attempt-0"]
    await claimed.discard(claimed.directory(2, is_savepoint=True))
    await claimed.remove_journal()
    assert not store_is_there(tmp_path)
    with pytest.raises(CheckpointFencedError):
        await claimed.complete(metadata(3, 0))


async def test_nothing_is_changed_in_the_name_of_a_coordinator_that_rules_no_more(
    store: CheckpointStore, tmp_path: Path
) -> None:
    """This holds for each place at which it checks that it still rules."""

    class Rule:
        calls_left = 100

        async def check(self) -> None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise CoordinatorSupersededError("another one rules")

    rule = Rule()
    claimed = await FencedStore.claim(store, 1, check=rule.check)
    for checkpoint_id in (1, 2, 3):
        await made(claimed, checkpoint_id)
    await store.write_part(claimed.directory(4), "p", [(0, b"state")])
    before = files_below(tmp_path)
    for calls_left in (0, 1):
        rule.calls_left = calls_left
        with pytest.raises(CoordinatorSupersededError):
            await claimed.complete(metadata(4, 1))
        assert files_below(tmp_path) == before, f"after {calls_left} checks"
    rule.calls_left = 0
    for change in (
        claimed.remove_all_but(0),
        claimed.remove_journal(),
        claimed.remove_leftovers(),
        claimed.discard(claimed.directory(3)),
        claimed.discard(claimed.directory(4)),
        FencedStore.claim(store, 2, check=rule.check),
    ):
        with pytest.raises(CoordinatorSupersededError):
            await change
        assert files_below(tmp_path) == before
