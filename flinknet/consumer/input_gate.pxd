import cython

from flinknet.buffer.availability cimport Availability
from flinknet.buffer.buffer cimport Buffer
from flinknet.buffer.local_pool cimport LocalBufferPool
from flinknet.consumer.input_channel cimport ChannelListener, InputChannel


cdef class InputGate(ChannelListener):
    cdef object __weakref__
    cdef public bint finished
    cdef public bint released
    cdef public bint is_set_up
    cdef public object failure
    cdef public Availability availability
    cdef public Availability priority_availability
    cdef public object _flow_control
    cdef public object _own_address
    cdef public object _network_pool
    cdef public object _queue
    cdef public dict _held
    cdef public bint reader_is_slow
    cdef public Py_ssize_t _unfinished
    cdef public list _on_failed
    cdef public list _on_released
    cdef public Py_ssize_t _exclusive_per_channel
    cdef public object _exclusive_request
    cdef public list _reserve
    cdef public LocalBufferPool _floating_pool
    cdef public list channels
    cdef public object debloating

    cdef _settle_held_credit(self, InputChannel polled)
    cdef _wake(self)
    cdef _prioritize(self, InputChannel channel)
    @cython.locals(channel=InputChannel, polled=tuple, buffer=Buffer)
    cpdef tuple poll(self)


cdef object _NONE
cdef object _PRIORITIZED
cdef object _END_OF_PARTITION
