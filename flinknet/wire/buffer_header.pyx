"""The BufferResponse and AddCredit headers in C: see ``buffer_header.py``."""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy

from flinknet.buffer.buffer import DataType
from flinknet.errors import RemoteProtocolError
from flinknet.wire.messages import LAYOUTS, MessageType

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

cdef enum:
    BUFFER_ARRAY = 0x98
    BUFFER_RESPONSE = 0
    BUFFER_BYTES = 38
    CREDIT_ARRAY = 0x93
    ADD_CREDIT = 6
    CREDIT_MESSAGE_BYTES = 12
    UINT32_MARKER = 0xCE
    BIN32_MARKER = 0xC6

BUFFER_PREFIX_BYTES = BUFFER_BYTES
CREDIT_BYTES = CREDIT_MESSAGE_BYTES
assert BUFFER_PREFIX_BYTES == LAYOUTS[MessageType.BUFFER_RESPONSE].struct.size
assert CREDIT_BYTES == LAYOUTS[MessageType.ADD_CREDIT].struct.size

cdef tuple DATA_TYPES = tuple(DataType)


cdef class BufferHeader:
    """Header of a BufferResponse."""

    def __init__(
        self,
        channel,
        sequence,
        backlog,
        data_type,
        size,
        continued=0,
        unfinished=0,
        records=0,
    ):
        self.channel = channel
        self.sequence = sequence
        self.backlog = backlog
        self.data_type = data_type
        self.size = size
        self.continued = continued
        self.unfinished = unfinished
        self.records = records


cdef inline unsigned char *put_uint32(unsigned char *place, unsigned int value) noexcept:
    """Write a number with its marker, and return the address behind it."""
    place[0] = UINT32_MARKER
    put_bytes(place + 1, value)
    return place + 5


cdef inline void put_bytes(unsigned char *place, unsigned int value) noexcept:
    place[0] = value >> 24
    place[1] = (value >> 16) & 0xFF
    place[2] = (value >> 8) & 0xFF
    place[3] = value & 0xFF


cdef inline unsigned int uint32_at(const unsigned char *place) noexcept:
    return (
        (<unsigned int>place[0] << 24)
        | (<unsigned int>place[1] << 16)
        | (<unsigned int>place[2] << 8)
        | place[3]
    )


cpdef bytes encode_buffer_header(
    unsigned int channel,
    unsigned int sequence,
    unsigned int backlog,
    int data_type,
    unsigned int size,
    unsigned int continued=0,
    unsigned int unfinished=0,
    unsigned int records=0,
):
    """Encode the header of a BufferResponse."""
    cdef bytes header = PyBytes_FromStringAndSize(NULL, BUFFER_BYTES)
    cdef unsigned char *place = <unsigned char *>PyBytes_AS_STRING(header)
    place[0] = BUFFER_ARRAY
    place[1] = BUFFER_RESPONSE
    place = put_uint32(place + 2, channel)
    place = put_uint32(place, sequence)
    place = put_uint32(place, backlog)
    place[0] = data_type
    place = put_uint32(place + 1, continued)
    place = put_uint32(place, unfinished)
    place = put_uint32(place, records)
    place[0] = BIN32_MARKER
    put_bytes(place + 1, size)
    return header


cpdef BufferHeader read_buffer_header(bytearray data, Py_ssize_t start):
    """Decode the header of a BufferResponse; None if another message begins there."""
    cdef const unsigned char *place
    cdef int ordinal
    if start < 0 or PyByteArray_GET_SIZE(data) - start < BUFFER_BYTES:
        raise ValueError("the header is cut off")
    place = <const unsigned char *>PyByteArray_AS_STRING(data) + start
    if place[1] != BUFFER_RESPONSE or place[0] != BUFFER_ARRAY:
        return None
    if (
        place[2] != UINT32_MARKER
        or place[7] != UINT32_MARKER
        or place[12] != UINT32_MARKER
        or place[18] != UINT32_MARKER
        or place[23] != UINT32_MARKER
        or place[28] != UINT32_MARKER
        or place[33] != BIN32_MARKER
    ):
        raise RemoteProtocolError("the peer sent a BUFFER_RESPONSE header of the wrong form")
    ordinal = place[17]
    if not 0 < ordinal < len(DATA_TYPES):
        raise RemoteProtocolError(f"the peer sent a buffer of unknown data type {ordinal}")
    cdef BufferHeader header = BufferHeader.__new__(BufferHeader)
    header.channel = uint32_at(place + 3)
    header.sequence = uint32_at(place + 8)
    header.backlog = uint32_at(place + 13)
    header.data_type = DATA_TYPES[ordinal]
    header.continued = uint32_at(place + 19)
    header.unfinished = uint32_at(place + 24)
    header.records = uint32_at(place + 29)
    header.size = uint32_at(place + 34)
    return header


cpdef bytes encode_credit(unsigned int channel, unsigned int credit):
    """Encode an AddCredit message."""
    cdef bytes message = PyBytes_FromStringAndSize(NULL, CREDIT_MESSAGE_BYTES)
    cdef unsigned char *place = <unsigned char *>PyBytes_AS_STRING(message)
    place[0] = CREDIT_ARRAY
    place[1] = ADD_CREDIT
    put_uint32(put_uint32(place + 2, channel), credit)
    return message


cpdef tuple read_credit(bytearray data, Py_ssize_t start):
    """Decode the channel and credit of an AddCredit; None if another message begins there."""
    cdef const unsigned char *place
    if start < 0 or PyByteArray_GET_SIZE(data) - start < CREDIT_MESSAGE_BYTES:
        raise ValueError("the message is cut off")
    place = <const unsigned char *>PyByteArray_AS_STRING(data) + start
    if place[1] != ADD_CREDIT or place[0] != CREDIT_ARRAY:
        return None
    if place[2] != UINT32_MARKER or place[7] != UINT32_MARKER:
        raise RemoteProtocolError("the peer sent an ADD_CREDIT header of the wrong form")
    return uint32_at(place + 3), uint32_at(place + 8)


cpdef copy_body(data, Py_ssize_t start, Py_ssize_t end, body, Py_ssize_t filled):
    """Copy ``data[start:end]`` into a body, behind its first ``filled`` bytes."""
    cdef Py_buffer source, target
    PyObject_GetBuffer(data, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(body, &target, PyBUF_WRITABLE)
        try:
            if not (0 <= start <= end <= source.len and 0 <= filled <= target.len - (end - start)):
                raise ValueError("a body has no place for what was read")
            memcpy(<char *>target.buf + filled, <char *>source.buf + start, end - start)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)
