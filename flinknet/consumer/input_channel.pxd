from flinknet.buffer.buffer cimport Buffer


cdef class ChannelListener:
    cdef public object name

    cpdef bint is_busy(self) except -1
    cpdef notify_channel_non_empty(self, InputChannel channel, bint priority=*)
    cpdef hold_credit(self, InputChannel channel)
    cpdef announce_held_credit(self)


cdef class InputChannel:
    cdef object __weakref__
    cdef public Py_ssize_t index
    cdef public object location
    cdef public object drained
    cdef public bint queued_in_gate
    cdef public object end
    cdef public object state
    cdef public object error
    cdef public Py_ssize_t buffers_in
    cdef public Py_ssize_t bytes_in
    cdef public ChannelListener _listener
    cdef public object _persister

    cpdef tuple poll(self)
    cpdef announce_credit(self)
    cpdef settle_held_credit(self)
    cdef _count(self, Buffer buffer)
    cdef _take_step(self, Buffer buffer)
