"""One value per key."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.state.value_state import ValueState
from tests.unit.state.backends import Backends
from tests.unit.state.keys import Key


@pytest.mark.parametrize("key", [1, "a", ("a", 1), None, ["a", 1]], ids=repr)
def test_a_value_is_kept_until_it_is_cleared(backends: Backends, key: Any) -> None:
    """This includes a key that Python cannot hash."""
    value = ValueState(backends.table(), Key(key))
    assert value.value() is None
    value.update(7)
    assert value.value() == 7
    value.update(8)
    assert value.value() == 8
    value.clear()
    assert value.value() is None
    value.clear()


def test_each_key_has_its_own_value(backends: Backends) -> None:
    key = Key("a")
    value = ValueState(backends.table(), key)
    value.update(1)
    key.current_key = "b"
    assert value.value() is None
