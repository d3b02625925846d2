# The C slots that ``await`` uses on an object. CPython 3.11 uses ``am_send``, for which Cython has
# no method. Later versions use ``tp_iternext``, with the result in a StopIteration. Cython creates
# a new StopIteration each time, which made a record take three and a half times as long. A class
# with ``__await__`` and ``__next__`` therefore gets both slots set by hand, once.
#
# Here the result travels in a StopIteration that already exists, the *end*. ``await`` takes the
# result out and drops the exception, so no other code sees it. Code that calls next() directly may
# keep the exception; the next result then gets an exception of its own.

from cpython.object cimport PyObject


cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT


cdef extern from *:
    """
    static void answer_awaits(PyObject *kind, sendfunc send, iternextfunc next) {
        ((PyTypeObject *)kind)->tp_as_async->am_send = send;
        ((PyTypeObject *)kind)->tp_iternext = next;
    }

    #ifdef Py_GIL_DISABLED
    #define is_nobody_elses(end) 0
    #else
    #define is_nobody_elses(end) (Py_REFCNT(end) == 1)
    #endif

    static inline void put_into_end(PyObject *end, PyObject *result) {
        PyObject *before = ((PyStopIterationObject *)end)->value;
        ((PyStopIterationObject *)end)->value = result;
        Py_XDECREF(before);
    }

    /* Takes the result's reference. */
    static inline void end_with(PyObject *end, PyObject *result) {
        if (is_nobody_elses(end)) {
            Py_INCREF(end);
            put_into_end(end, result);
        } else {
            end = PyObject_CallOneArg(PyExc_StopIteration, result);
            Py_DECREF(result);
            if (end == NULL) return;
        }
        Py_INCREF(PyExc_StopIteration);
        PyErr_Restore(PyExc_StopIteration, end, NULL);
    }

    static inline void forget_result(PyObject *end) {
        if (is_nobody_elses(end)) {
            Py_INCREF(Py_None);
            put_into_end(end, Py_None);
        }
    }
    """
    ctypedef PySendResult (*sendfunc)(PyObject *, PyObject *, PyObject **) noexcept
    ctypedef PyObject *(*iternextfunc)(PyObject *) noexcept
    void answer_awaits(object kind, sendfunc send, iternextfunc next)
    void end_with(PyObject *end, PyObject *result)
    void forget_result(PyObject *end)
