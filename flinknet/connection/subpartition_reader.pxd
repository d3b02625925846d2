cdef class SubpartitionReader:
    cdef public Py_ssize_t _buffer_bytes
    cdef public object _end
    cdef public Py_ssize_t _event_reserve
    cdef public Py_ssize_t _events_max
    cdef public object _owner
    cdef public object _view
    cdef public Py_ssize_t allowance_bytes
    cdef public object channel
    cdef public Py_ssize_t credit
    cdef public Py_ssize_t credit_max
    cdef public Py_ssize_t event_credit
    cdef public Py_ssize_t initial
    cdef public bint needs_credit
    cdef public bint queued
    cdef public object state
    cdef public bint used
    cdef object __weakref__

    cpdef notify_data_available(self)
    cpdef bint available(self)
    cpdef bint may_send(self, data_type)
    cpdef poll(self)
    cpdef add_credit(self, Py_ssize_t credit)
