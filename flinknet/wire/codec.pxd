import cython

from flinknet.wire.buffer_header cimport BufferHeader, copy_body, read_buffer_header, read_credit


cdef class BufferReceiver:
    cpdef begin_buffer(self, BufferHeader header)
    cpdef end_buffer(self)


cdef class FrameDecoder:
    cdef public object _body
    cdef public Py_ssize_t _body_filled
    cdef public Py_ssize_t _body_missing
    cdef public Py_ssize_t _end
    cdef public object _failure
    cdef public object _limits
    cdef public object _memory
    cdef public Py_ssize_t _segment_bytes
    cdef public Py_ssize_t _start
    cdef public bint _turn_ends
    cdef public Py_ssize_t _turn_messages_max
    cdef public bint _waiting
    cdef public BufferReceiver buffers
    cdef public bint has_more
    cdef public object receiver

    cdef bytearray _content(self)
    @cython.locals(
        _=Py_ssize_t, position=Py_ssize_t, missing=bint, header=BufferHeader, given=tuple
    )
    cdef Py_ssize_t _decode(self, bytearray data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef _layout(self, array_header, type_id)
    @cython.locals(body_start=Py_ssize_t, body_end=Py_ssize_t, here=Py_ssize_t)
    cdef Py_ssize_t _begin_buffer(
        self, BufferHeader header, Py_ssize_t start, Py_ssize_t end
    ) except -1
    @cython.locals(
        size=Py_ssize_t, continued=Py_ssize_t, unfinished=Py_ssize_t, records=Py_ssize_t, limit=Py_ssize_t
    )
    cdef _check_buffer(self, BufferHeader header)
    cdef _check_text(self, Py_ssize_t size)
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t _continue_body(self, Py_ssize_t start, Py_ssize_t end) except -1
    cdef Py_ssize_t _control(self, bytearray data, Py_ssize_t start, Py_ssize_t end) except -1
