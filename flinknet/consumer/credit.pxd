cdef class ChannelCredit:
    cdef public object state
    cdef public Py_ssize_t unannounced

    cpdef add(self, Py_ssize_t number)
    cpdef settle(
        self,
        Py_ssize_t number,
        Py_ssize_t free,
        Py_ssize_t queued,
        Py_ssize_t backlog,
        bint is_busy,
    )
    cpdef bint announce(self)
    cpdef Py_ssize_t take(self) except -1
    cpdef drop(self)


cdef object _NONE
cdef object _OFFERED
cdef object _HELD
cdef object _DUE
