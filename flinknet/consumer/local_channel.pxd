import cython

from flinknet.buffer.buffer cimport Buffer
from flinknet.consumer.input_channel cimport InputChannel


cdef class LocalInputChannel(InputChannel):
    cdef public object _view
    cdef public object _announcement

    cpdef notify_data_available(self)
    @cython.locals(buffer=Buffer)
    cpdef tuple poll(self)


cdef object _NONE
cdef object _OPEN
