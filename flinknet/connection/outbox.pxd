import cython

from flinknet.buffer.buffer cimport Buffer
from flinknet.connection.subpartition_reader cimport SubpartitionReader
from flinknet.consumer.credit cimport ChannelCredit
from flinknet.wire.buffer_header cimport encode_buffer_header, encode_credit


cdef class Outbox:
    cdef public Py_ssize_t control_bytes
    cdef public Py_ssize_t buffers_out
    cdef public Py_ssize_t bytes_out
    cdef public Py_ssize_t credit_messages_out
    cdef public Py_ssize_t _quantum_bytes
    cdef public object on_output
    cdef public list _control
    cdef public dict _credit
    cdef public bint _credit_is_due
    cdef public dict _buffer_sizes
    cdef public object _readers
    cdef public list _in_flight

    cpdef add_reader(self, SubpartitionReader reader)
    @cython.locals(left=Py_ssize_t, frames=list)
    cpdef list next_frames(self, Py_ssize_t budget_bytes)
    @cython.locals(sent=Py_ssize_t, size=Py_ssize_t, more=bint, buffer=Buffer)
    cpdef Py_ssize_t _take_turn(self, SubpartitionReader reader, Py_ssize_t budget_bytes, list frames)
    cpdef _requeue(self, SubpartitionReader reader)
    @cython.locals(account=ChannelCredit, credit=Py_ssize_t)
    cpdef _take_control(self)
    cpdef _join(self, messages)
    @cython.locals(buffer=Buffer)
    cpdef forget_in_flight(self)
