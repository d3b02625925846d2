"""A list per key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from flinknet.state.list_state import ListState
from flinknet.state.operator_state import OperatorListState
from tests.unit.state.backends import Backends
from tests.unit.state.keys import Key, expiring


def test_a_list_grows_and_is_replaced(backends: Backends) -> None:
    table, key = backends.table(), Key("a")
    state = ListState(table, key)
    assert list(state.get()) == []
    state.add(1)
    state.add_all(number for number in (2, 3))
    assert list(state) == list(state.get()) == [1, 2, 3]
    key.current_key = "b"
    assert list(state) == []
    state.add_all([4])
    key.current_key = "a"
    state.update([5])
    assert list(state) == [5]
    state.update([])
    assert list(state) == []
    assert dict(table.entries()) == {"b": [4]}
    state.clear()


def test_a_list_that_grows_is_not_that_of_a_checkpoint(backends: Backends) -> None:
    table = backends.table()
    state = ListState(table, Key("a"))
    state.add(1)
    capture = table.capture()
    state.add(2)
    assert dict(capture.entries()) == {"a": [1]}
    assert list(state) == [1, 2]


def plain_list(backends: Backends) -> Any:
    return ListState(backends.table(), Key("a"))


def expiring_list(backends: Backends) -> Any:
    return expiring(backends, "list")


def operator_list(backends: Backends) -> Any:
    return OperatorListState()


@pytest.mark.parametrize("make", [plain_list, expiring_list, operator_list])
@pytest.mark.parametrize("method", ["update", "add_all"])
def test_elements_may_be_made_of_the_list_itself(
    backends: Backends, make: Callable[[Backends], Any], method: str
) -> None:
    """The list does not change while its elements are taken: it neither shrinks nor grows without
    end."""
    state = make(backends)

    def odd(elements: Iterable[int]) -> Iterator[int]:
        for one in elements:
            assert list(state.get()) == before, "nothing has changed yet"
            if one % 2:
                yield one

    for take in (lambda: odd(state), lambda: odd(state.get()), lambda: state, state.get):
        state.update([1, 2, 3])
        before = list(state.get())
        taken = list(take())
        getattr(state, method)(take())
        assert list(state.get()) == (taken if method == "update" else before + taken)


@pytest.mark.parametrize("make", [plain_list, expiring_list, operator_list])
@pytest.mark.parametrize("method", ["update", "add_all"])
@pytest.mark.parametrize("before", [[], [1, 2]])
def test_elements_that_cannot_be_had_change_nothing(
    backends: Backends, make: Callable[[Backends], Any], method: str, before: list[int]
) -> None:
    state = make(backends)
    state.update(before)

    def failing() -> Iterator[int]:
        yield 3
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        getattr(state, method)(failing())
    assert list(state.get()) == before
