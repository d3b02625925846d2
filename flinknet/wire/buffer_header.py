"""The two headers that come with every buffer: a BufferResponse's, and an AddCredit's.

They are written and read here by hand, each with one call; ``messages.py`` has the layout. The
``.pyx`` beside this module is the same for C, where a header is read without a Python object for
each of its bytes and numbers.
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
    """What a BufferResponse says about its body.

    ``continued`` bytes at its start go on with a record of the buffer before (Flink's partial
    record length), ``unfinished`` bytes at its end begin one that goes on in the next. Between
    them stand ``records`` whole records.
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
    """Encode the header of a BufferResponse, whose fields are those of ``BufferHeader``; ``size``
    bytes of body must follow."""
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
    """Take apart the header of a BufferResponse, if one begins at ``start``; there are
    BUFFER_PREFIX_BYTES at least. Raises RemoteProtocolError if it is none that is ever sent,
    whatever the limits are."""
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
    """Encode an AddCredit."""
    return _CREDIT_STRUCT.pack(_CREDIT_ARRAY, _ADD_CREDIT, 0xCE, channel, 0xCE, credit)


def read_credit(data: bytearray, start: int) -> tuple[int, int] | None:
    """Take the channel and the credit out of an AddCredit, if one begins at ``start``; there are
    CREDIT_BYTES at least. Raises RemoteProtocolError if its form is wrong."""
    if data[start + 1] != _ADD_CREDIT or data[start] != _CREDIT_ARRAY:
        return None
    _, _, mark1, channel, mark2, credit = _unpack_credit(data, start)
    if not mark1 == mark2 == 0xCE:
        raise RemoteProtocolError(_WRONG_CREDIT)
    return channel, credit


def copy_body(data: memoryview, start: int, end: int, body: memoryview, filled: int) -> None:
    """Copy bytes that have been read to their place in a body, of which ``filled`` are there."""
    body[filled : filled + end - start] = data[start:end]
