cdef class RememberedChannels:
    cdef object _key
    cdef object _owner
    cdef dict _channel_of
    cdef Py_ssize_t _remembered_bytes
    cdef public Py_ssize_t memory_bytes

    cpdef select(self, record)
