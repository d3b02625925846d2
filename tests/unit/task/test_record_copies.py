"""Records are copied between two operators of a task if they can be changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from flinknet.task.record_copies import may_change, with_copies
from flinknet.task.row import Row


def not_called(error: Exception) -> None:
    raise AssertionError from error


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Fixed:
    value: Any


@dataclass
class Open:
    value: Any


@pytest.mark.parametrize(
    "value", [1, "a", None, (1, ("a", None)), frozenset((1,)), Colour.RED, Fixed((1, 2))]
)
def test_what_cannot_change(value: Any) -> None:
    assert not may_change(value)


@pytest.mark.parametrize("value", [[], {}, {1}, Row(1), (1, [2]), Open(1), Fixed([1])])
def test_what_can_change(value: Any) -> None:
    assert may_change(value)


@pytest.mark.parametrize("stamped", [False, True])
def test_records_that_can_change_are_copied(stamped: bool) -> None:
    kept: list[Any] = []
    process = with_copies(kept.extend, not_called, stamped=stamped)
    records = [{"a": [1]}, {"a": [2]}]
    given: list[Any] = [(7, record) for record in records] if stamped else records
    process(given)
    assert kept == given
    values = [record[1] for record in kept] if stamped else kept
    values[0]["a"].append(3)
    assert records[0] == {"a": [1]}


def test_others_are_passed_on_as_they_are() -> None:
    taken: list[Any] = []
    records = [(1, "a"), (2, "b")]
    with_copies(taken.append, not_called, stamped=False)(records)
    assert taken[0] is records


def test_what_cannot_be_copied_is_an_error_of_the_operator() -> None:
    class Uncopied:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("only one of me")

    failures: list[Exception] = []
    with_copies(lambda records: None, failures.append, stamped=False)([Uncopied()])
    assert str(failures[0]) == "only one of me"
