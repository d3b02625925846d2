"""A verification reports the errors of a checkpoint file by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorState,
    StateKind,
    StatePart,
    SubtaskState,
)
from flinknet.checkpoint.state_parts import write_part
from flinknet.checkpoint.verification import find_damage, find_torn
from flinknet.config import CheckpointingConfig
from flinknet.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    CheckpointStorageError,
)
from tests.unit.checkpoint.checkpoints import LARGE, change, inline, metadata

CONFIG = CheckpointingConfig()


@pytest.fixture
def storage(tmp_path: Path) -> FileStorage:
    return FileStorage(tmp_path, CONFIG)


async def written(storage: FileStorage, small: StatePart) -> CheckpointMetadata:
    parts = [await write_part(storage, f"c/{name}", [(0, LARGE)], CONFIG) for name in "abc"]
    subtasks = [
        SubtaskState(index, {StateKind.KEYED: part})
        for index, part in enumerate(parts)
        if part is not None
    ]
    subtasks.append(SubtaskState(3, {StateKind.OPERATOR: small}))
    return metadata(operators=(OperatorState("counts", 4, 128, tuple(subtasks)),))


async def test_a_written_checkpoint_is_valid(storage: FileStorage) -> None:
    assert await find_damage(storage, "c", await written(storage, inline(("s", b"1")))) == []


async def test_each_bad_file_is_named_with_whose_state_it_is(
    storage: FileStorage, tmp_path: Path
) -> None:
    small = inline(("s", b"1"))._replace(inline=b"2")
    made = await written(storage, small)
    for name, how in zip("abc", ("removed", "torn", "a bit"), strict=True):
        change(tmp_path / "c" / name, how)
    errors = await find_damage(storage, "c", made)
    torn = f"torn: it has {len(LARGE) - 1} bytes and should have {len(LARGE)}"
    damaged = "damaged: the {} bytes of {!r} are not what was written"
    assert [*map(str, errors)] == [
        f"{tmp_path}/c/a is missing (keyed state of counts[0])",
        f"{tmp_path}/c/b is {torn} (keyed state of counts[1])",
        f"{tmp_path}/c/c is {damaged.format(len(LARGE), 0)} (keyed state of counts[2])",
        f"{tmp_path}/c/metadata is {damaged.format(1, 's')} (operator state of counts[3])",
    ]
    assert {type(error) for error in errors} == {CheckpointCorruptedError}


async def test_a_file_that_goes_while_it_is_read_is_missing(
    storage: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await written(storage, inline(("s", b"1")))
    files = await storage.files("c")
    await storage.delete("c/b")

    async def listed(self: FileStorage, directory: str) -> dict[str, int]:
        return files

    monkeypatch.setattr(FileStorage, "files", listed)
    (error,) = await find_damage(storage, "c", made)
    assert isinstance(error, CheckpointNotFoundError)
    assert "c/b: No such file or directory (keyed state of counts[1])" in str(error)


async def test_a_file_that_cannot_be_read_now_is_not_damaged(
    storage: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await written(storage, inline(("s", b"1")))

    async def fails(self: FileStorage, path: str, start: int, length: int) -> bytes:
        raise CheckpointStorageError(f"cannot read {path}: time-out")

    monkeypatch.setattr(FileStorage, "read_range", fails)
    with pytest.raises(CheckpointStorageError, match="time-out"):
        await find_damage(storage, "c", made)


async def test_without_reading_them_files_that_are_missing_or_torn_are_found(
    storage: FileStorage, tmp_path: Path
) -> None:
    made = await written(storage, inline(("s", b"1"))._replace(inline=b"2"))
    assert await find_torn(storage, "c", made) == []
    for name, how in zip("abc", ("removed", "torn", "a bit"), strict=True):
        change(tmp_path / "c" / name, how)
    missing, torn = await find_torn(storage, "c", made)
    assert str(missing) == f"{tmp_path}/c/a is missing (keyed state of counts[0])"
    assert str(torn).startswith(f"{tmp_path}/c/b is torn: ")
