import cython


@cython.locals(parts=tuple)
cpdef bint has_tags(list results, object tag) except -1
