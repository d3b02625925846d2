"""The BufferResponse and AddCredit headers, which accompany every buffer.

They are encoded and decoded here by hand, with one call each; ``messages.py`` defines their layout.
The compiled version (``buffer_header.pyx``) creates no Python object for each byte and number of a
header.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import NamedTuple

from flinknet.buffer.buffer import DataType
from flinknet.errors import RemoteProtocolError
from flinknet.wire.messages import BODY_BIN32, LAYOUTS, MessageType

__all__ = [
    "BUFFER_PREFIX_BYTES",
    "CREDIT_BYTES",
    "BufferHeader",
    "copy_body",
    "encode_buffer_header",
    "encode_credit",
    "read_buffer_header",
    "read_credit",
]


class BufferHeader(NamedTuple):
    """Header of a BufferResponse.

    The first ``continued`` bytes of the body continue a record of the previous buffer (Flink's
    partial record length). The last ``unfinished`` bytes begin a record that continues in the next
    buffer. Between them are ``records`` whole records.
    """

    channel: int
    sequence: int
    backlog: int
    data_type: DataType
    size: int
    continued: int = 0
    unfinished: int = 0
    records: int = 0


_BUFFER_LAYOUT = LAYOUTS[MessageType.BUFFER_RESPONSE]
_BUFFER_STRUCT: Struct = _BUFFER_LAYOUT.struct
BUFFER_PREFIX_BYTES: int = _BUFFER_STRUCT.size
_BUFFER_ARRAY, _BUFFER_RESPONSE = (constant for _, constant in _BUFFER_LAYOUT.constants[:2])
_unpack_buffer = _BUFFER_STRUCT.unpack_from
# Called for every buffer. A NamedTuple's own constructor is a slower Python function.
_make_header = partial(tuple.__new__, BufferHeader)
_CREDIT_LAYOUT = LAYOUTS[MessageType.ADD_CREDIT]
_CREDIT_STRUCT: Struct = _CREDIT_LAYOUT.struct
CREDIT_BYTES: int = _CREDIT_STRUCT.size
_unpack_credit = _CREDIT_STRUCT.unpack_from
_CREDIT_ARRAY, _ADD_CREDIT = (constant for _, constant in _CREDIT_LAYOUT.constants[:2])
_DATA_TYPES: tuple[DataType, ...] = tuple(DataType)
_WRONG_BUFFER = "the peer sent a BUFFER_RESPONSE header of the wrong form"
_WRONG_CREDIT = "the peer sent an ADD_CREDIT header of the wrong form"


def encode_buffer_header(
    channel: int,
    sequence: int,
    backlog: int,
    data_type: DataType,
    size: int,
    continued: int = 0,
    unfinished: int = 0,
    records: int = 0,
) -> bytes:
    """Encode the header of a BufferResponse; ``size`` bytes of body must follow.

    The arguments are the fields of ``BufferHeader``.
    """
    # 0xCE is the msgpack marker of a 32-bit unsigned integer.
    return _BUFFER_STRUCT.pack(
        _BUFFER_ARRAY,
        _BUFFER_RESPONSE,
        0xCE,
        channel,
        0xCE,
        sequence,
        0xCE,
        backlog,
        data_type,
        0xCE,
        continued,
        0xCE,
        unfinished,
        0xCE,
        records,
        BODY_BIN32,
        size,
    )


def read_buffer_header(data: bytearray, start: int) -> BufferHeader | None:
    """Decode the header of a BufferResponse; None if another message begins at ``start``.

    At least BUFFER_PREFIX_BYTES must be present.

    Raises:
        RemoteProtocolError: If the header is invalid under any limits.
    """
    if data[start + 1] != _BUFFER_RESPONSE or data[start] != _BUFFER_ARRAY:
        return None
    (
        _,
        _,
        mark1,
        channel,
        mark2,
        sequence,
        mark3,
        backlog,
        ordinal,
        mark4,
        continued,
        mark5,
        unfinished,
        mark6,
        records,
        body_mark,
        size,
    ) = _unpack_buffer(data, start)
    if not (mark1 == mark2 == mark3 == mark4 == mark5 == mark6 == 0xCE and body_mark == BODY_BIN32):
        raise RemoteProtocolError(_WRONG_BUFFER)
    if not 0 < ordinal < len(_DATA_TYPES):
        raise RemoteProtocolError(f"the peer sent a buffer of unknown data type {ordinal}")
    return _make_header(
        (
            channel,
            sequence,
            backlog,
            _DATA_TYPES[ordinal],
            size,
            continued,
            unfinished,
            records,
        )
    )


def encode_credit(channel: int, credit: int) -> bytes:
    """Encode an AddCredit message."""
    return _CREDIT_STRUCT.pack(_CREDIT_ARRAY, _ADD_CREDIT, 0xCE, channel, 0xCE, credit)


def read_credit(data: bytearray, start: int) -> tuple[int, int] | None:
    """Decode the channel and credit of an AddCredit; None if another message begins at ``start``.

    At least CREDIT_BYTES must be present.

    Raises:
        RemoteProtocolError: If its form is wrong.
    """
    if data[start + 1] != _ADD_CREDIT or data[start] != _CREDIT_ARRAY:
        return None
    _, _, mark1, channel, mark2, credit = _unpack_credit(data, start)
    if not mark1 == mark2 == 0xCE:
        raise RemoteProtocolError(_WRONG_CREDIT)
    return channel, credit


def copy_body(data: memoryview, start: int, end: int, body: memoryview, filled: int) -> None:
    """Copy ``data[start:end]`` into a body, behind its first ``filled`` bytes."""
    body[filled : filled + end - start] = data[start:end]
