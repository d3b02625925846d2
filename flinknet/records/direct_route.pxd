import cython

from flinknet.records.output cimport Output
from flinknet.records.remembered_channels cimport RememberedChannels
from flinknet.records.route cimport RouteToChosen, RouteToOne
from flinknet.records.serialization.c_packer cimport CPacker


cdef class DirectRouteToOne(RouteToOne):
    cdef CPacker _direct

    @cython.locals(direct=CPacker, held=Py_ssize_t, data=bytes)
    cpdef emit(self, record)


cdef class DirectRouteToChosen(RouteToChosen):
    cdef CPacker _direct
    cdef RememberedChannels _remembered

    @cython.locals(
        channel=Py_ssize_t,
        data=bytes,
        direct=CPacker,
        held=Py_ssize_t,
        output=Output,
        remembered=RememberedChannels,
    )
    cpdef emit(self, record)
