cdef class Availability:
    cdef public list _subscribers
    cdef public bint available

    cpdef set(self, bint available)
