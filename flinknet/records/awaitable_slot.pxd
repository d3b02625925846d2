# What ``await`` asks an object of C's for: its slot ``am_send``, which Cython has no method for. A
# class that has ``__await__`` is given it by hand, once.

from cpython.object cimport PyObject


cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT


cdef extern from *:
    """
    static void answer_sends(PyObject *kind, sendfunc send) {
        ((PyTypeObject *)kind)->tp_as_async->am_send = send;
    }
    """
    ctypedef PySendResult (*sendfunc)(PyObject *, PyObject *, PyObject **) noexcept
    void answer_sends(object kind, sendfunc send)
