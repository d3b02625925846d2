from flinknet.connection.outbox cimport Outbox


cdef class ChecksummedOutbox(Outbox):
    pass
