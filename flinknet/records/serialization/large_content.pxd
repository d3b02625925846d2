cdef class LargeContent:
    cdef readonly Py_ssize_t length
    cdef readonly Py_ssize_t size
    cdef bytes _content

    cpdef append(self, data, Py_ssize_t start, Py_ssize_t end)
    cpdef bytes part(self, Py_ssize_t start, Py_ssize_t end)
    cpdef bytes take(self)
