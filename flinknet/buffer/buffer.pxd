import cython

from flinknet.buffer.segment cimport MemorySegment


cdef class Buffer:
    cdef public object _payload
    cdef public object _recycler
    cdef public MemorySegment _segment
    cdef public bint _sent
    cdef public Py_ssize_t continued
    cdef public object data_type
    cdef public Py_ssize_t records
    cdef public Py_ssize_t references
    cdef public Py_ssize_t size
    cdef public Py_ssize_t unfinished

    cpdef view(self)
    cpdef view_with_room(self)
    cpdef part(self, Py_ssize_t start, Py_ssize_t size)
    cpdef Buffer retained(self)
    cpdef recycle(self)
    cpdef recycle_sent(self)


cdef class BufferSlice(Buffer):
    cdef public Buffer _shared
    cdef public Py_ssize_t _start

    cdef _leave(self)


@cython.locals(buffer=Buffer)
cpdef Buffer make_pooled_buffer(
    data_type,
    MemorySegment segment,
    recycler,
    Py_ssize_t size,
    Py_ssize_t continued,
    Py_ssize_t unfinished,
    Py_ssize_t records,
)
