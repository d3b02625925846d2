from cpython.object cimport PyObject


ctypedef PyObject *(*vectorcallfunc)(
    PyObject *callable, PyObject **arguments, size_t number, PyObject *names
)


cdef class Conversion:
    cdef vectorcallfunc _called
    cdef readonly object kind
    cdef object _otherwise
    cdef int _form
    cdef long long _lowest
    cdef long long _highest
    cdef object _class
    cdef tuple _parts
    cdef tuple _names
    cdef bint _may_have_none


cdef class ConvertedKey:
    cdef vectorcallfunc _called
    cdef readonly object key
    cdef readonly Conversion conversion


cdef bint fits(Conversion conversion, PyObject *value) noexcept
