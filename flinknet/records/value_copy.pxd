import cython


@cython.locals(kind=type)
cpdef copied(value)


cdef bint _consists_of_unchanging(values) except -1
