"""Records are copied where several operators of a chain take the same ones."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.runtime.record_copies import with_copies


def not_called(error: Exception) -> None:
    raise AssertionError from error


@pytest.mark.parametrize("stamped", [False, True])
def test_each_record_is_looked_at(stamped: bool) -> None:
    """That the first of a batch cannot be changed says nothing of the others."""
    kept: list[Any] = []
    values = [("a", None), ("b", ["x"]), {"c": [1]}]
    given: list[Any] = [(7, value) for value in values] if stamped else values
    with_copies(kept.extend, not_called)(given)
    assert kept == given
    copied = [record[1] for record in kept] if stamped else kept
    copied[1][1].append("changed")
    copied[2]["c"].append("changed")
    assert values == [("a", None), ("b", ["x"]), {"c": [1]}]


def test_records_that_cannot_be_changed_are_passed_on_as_they_are() -> None:
    taken: list[Any] = []
    records = [(1, "a"), (2, "b")]
    with_copies(taken.extend, not_called)(records)
    assert list(map(id, taken)) == list(map(id, records))


def test_a_record_that_cannot_be_copied_is_an_error_of_the_operator() -> None:
    class Uncopied:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("only one of me")

    failures: list[Exception] = []
    with_copies(lambda records: None, failures.append)([Uncopied()])
    assert "Uncopied, which can be changed and cannot be copied" in str(failures[0])
    assert "only one of me); get_config().enable_object_reuse()" in str(failures[0])
