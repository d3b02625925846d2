from flinknet.buffer.builder cimport BufferBuilder


cdef class Output:
    cdef object __weakref__
    cdef public BufferBuilder builder
    cdef public object target


cdef class SubpartitionOutput(Output):
    cdef object _index
    cdef object _partition
    cdef object _subpartition


cdef class BroadcastOutput(Output):
    cdef object _partition
