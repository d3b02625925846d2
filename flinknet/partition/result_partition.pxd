from flinknet.buffer.availability cimport Availability
from flinknet.buffer.builder cimport BufferBuilder
from flinknet.buffer.local_pool cimport LocalBufferPool


cdef class ResultPartition:
    cdef object __weakref__
    cdef public object partition_id
    cdef public Py_ssize_t segment_bytes
    cdef public bint finished
    cdef public bint released
    cdef public bint closed
    cdef public bint writable
    cdef public object kept_failure
    cdef public object lost
    cdef public Availability all_data_processed
    cdef public Availability room_for_events
    cdef public Availability all_consumed
    cdef public bint _end_of_data
    cdef public Py_ssize_t readers_missing
    cdef public Py_ssize_t _unfinished
    cdef public Py_ssize_t _unacknowledged
    cdef public BufferBuilder _broadcast_builder
    cdef public Py_ssize_t _repeated_bytes
    cdef public list _on_released
    cdef public object _barrier
    cdef public LocalBufferPool _pool
    cdef public list subpartitions

    cpdef BufferBuilder request_builder(self, Py_ssize_t index, BufferBuilder filled=*)
