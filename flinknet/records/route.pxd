import cython

from flinknet.buffer.builder cimport BufferBuilder
from flinknet.records.appender cimport RecordAppender
from flinknet.records.output cimport Output


cdef class RecordRoute:
    cdef RecordAppender _appender
    cdef object _blocks
    cdef object _encode
    cdef object _form
    cdef object _options
    cdef list _outputs
    cdef object _packer
    cdef bint _large
    cdef Py_ssize_t _records_between_turns
    cdef Py_ssize_t _turn_at
    cdef public Py_ssize_t records_out

    cpdef emit(self, record)
    cdef object _append_packed(self, Output output, bytes data)
    cdef object _one_is_written(self)
    @cython.locals(builder=BufferBuilder)
    cdef object _emit_large(self, Output output, tuple pieces)


cdef class SingleOutputRoute(RecordRoute):
    cdef Output _output

    @cython.locals(data=bytes, builder=BufferBuilder, remaining=Py_ssize_t)
    cpdef emit(self, record)


cdef class PartitionedRoute(RecordRoute):
    cdef object _bulk_split
    cdef object _partitioner
    cdef object _select

    @cython.locals(data=bytes, output=Output, builder=BufferBuilder, remaining=Py_ssize_t)
    cpdef emit(self, record)


cdef class SplittingRoute(RecordRoute):
    cdef object _limits
    cdef object _partitioner
