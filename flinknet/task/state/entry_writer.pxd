import cython


cdef class WrittenGroup:
    cdef public bytearray begun
    cdef public object checksum
    cdef public Py_ssize_t entries
    cdef public list pieces
    cdef public Py_ssize_t size

    cpdef end_run(self, state)


cdef class EntryWriter:
    cdef object _encode
    cdef object _form
    cdef object _max_parallelism
    cdef object _options
    cdef object _pack
    cdef public dict groups
    cdef public object key

    @cython.locals(
        content=bytes, count=Py_ssize_t, packed=bytes, size=Py_ssize_t, written=WrittenGroup
    )
    cpdef Py_ssize_t write(
        self, state, entries, serialised, Py_ssize_t entries_max, Py_ssize_t bytes_max
    ) except -1
    cdef bytes _packed(self, value)


@cython.locals(kind=object)
cdef bint _is_own_form(key)


@cython.locals(kind=object)
cdef bint _is_scalar(value)
