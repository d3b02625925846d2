from cpython.object cimport PyObject
from libc.stdint cimport int32_t

from flinknet.records.output cimport Output
from flinknet.records.round_robin cimport RoundRobin
from flinknet.records.route cimport PartitionedRoute, SingleOutputRoute
from flinknet.records.serialization.c_packer cimport CPacker
from flinknet.records.tuple_channels cimport TupleChannels


cdef class DirectSingleOutputRoute(SingleOutputRoute):
    cdef CPacker _direct
    cdef bytes _rest
    cdef object _written

    cdef Py_ssize_t _write_some(self, list records, Py_ssize_t index) except -1
    cdef bytes _let_go(self)


cdef class DirectPartitionedRoute(PartitionedRoute):
    cdef CPacker _direct
    cdef Output _full
    cdef bint _is_undecided
    cdef bytes _rest
    cdef TupleChannels _tuple_channels
    cdef RoundRobin _turns
    cdef object _written

    cdef Py_ssize_t _write_some(self, list records, Py_ssize_t index, Output only) except -1
    cdef bytes _let_go(self)
    cdef object _emit_to(self, Output output, record)
    cdef Output _known_for(self, PyObject *record)
    cdef Py_ssize_t _known_channel(self, PyObject *record) except? -2
    cdef Output _choose(self, record)
    cdef Py_ssize_t _chosen_channel(self, record) except -1
    cdef int32_t _channel_to_note(self, PyObject *record) except? -1
