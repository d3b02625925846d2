cdef class LargeContent:
    cdef readonly Py_ssize_t length
    cdef readonly Py_ssize_t size
    cdef bytes _content

    cpdef append(self, data, Py_ssize_t start, Py_ssize_t end)
    cpdef bytes content(self)
    cpdef bytes take(self)
