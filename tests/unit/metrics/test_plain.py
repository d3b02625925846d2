"""Statistics round-trip as msgpack and as JSON; other values are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack
import pytest

from flinknet.metrics.plain import from_plain, row_of, to_plain


class Part(NamedTuple):
    name: str
    share: float


@dataclass(frozen=True)
class Counted:
    records: int


class Whole(NamedTuple):
    count_in: int
    running: bool
    parts: tuple[Part, ...]
    best: Part | None
    counted: Counted


WHOLES = [
    Whole(3, True, (Part("a", 0.5), Part("b", 2.0)), Part("a", 0.5), Counted(7)),
    Whole(0, False, (), None, Counted(0)),
]


@pytest.mark.parametrize("whole", WHOLES)
def test_an_array_on_the_wire_is_the_named_tuple_again(whole: Whole) -> None:
    assert from_plain(Whole, msgpack.unpackb(msgpack.packb(whole, default=row_of))) == whole


@pytest.mark.parametrize("whole", WHOLES)
def test_json_has_names_and_is_the_named_tuple_again(whole: Whole) -> None:
    text = json.dumps(to_plain(whole))
    assert '"count_in"' in text
    assert from_plain(Whole, json.loads(text)) == whole


def test_a_whole_number_may_stand_for_a_number() -> None:
    assert from_plain(Part, ["a", 1]) == Part("a", 1)


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        {},
        ["a"],
        ["a", 0.5, "more"],
        ["a", "0.5"],
        ["a", True],
        [7, 0.5],
        {"name": "a"},
        {"name": "a", "part": 0.5},
    ],
)
def test_what_is_no_part_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^no(t of type)? "):
        from_plain(Part, value)


@pytest.mark.parametrize("parts", [None, "ab", {"name": "a"}, [["a", 0.5], 7]])
def test_what_is_no_row_of_parts_is_refused(parts: Any) -> None:
    with pytest.raises(ValueError, match=r"^no(t an array| Part)"):
        from_plain(Whole, [1, True, parts, None, [7]])


def test_a_refusal_shows_little_of_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="no Part") as refusal:
        from_plain(Part, ["x" * 10_000])
    assert len(str(refusal.value)) < 200
