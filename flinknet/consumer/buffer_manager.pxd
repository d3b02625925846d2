import cython

from flinknet.buffer.local_pool cimport LocalBufferPool
from flinknet.buffer.segment cimport MemorySegment
from flinknet.consumer.channel_buffers cimport ChannelBuffers


cdef class BufferManager(ChannelBuffers):
    cdef public list _exclusive
    cdef public list _floating
    cdef public LocalBufferPool _floating_pool
    cdef public object _network_pool
    cdef public object _on_available
    cdef public bint _released

    @cython.locals(missing=Py_ssize_t, gained=Py_ssize_t)
    cpdef require(self, Py_ssize_t number)
    @cython.locals(exclusive=list, floating=list)
    cpdef recycle(self, MemorySegment segment)
