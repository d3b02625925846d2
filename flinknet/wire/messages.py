"""The closed set of messages and their fixed layouts, as defined in ``SPEC.md``.

Every message is one flat msgpack array. Its integers have fixed widths, so one ``struct`` call
decodes a header. BUFFER_RESPONSE and ERROR_RESPONSE end with a byte string, and the last header
field is its length. A ``Layout`` is one row of the specification as code: it encodes, decodes and
checks. The array header, type id and type markers never change and are part of the format. A header
with other constants is a protocol violation.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple

__all__ = [
    "BODY_BIN32",
    "BODY_STR16",
    "CONNECTION_CHANNEL",
    "LAYOUTS",
    "PREFIX_BYTES_MAX",
    "Layout",
    "MessageType",
]

CONNECTION_CHANNEL = 0xFFFFFFFF
"""Channel id of an ErrorResponse that concerns the whole connection."""

BODY_BIN32 = 0xC6
BODY_STR16 = 0xDA


class MessageType(IntEnum):
    """Ids of all messages after the handshake; Flink's numbers (NettyMessage) where they exist."""

    BUFFER_RESPONSE = 0
    ERROR_RESPONSE = 1
    PARTITION_REQUEST = 2
    CANCEL_PARTITION_REQUEST = 4
    CLOSE_REQUEST = 5
    ADD_CREDIT = 6
    RESUME_CONSUMPTION = 7
    ACKNOWLEDGE_ALL_RECORDS_PROCESSED = 8
    BACKLOG_ANNOUNCEMENT = 9
    NEW_BUFFER_SIZE = 10
    HEARTBEAT = 12
    ADD_EVENT_CREDIT = 13


Items = Callable[[tuple[Any, ...]], tuple[Any, ...]]
"""Selects some of the items of a header."""


class Layout(NamedTuple):
    """Layout of one message: its struct, the positions of its constants, and its body's marker."""

    message_type: MessageType
    struct: Struct
    constants: tuple[tuple[int, int], ...]
    fields: tuple[int, ...]
    body_marker: int | None
    template: tuple[int | bytes, ...]
    """All items, with 0 for the fields."""
    constants_of: Items
    fields_of: Items

    def encode(self, *values: int | bytes) -> bytes:
        """Pack the variable fields, in order, between the constants."""
        items = list(self.template)
        for position, value in zip(self.fields, values, strict=True):
            items[position] = value
        return self.struct.pack(*items)

    def decode(self, data: bytearray | memoryview, start: int) -> tuple[Any, ...] | None:
        """Return the variable fields, in order; None if a constant differs."""
        items = self.struct.unpack_from(data, start)
        if self.constants_of(items) != self.constants_of(self.template):
            return None
        return self.fields_of(items)


_UINT32 = (0xCE, "I")
_BYTES16 = (0xC4, 16)


def _layout(message_type: MessageType, *kinds: str, body: int | None = None) -> Layout:
    """Build a layout from field kinds: ``u32``, ``u7`` (positive fixint), ``id16`` (16 bytes)."""
    arity = 1 + len(kinds) + (body == BODY_STR16)
    form = ">BB"
    constants = [(0, 0x90 | arity), (1, int(message_type))]
    fields = []
    position = 2
    for kind in kinds:
        if kind == "u32":
            form += "BI"
            constants.append((position, 0xCE))
            position += 1
        elif kind == "id16":
            form += "BB16s"
            constants += [(position, 0xC4), (position + 1, 16)]
            position += 2
        else:
            form += "B"
        fields.append(position)
        position += 1
    if body is not None:
        form += "BI" if body == BODY_BIN32 else "BH"
        constants.append((position, body))
        fields.append(position + 1)
        position += 2
    template = [0] * position
    for place, constant in constants:
        template[place] = constant
    # ``itemgetter`` returns no tuple for one index and needs at least one. A slice serves both
    # cases, because a single field is the last item.
    few = slice(position - len(fields), position)
    return Layout(
        message_type,
        Struct(form),
        tuple(constants),
        tuple(fields),
        body,
        tuple(template),
        itemgetter(*(place for place, _ in constants)),
        itemgetter(*fields) if len(fields) > 1 else itemgetter(few),
    )


LAYOUTS: dict[int, Layout] = {
    layout.message_type: layout
    for layout in (
        # channel, sequence, backlog, data type, continued, unfinished, records; the body is a bin
        # value
        _layout(MessageType.BUFFER_RESPONSE, *["u32"] * 3, "u7", *["u32"] * 3, body=BODY_BIN32),
        # channel, code; then the text as the last element of the array
        _layout(MessageType.ERROR_RESPONSE, "u32", "u7", body=BODY_STR16),
        # channel, partition id, subpartition, initial credit
        _layout(MessageType.PARTITION_REQUEST, "u32", "id16", "u32", "u32"),
        _layout(MessageType.CANCEL_PARTITION_REQUEST, "u32"),
        _layout(MessageType.CLOSE_REQUEST),
        # channel, credit
        _layout(MessageType.ADD_CREDIT, "u32", "u32"),
        _layout(MessageType.RESUME_CONSUMPTION, "u32"),
        _layout(MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, "u32"),
        # channel, backlog
        _layout(MessageType.BACKLOG_ANNOUNCEMENT, "u32", "u32"),
        # channel, size in bytes
        _layout(MessageType.NEW_BUFFER_SIZE, "u32", "u32"),
        _layout(MessageType.HEARTBEAT),
        # channel, events
        _layout(MessageType.ADD_EVENT_CREDIT, "u32", "u32"),
    )
}

PREFIX_BYTES_MAX = max(layout.struct.size for layout in LAYOUTS.values())
