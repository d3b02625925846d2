import cython

from flinknet.consumer.remote_channel cimport RemoteInputChannel
from flinknet.wire.buffer_header cimport BufferHeader
from flinknet.wire.codec cimport BufferReceiver


cdef class ChannelRegistry(BufferReceiver):
    cdef public Py_ssize_t buffers_in
    cdef public Py_ssize_t buffers_dropped
    cdef public Py_ssize_t messages_dropped
    cdef public RemoteInputChannel stalled_on
    cdef public bint can_resume
    cdef public Py_ssize_t _events_max
    cdef public bint _credit
    cdef public dict _channels
    cdef public set _failed
    cdef public dict _numbers
    cdef public Py_ssize_t _next_number
    cdef public object number_of
    cdef public RemoteInputChannel _arriving

    @cython.locals(channel=RemoteInputChannel)
    cpdef begin_buffer(self, BufferHeader header)
    @cython.locals(channel=RemoteInputChannel)
    cpdef end_buffer(self)
    cpdef RemoteInputChannel _find(self, number, what)


cdef object _FOR_MEMORY
cdef object _DATA
cdef object _DATA_WITH_CLEAR_END
