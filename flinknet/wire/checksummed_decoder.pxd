import cython

from flinknet.wire.buffer_header cimport BufferHeader, copy_body, read_buffer_header
from flinknet.wire.checksum cimport crc32c_between, decode_trailer
from flinknet.wire.codec cimport FrameDecoder


cdef class ChecksummedFrameDecoder(FrameDecoder):
    cdef public unsigned int _crc
    cdef public bint _trailer_due
    cdef public object _violation

    @cython.locals(
        _=Py_ssize_t,
        position=Py_ssize_t,
        message_end=Py_ssize_t,
        missing=bint,
    )
    cdef Py_ssize_t _decode(self, bytearray data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef Py_ssize_t _control_bytes(self, bytearray data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(body_start=Py_ssize_t, size=Py_ssize_t, header=BufferHeader)
    cdef Py_ssize_t _begin_message_with_body(
        self, bytearray data, Py_ssize_t start, Py_ssize_t end
    ) except -1
    cdef Py_ssize_t _continue_body(self, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t _take_body(
        self, Py_ssize_t begin, Py_ssize_t start, Py_ssize_t end
    ) except -1
    cdef _check(self, unsigned int crc, Py_ssize_t trailer_start)
