cdef class BufferBuilder:
    cdef object _segment
    cdef object _recycler
    cdef object _whole
    cdef object _shared
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _continued
    cdef Py_ssize_t _unfinished
    cdef Py_ssize_t _records_taken
    cdef object __weakref__
    cdef public Py_ssize_t end
    cdef public Py_ssize_t remaining
    cdef public Py_ssize_t records
    cdef public Py_ssize_t sharers
    cdef public bint inside_record
    cdef public bint sealed
    cdef public object write

    cpdef bint append_whole(self, object data, bytes head=*, Py_ssize_t records=*)
