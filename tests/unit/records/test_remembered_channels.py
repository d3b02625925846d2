"""The channels of keys: remembered, bounded, and computed as rarely as possible."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.records.key_normalization import remembered_bytes
from flinknet.records.remembered_channels import ENTRY_BYTES, RememberedChannels


class Owner:
    """Returns the channel of a key, and records the keys of its calls."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, key: Any) -> int:
        self.asked.append(key)
        return len(str(key)) % 3


def remembering(memory_bytes: int) -> tuple[RememberedChannels, Owner]:
    owner = Owner()
    return RememberedChannels(lambda record: record[0], owner, memory_bytes), owner


def test_the_owner_of_a_key_is_asked_for_once() -> None:
    channels, owner = remembering(10_000)
    assert [channels.select((key, None)) for key in ("a", "bb", "a", "bb")] == [1, 2, 1, 2]
    assert owner.asked == ["a", "bb"]
    assert channels.keys() == ["a", "bb"]
    channels.forget()
    assert channels.keys() == []


def test_a_text_is_found_without_asking() -> None:
    channels, owner = remembering(10_000)
    assert channels.channel_of_text("bb") == -1
    channels.select(("bb", None))
    assert channels.channel_of_text("bb") == 2
    assert owner.asked == ["bb"]


def test_shares_are_what_select_says() -> None:
    channels, owner = remembering(10_000)
    records = [("a", 1), ("bb", 2), ("a", 3), ("ccc", 4)]
    shares = {1: [("a", 1), ("a", 3)], 2: [("bb", 2)], 0: [("ccc", 4)]}
    assert channels.divide(records) == shares
    assert channels.divide(records) == shares
    assert owner.asked == ["a", "bb", "ccc"]


def test_a_key_without_a_hash_is_asked_for_each_time() -> None:
    channels, owner = remembering(10_000)
    assert channels.divide([(["a"], 1), (["a"], 2)]) == {2: [(["a"], 1), (["a"], 2)]}
    assert owner.asked == [["a"], ["a"]]
    assert channels.keys() == []


def test_when_they_take_too_much_all_are_forgotten() -> None:
    size = remembered_bytes("a")
    assert size is not None
    channels, _ = remembering(2 * (size + ENTRY_BYTES))
    for key in ("a", "b", "c"):
        channels.select((key,))
    assert channels.keys() == ["c"]


def test_a_key_that_takes_more_than_all_may_is_never_remembered() -> None:
    channels, owner = remembering(1_000)
    for _ in range(2):
        channels.select(("x" * 10_000,))
    assert len(owner.asked) == 2
    channels.memory_bytes = 100_000
    channels.select(("x" * 10_000,))
    assert len(channels.keys()) == 1


def test_an_error_of_the_key_is_the_users() -> None:
    channels = RememberedChannels(lambda record: next(iter(record)), Owner(), 10_000)
    with pytest.raises(StopIteration):
        channels.divide([("a",), ()])
