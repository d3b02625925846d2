cdef class RoundRobin:
    cdef Py_ssize_t _channels
    cdef Py_ssize_t _next


cdef RoundRobin turns_behind(select)


cdef inline Py_ssize_t take_turn(RoundRobin turns) noexcept:
    """Return the next channel, for callers that know the class."""
    cdef Py_ssize_t channel = turns._next
    turns._next = channel + 1 if channel + 1 < turns._channels else 0
    return channel
