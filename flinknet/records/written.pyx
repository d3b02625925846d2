# cython: binding=False
"""What there is to await for a record that is written already, in C: over, whenever it is asked.

``await`` asks it for its slot ``am_send``, which Cython has no method for: it is set by hand.
"""

from cpython.object cimport PyObject
from collections.abc import Coroutine

__all__ = ["WRITTEN"]


cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN

    void Py_INCREF(PyObject *value)
    PyObject *Py_None


cdef extern from *:
    """
    static void answer_sends(PyObject *kind, sendfunc send) {
        ((PyTypeObject *)kind)->tp_as_async->am_send = send;
    }
    """
    ctypedef PySendResult (*sendfunc)(PyObject *, PyObject *, PyObject **) noexcept
    void answer_sends(object kind, sendfunc send)


async def _nothing():
    pass


cdef class _Written:
    """A coroutine that is over."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration

    def send(self, value):
        raise StopIteration

    def throw(self, *error):
        return _nothing().throw(*error)

    def close(self):
        pass


cdef PySendResult _send_written(
    PyObject *self, PyObject *value, PyObject **result
) noexcept:
    Py_INCREF(Py_None)
    result[0] = Py_None
    return PYGEN_RETURN


answer_sends(_Written, _send_written)
Coroutine.register(_Written)

WRITTEN = _Written()
