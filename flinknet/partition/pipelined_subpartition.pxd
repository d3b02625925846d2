from flinknet.buffer.buffer cimport Buffer
from flinknet.buffer.builder cimport BufferBuilder


cdef class PipelinedSubpartition:
    cdef public Py_ssize_t _backlog
    cdef public bint _blocked
    cdef public Py_ssize_t _buffers_out
    cdef public Py_ssize_t _bytes_dropped
    cdef public Py_ssize_t _bytes_out
    cdef public Py_ssize_t _bytes_superseded
    cdef public Py_ssize_t _event_bytes_max
    cdef public Py_ssize_t _events_max
    cdef public bint _flush_requested
    cdef public object _listener
    cdef public BufferBuilder _open
    cdef public object _owner
    cdef public Py_ssize_t _priority
    cdef public object _queue
    cdef public object _sealed_load
    cdef public Py_ssize_t _taken_bytes
    cdef public Py_ssize_t _taken_records
    cdef public Py_ssize_t buffer_bytes
    cdef public object end
    cdef public Py_ssize_t index
    cdef public bint released
    cdef public Py_ssize_t sequence
    cdef object __weakref__

    cpdef add_builder(self, BufferBuilder builder)
    cpdef seal_open(self)
    cdef Buffer _take_last(self, BufferBuilder builder)
    cdef Buffer _take(self, BufferBuilder builder)
    cpdef flush(self)
    cdef _enqueue(self, Buffer buffer)
    cdef _add_prioritized(self, Buffer buffer)
    cdef _drop(self, Buffer buffer)
    cdef _notify(self)
    cpdef poll(self)
    cpdef next_data_type(self)
    cpdef Py_ssize_t backlog(self)
