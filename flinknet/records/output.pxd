from flinknet.buffer.builder cimport BufferBuilder
from flinknet.partition.result_partition cimport ResultPartition


cdef class Output:
    cdef object __weakref__
    cdef public BufferBuilder builder
    cdef public object target

    cpdef bint open(self)
    cpdef seal(self)


cdef class SubpartitionOutput(Output):
    cdef Py_ssize_t _index
    cdef ResultPartition _partition
    cdef object _subpartition


cdef class BroadcastOutput(Output):
    cdef ResultPartition _partition
