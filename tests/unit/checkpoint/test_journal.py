"""Entries of the journal: their content and their paths."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.checkpoint.envelope import put_in_envelope
from flinknet.checkpoint.journal import (
    Entry,
    decode_entry,
    encode_entry,
    entry_number,
    entry_path,
)
from flinknet.errors import CheckpointCorruptedError


@pytest.mark.parametrize("entry", [Entry(0), Entry(3, "checkpoint-7-attempt-3")])
def test_an_entry_comes_back(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry), "e") == entry


def test_paths_are_in_order() -> None:
    numbers = [0, 9, 10, 12_345]
    assert sorted(map(entry_path, reversed(numbers))) == [*map(entry_path, numbers)]
    assert [entry_number(entry_path(number)) for number in numbers] == numbers


@pytest.mark.parametrize("path", ["journal/1", "journal/.00000000000000000001.x", "metadata"])
def test_another_file_is_no_entry(path: str) -> None:
    assert entry_number(path) is None


@pytest.mark.parametrize(
    "content",
    [
        {"what": "checkpoint", "attempt": 1},
        {"what": "entry"},
        {"what": "entry", "attempt": -1},
        {"what": "entry", "attempt": True},
        {"what": "entry", "attempt": 1, "completed": 3},
    ],
)
def test_an_invalid_entry_is_refused_with_its_name(content: dict[str, Any]) -> None:
    with pytest.raises(CheckpointCorruptedError, match="^journal/7 (is not|does not name)"):
        decode_entry(put_in_envelope(content, 1024), "journal/7")
