"""State parts: small ones stay inline, large ones become files, and each section is checked when it
is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import Label, StatePart
from flinknet.checkpoint.state_parts import (
    JOINED_BYTES,
    READ_BYTES,
    check_part,
    read_sections,
    write_part,
)
from flinknet.config import CheckpointingConfig
from flinknet.config.checks import MIB
from flinknet.errors import CheckpointCorruptedError, CheckpointError
from flinknet.wire.checksum import crc32c
from tests.unit.checkpoint.checkpoints import files_below

CONFIG = CheckpointingConfig(inline_bytes_max=100)
GROUPS: list[tuple[Label, bytes]] = [(3, b"a" * 90), (3, b"b" * 30), (5, b"c" * 50), (9, b"d")]


@pytest.fixture
def storage(tmp_path: Path) -> FileStorage:
    return FileStorage(tmp_path, CONFIG)


async def written(storage: FileStorage, blocks: list[tuple[Label, bytes]]) -> StatePart:
    part = await write_part(storage, "c/keyed-0", blocks, CONFIG)
    assert part is not None
    return part


async def test_empty_state_is_no_part_and_no_file(storage: FileStorage) -> None:
    """M2: empty state gives no handle."""
    assert await write_part(storage, "c/p", [], CONFIG) is None
    assert await write_part(storage, "c/p", [(1, b""), (2, b"")], CONFIG) is None
    assert await storage.files() == {}


async def test_small_state_is_inline(storage: FileStorage) -> None:
    """M2: it needs no file."""
    part = await written(storage, [("one", b"x" * 60), ("two", b""), ("two", b"y" * 40)])
    assert (part.name, part.inline, part.labels) == (None, b"x" * 60 + b"y" * 40, ("one", "two"))
    assert await storage.files() == {}
    assert [one async for one in read_sections(storage, "c", part, {"two"})] == [("two", b"y" * 40)]
    await check_part(storage, "c", part)


async def test_large_state_is_a_file_of_the_size_that_is_said(storage: FileStorage) -> None:
    """M2: the handle's size is the number of bytes written; offsets are recorded per channel."""
    part = await written(storage, GROUPS)
    assert part.name == "keyed-0"
    assert await storage.files() == {"c/keyed-0": part.size_bytes} == {"c/keyed-0": 171}
    assert [offset for _, offset in part.offsets()] == [0, 120, 170]
    assert part.sections[0].crc32c == crc32c(b"a" * 90 + b"b" * 30)
    await check_part(storage, "c", part)


@pytest.mark.parametrize("wanted", [None, {3}, {5}, {3, 9}, {5, 9}, set()], ids=str)
async def test_sections_are_read_by_label(storage: FileStorage, wanted: set[Label] | None) -> None:
    part = await written(storage, GROUPS)
    whole = [(3, b"a" * 90 + b"b" * 30), *GROUPS[2:]]
    expected = [one for one in whole if wanted is None or one[0] in wanted]
    assert [one async for one in read_sections(storage, "c", part, wanted)] == expected


async def test_sections_that_are_long_are_read_one_by_one(storage: FileStorage) -> None:
    blocks: list[tuple[Label, bytes]] = [(0, bytes(READ_BYTES - 1)), (1, b"123"), (2, b"4")]
    part = await written(storage, [(7, bytes(READ_BYTES)), *blocks])
    assert [one async for one in read_sections(storage, "c", part, {0, 1, 2})] == blocks
    await check_part(storage, "c", part)


async def test_a_part_over_the_limit_fails_and_leaves_nothing(
    storage: FileStorage, tmp_path: Path
) -> None:
    config = CheckpointingConfig(part_bytes_max=MIB)
    blocks = ((group, bytes(1000)) for group in range(2000))
    with pytest.raises(CheckpointError, match=f"part c/p takes more than {MIB} bytes: raise"):
        await write_part(storage, "c/p", blocks, config)
    assert files_below(tmp_path) == []


async def test_a_part_that_fails_during_capture_leaves_nothing(
    storage: FileStorage, tmp_path: Path
) -> None:
    def failing() -> Iterator[tuple[Label, bytes]]:
        yield 1, bytes(200)
        raise ValueError("cannot be written")

    with pytest.raises(ValueError, match="cannot be written"):
        await write_part(storage, "c/p", failing(), CONFIG)
    assert files_below(tmp_path) == []


async def test_small_blocks_are_joined_and_never_those_of_two_sections(
    storage: FileStorage,
) -> None:
    small = [(group // 1000, bytes([group % 251])) for group in range(2500)]
    large = [(7, bytes(JOINED_BYTES)), (7, b"behind"), (8, b"")]
    part = await written(storage, [*small, *large])
    assert [(section.label, section.size_bytes) for section in part.sections] == [
        (0, 1000),
        (1, 1000),
        (2, 500),
        (7, JOINED_BYTES + 6),
    ]
    await check_part(storage, "c", part)
    found = b"".join([content async for _, content in read_sections(storage, "c", part)])
    assert found == b"".join(block for _, block in [*small, *large])


@pytest.mark.parametrize("change", ["bit", "torn"])
async def test_a_damaged_section_is_found_and_the_others_can_be_read(
    storage: FileStorage, tmp_path: Path, change: str
) -> None:
    part = await written(storage, GROUPS)
    file = tmp_path / "c" / "keyed-0"
    content = bytearray(file.read_bytes())
    content[170:171] = b"" if change == "torn" else b"D"
    file.write_bytes(content)
    assert [one async for one in read_sections(storage, "c", part, {5})] == [GROUPS[2]]
    message = f"^{file} is damaged: the 1 bytes of 9 are not what was written"
    with pytest.raises(CheckpointCorruptedError, match=message):
        assert [one async for one in read_sections(storage, "c", part)]
    with pytest.raises(CheckpointCorruptedError, match=message):
        await check_part(storage, "c", part)
