import cython

from flinknet.connection.outbox cimport Outbox
from flinknet.wire.checksum cimport make_trailer


cdef class ChecksummedOutbox(Outbox):
    @cython.locals(
        frames=list,
        has_control=Py_ssize_t,
        sealed=list,
        trailer=bytes,
        position=Py_ssize_t,
        header=bytes,
    )
    cpdef list next_frames(self, Py_ssize_t budget_bytes)
