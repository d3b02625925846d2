# cython: binding=False
"""The awaitable for a record that is already written, in C.

It is always complete. ``await`` calls its C slot ``am_send`` or ``tp_iternext``, which creates no
object.
"""

from cpython.object cimport PyObject
from collections.abc import Coroutine

from flinknet.records.awaitable_slot cimport PYGEN_RETURN, PySendResult, answer_awaits

__all__ = ["WRITTEN"]


cdef extern from "Python.h":
    void Py_INCREF(PyObject *value)
    PyObject *Py_None


def _generate():
    yield from ()


cdef class _Written:
    """A completed coroutine."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration

    def send(self, value):
        raise StopIteration

    def throw(self, *error):
        return _generate().throw(*error)

    def close(self):
        pass


cdef PySendResult _send_written(
    PyObject *self, PyObject *value, PyObject **result
) noexcept:
    Py_INCREF(Py_None)
    result[0] = Py_None
    return PYGEN_RETURN


cdef PyObject *_next_of_written(PyObject *self) noexcept:
    return NULL  # NULL without an error set means StopIteration(None)


answer_awaits(_Written, _send_written, _next_of_written)
Coroutine.register(_Written)

WRITTEN = _Written()
