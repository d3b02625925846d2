cdef class ChannelBuffers:
    cdef public Py_ssize_t exclusive_total
    cdef public Py_ssize_t required
    cdef public bint waiting

    cpdef Py_ssize_t available(self) except -1
    cpdef tuple take(self)
    cpdef require(self, Py_ssize_t number)
    cpdef release_floating(self)
