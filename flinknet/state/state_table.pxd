import cython


cdef class Front(dict):
    cdef public bint copies
    cdef public set deleted
    cdef list _below
    cdef object _copy

    cdef _taken_from_below(self, key)
    cdef _found_below(self, key)


@cython.locals(entries_max=Py_ssize_t)
cdef _move(Front upper, dict base, entries_max)
