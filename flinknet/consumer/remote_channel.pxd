import cython

from flinknet.buffer.buffer cimport Buffer, make_pooled_buffer
from flinknet.buffer.segment cimport MemorySegment
from flinknet.consumer.channel_buffers cimport ChannelBuffers
from flinknet.consumer.credit cimport ChannelCredit
from flinknet.consumer.input_channel cimport InputChannel
from flinknet.wire.buffer_header cimport BufferHeader


cdef class RemoteInputChannel(InputChannel):
    cdef public ChannelBuffers manager
    cdef public ChannelCredit credit
    cdef public Py_ssize_t sender_backlog
    cdef public bint blocked
    cdef public Py_ssize_t events_queued
    cdef public Py_ssize_t events_untold
    cdef public object _arrived
    cdef public object _client
    cdef public Py_ssize_t _expected_sequence
    cdef public object _queue
    cdef public MemorySegment _arriving_segment
    cdef public object _arriving_recycler
    cdef public bytearray _arriving_event
    cdef public BufferHeader _arriving_header

    @cython.locals(segment=MemorySegment, is_data=bint)
    cpdef begin_buffer(self, BufferHeader header)
    @cython.locals(header=BufferHeader, segment=MemorySegment, buffer=Buffer, is_data=bint)
    cpdef end_buffer(self)
    cdef Buffer _end_event(self, BufferHeader header)
    @cython.locals(buffer=Buffer)
    cdef _add_event(self, tuple received)
    cdef _add_prioritized(self, tuple received)
    cdef _count_taken_event(self)
    cpdef abort_buffer(self)
    @cython.locals(received=tuple, buffer=Buffer)
    cpdef tuple poll(self)
    cpdef _on_buffers_available(self, Py_ssize_t number)
    @cython.locals(credit=ChannelCredit, is_busy=bint)
    cdef _settle_credit(self, Py_ssize_t number)
    cpdef announce_credit(self)
    cpdef settle_held_credit(self)


cdef object _NONE
cdef Py_ssize_t _SEQUENCE_MAX
cdef object _DATA
cdef object _DATA_WITH_CLEAR_END
cdef object _PRIORITIZED
cdef object _OPEN
cdef object _COMPLETE
cdef object _RELEASED
cdef object _NO_CREDIT
cdef object _HELD
cdef object _DUE
