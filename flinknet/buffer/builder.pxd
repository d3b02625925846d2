from flinknet.buffer.buffer cimport Buffer, BufferSlice
from flinknet.buffer.segment cimport MemorySegment


cdef class BufferBuilder:
    cdef public MemorySegment _segment
    cdef public object _recycler
    cdef public Buffer _whole
    cdef public Buffer _shared
    cdef public Py_ssize_t _capacity
    cdef public Py_ssize_t _continued
    cdef public Py_ssize_t _unfinished
    cdef public Py_ssize_t _records_taken
    cdef object __weakref__
    cdef public Py_ssize_t end
    cdef public Py_ssize_t remaining
    cdef public Py_ssize_t records
    cdef public Py_ssize_t sharers
    cdef public bint inside_record
    cdef public bint sealed
    cdef public object write

    cpdef bint append_whole(self, object data, bytes head=*, Py_ssize_t records=*)
    cpdef Py_ssize_t append(self, data, bytes head=*, bint continues=*) except -1
    cpdef expand(self, Py_ssize_t size)
    cpdef resume(self)
    cpdef bint has_large_records(self)
    cpdef Buffer take(self, Py_ssize_t start, Py_ssize_t records)
    cpdef Buffer seal(self, Py_ssize_t start=*, Py_ssize_t records=*)
    cdef Buffer _make_buffer(self)
    cdef BufferSlice _slice(self, Buffer shared, Py_ssize_t start, Py_ssize_t records)
    cdef BufferSlice _shared_slice(self, Py_ssize_t start, Py_ssize_t records)
