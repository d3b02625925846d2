import cython


@cython.locals(pair=tuple, parts=tuple)
cpdef bint has_tags(list results, object tag, bint stamped) except -1
