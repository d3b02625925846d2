"""Packing with libraries in C and Rust: the fast one, and the other one for values that it
refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgpack
import ormsgpack
import pytest

from flinknet.records.serialization.c_packer import CPacker
from flinknet.records.serialization.record_types import RecordTypes
from tests.plain_module import plain_module
from tests.unit.records.serialization.record_values import Frozen, Point

DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]

FAST = [None, True, -1, 2**64 - 1, 1.5, "text", b"bytes", (1, [2]), {"a": 1}]
OTHERWISE = [{1: "a"}, {(1, 2): "a"}, DEEP, {1: (2, [3])}]


@pytest.fixture
def packer() -> CPacker:
    plain: type[CPacker] = plain_module("flinknet.records.serialization.c_packer").CPacker
    return plain(RecordTypes([Frozen, Point]))


def unpacked(data: bytes) -> Any:
    return msgpack.unpackb(data, use_list=False, strict_map_key=False, timestamp=3)


def tuples(value: Any) -> Any:
    """Return a value with its arrays as tuples, as an unpacker makes them."""
    if isinstance(value, list | tuple):
        return tuple(map(tuples, value))
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize("value", FAST, ids=repr)
def test_most_values_are_packed_by_encode_alone(packer: CPacker, value: Any) -> None:
    data = packer.encode(value, packer.form, packer.options)
    assert data == packer.pack(value)
    assert unpacked(data) == tuples(value)


@pytest.mark.parametrize("value", OTHERWISE, ids=["int keys", "tuple keys", "deep", "in keys"])
def test_values_that_encode_refuses_are_packed_differently(packer: CPacker, value: Any) -> None:
    """It refuses keys that are not text, and more levels than ormsgpack supports."""
    with pytest.raises(TypeError):
        packer.encode(value, packer.form, packer.options)
    data = packer.pack_otherwise(value)
    assert data == packer.pack(value)
    assert unpacked(data) == tuples(value)


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {1: value}])
def test_extensions_are_the_same_either_way(packer: CPacker, wrap: Any) -> None:
    """This includes msgpack's own timestamp."""
    for value in (Frozen(7), Point(1, 2), datetime(2026, 1, 1, tzinfo=UTC), {1}):
        alone = packer.pack(value)
        assert packer.pack(wrap(value)).endswith(alone)


class Unknown:
    """A class that is not registered."""


@pytest.mark.parametrize("value", [Unknown(), [Unknown()], {1: Unknown()}, {Unknown()}])
def test_unserializable_values_are_refused_with_the_reason(packer: CPacker, value: Any) -> None:
    """ormsgpack drops the error of its own hook, but the reason is reported all the same."""
    with pytest.raises(TypeError, match="Unknown has no form on the wire"):
        packer.pack(value)
    assert packer.pack(1) == b"\x01", "what was refused leaves nothing behind"


def test_the_extension_type_of_the_library_is_the_one_of_form(packer: CPacker) -> None:
    assert isinstance(packer.form(Frozen(1)), ormsgpack.Ext)
