"""A layout is one row of the specification: it encodes, decodes and checks."""

from __future__ import annotations

import msgpack
import pytest

from flinknet.wire.messages import (
    BODY_BIN32,
    BODY_STR16,
    LAYOUTS,
    PREFIX_BYTES_MAX,
    Layout,
    MessageType,
)

every_layout = pytest.mark.parametrize(
    "layout", LAYOUTS.values(), ids=lambda layout: layout.message_type.name
)


def values_for(layout: Layout) -> list[int | bytes]:
    """Return a value for each field, no two of which can be confused."""
    values: list[int | bytes] = [40 + index for index in range(len(layout.fields))]
    if layout.message_type is MessageType.PARTITION_REQUEST:
        values[1] = bytes(range(16))
    if layout.body_marker is not None:
        values[-1] = 0  # no bytes follow
    return values


def test_every_message_has_a_layout() -> None:
    assert LAYOUTS.keys() == set(MessageType)
    assert all(layout.message_type == number for number, layout in LAYOUTS.items())


@every_layout
def test_a_message_is_one_array_of_its_type_and_fields(layout: Layout) -> None:
    """Every msgpack reader decodes it so.

    The length of a body belongs to the body, which may be empty.
    """
    values = values_for(layout)
    read = msgpack.unpackb(layout.encode(*values)) if layout.body_marker != BODY_BIN32 else None
    match layout.body_marker:
        case None:
            assert read == [layout.message_type, *values]
        case _ if layout.body_marker == BODY_STR16:
            assert read == [layout.message_type, *values[:-1], ""]
        case _:  # the body is a value of its own, behind the array
            unpacker = msgpack.Unpacker()
            unpacker.feed(layout.encode(*values))
            assert list(unpacker) == [[layout.message_type, *values[:-1]], b""]


@every_layout
def test_encoded_messages_are_decoded_in_place(layout: Layout) -> None:
    values = values_for(layout)
    data = memoryview(b"before" + layout.encode(*values) + b"behind")
    assert layout.decode(data, 6) == tuple(values)


@every_layout
def test_a_changed_constant_is_refused(layout: Layout) -> None:
    items = list(layout.template)
    for field, value in zip(layout.fields, values_for(layout), strict=True):
        items[field] = value
    for place, constant in layout.constants:
        changed = [*items[:place], constant ^ 0x7F, *items[place + 1 :]]
        assert layout.decode(memoryview(layout.struct.pack(*changed)), 0) is None


@every_layout
def test_a_field_too_few_or_too_many_is_a_mistake_of_the_caller(layout: Layout) -> None:
    values = values_for(layout)
    for wrong in (values[1:], [*values, 0]):
        if len(wrong) != len(values):
            with pytest.raises(ValueError, match="zip"):
                layout.encode(*wrong)


def test_headers_are_short() -> None:
    assert PREFIX_BYTES_MAX <= 64
