"""The entry of the key in progress, found by any equal key."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from flinknet.state.value_state import ValueState
from tests.unit.state.backends import Backends
from tests.unit.state.keys import Key


@pytest.mark.parametrize(
    ("one", "same"), [(1, 1.0), (("a", 1), ["a", 1]), (nan, float("nan")), (b"a", bytearray(b"a"))]
)
@pytest.mark.parametrize("captured", [False, True])
def test_keys_that_arrive_as_equal_share_an_entry(
    backends: Backends, one: Any, same: Any, captured: bool
) -> None:
    """They go to one subtask, so they must be one key there."""
    table, key = backends.table(), Key(one)
    value = ValueState(table, key)
    value.update("kept")
    if captured:
        table.capture()
    key.current_key = same
    assert value.value() == "kept"
    value.update("changed")
    assert [kept for _, kept in table.entries()] == ["changed"]
    value.clear()
    assert value.value() is None
    assert len(table) == 0
