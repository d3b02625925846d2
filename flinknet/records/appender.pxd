import cython

from flinknet.buffer.availability cimport Availability
from flinknet.buffer.builder cimport BufferBuilder
from flinknet.partition.result_partition cimport ResultPartition
from flinknet.records.output cimport BroadcastOutput, Output


cdef class RecordAppender:
    cdef Availability _availability
    cdef BroadcastOutput _broadcast
    cdef object _budget
    cdef object _limits
    cdef object _on_unflushed
    cdef ResultPartition _partition
    cdef _SlowPath _slow_path
    cdef object _wait
    cdef Py_ssize_t _whole_bytes_max
    cdef public Py_ssize_t builders_opened
    cdef public Py_ssize_t builders_resumed
    cdef public bint ended
    cdef public Py_ssize_t records_out
    cdef public bint torn
    cdef public set unflushed

    @cython.locals(filled=BufferBuilder, opened=Py_ssize_t)
    cpdef append(self, Output output, data, bytes head=*)
    @cython.locals(builder=BufferBuilder, size=Py_ssize_t)
    cdef bint _append_at_once(self, Output output, data, bytes head) except -1
    cdef _count(self, Output output)
    @cython.locals(count=Py_ssize_t)
    cdef bint _is_over_budget(self, BufferBuilder filled, Py_ssize_t opened) except -1
    cpdef seal_broadcast(self)
    cdef _resume(self, BufferBuilder builder)


cdef bint _is_cut(BufferBuilder builder, Py_ssize_t size)


cdef class _SlowPath:
    cdef public bint busy
    cdef Availability _free
    cdef object _wait
