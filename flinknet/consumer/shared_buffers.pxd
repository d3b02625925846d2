from flinknet.buffer.local_pool cimport LocalBufferPool
from flinknet.buffer.segment cimport MemorySegment
from flinknet.consumer.channel_buffers cimport ChannelBuffers


cdef class SharedBuffers(ChannelBuffers):
    cdef public MemorySegment _kept
    cdef public object _on_available
    cdef public LocalBufferPool _pool
    cdef public bint _released
