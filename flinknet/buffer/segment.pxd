cdef class MemorySegment:
    cdef public object _stream
    cdef public Py_ssize_t capacity
    cdef public object memory

    cpdef writer(self)
    cpdef renew(self)
