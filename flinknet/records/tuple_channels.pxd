from cpython.object cimport PyObject

from flinknet.records.conversion cimport Conversion
from flinknet.records.remembered_channels cimport RememberedChannels


cdef class TupleChannels:
    cdef Py_ssize_t _index
    cdef Py_ssize_t _max_parallelism
    cdef Py_ssize_t _channels
    cdef RememberedChannels _remembered
    cdef Conversion _conversion

    cdef Py_ssize_t find(self, PyObject *record) noexcept
