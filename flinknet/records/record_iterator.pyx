# cython: binding=False
"""Iterator over records in C: ``record_iterator.py`` without an object per record.

Theory of operation. The iterator is also its own awaitable: one object serves a reader for all
records, and can be awaited again after each. ``await`` calls the C slot ``am_send`` or
``tp_iternext`` of an object, without creating a frame or an object. In the case of ``tp_iternext``
a StopIteration carries the record. The same StopIteration, the *end*, is used each time; it keeps
the record until the next one, or until the batch is over, as the batch does. Including the loop
around it, this takes 24 ns, compared with 110 ns for a coroutine. The iterator can replace a
coroutine: a task can be created from it and cancelled. Python does not warn if it is never awaited;
nothing happens then.

The records of a buffer are unpacked one by one, when they are requested, as long as they are flat
(``recycled_records.pxd``). At the first other record, ``unpack`` unpacks all remaining records at
once, and raises the error of an invalid one. Two records are filled in turn: when the next one is
requested, a loop over the records still refers to the last, and has dropped the one before. The
iterator writes, and the loop reads, the same few lines of the nearest cache for all records. If all
records of a buffer were unpacked at once, they would be ten times its size, and leave the cache
before they are read. The buffer's memory is held until its last record has been returned.

``ArrivedRecords`` returns the same records, and keeps nothing itself.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetObject
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t
from collections.abc import Coroutine

from flinknet.errors import LocalProtocolError
from flinknet.records.awaitable_slot cimport (
    PYGEN_ERROR,
    PYGEN_NEXT,
    PYGEN_RETURN,
    PySendResult,
    answer_awaits,
    end_with,
    forget_result,
)
from flinknet.records.serialization.recycled_records cimport flat_record
from flinknet.records.serialization.reused_values cimport REUSES_VALUES
from flinknet.records.written import WRITTEN

__all__ = ["ArrivedRecords", "RecordIterator"]


cdef extern from "Python.h":
    Py_ssize_t PyTuple_GET_SIZE(PyObject *values)
    PyObject *PyTuple_GET_ITEM(PyObject *values, Py_ssize_t index)
    PySendResult PyIter_Send(PyObject *iterator, PyObject *value, PyObject **result)
    void Py_INCREF(PyObject *value)
    void Py_DECREF(PyObject *value)
    void Py_XDECREF(PyObject *value)


cdef extern from *:
    """
    static int raise_what_stands(void) { return -1; }
    """
    int raise_what_stands() except -1


cdef class RecordIterator:
    """See ``record_iterator.py``. Raises LocalProtocolError if another task already waits."""

    cdef object _begin
    cdef object _coroutine
    cdef object _end
    cdef tuple _records
    cdef Py_ssize_t _handed_out
    cdef Py_ssize_t _number
    # Records that are not unpacked yet: their number, the start of the next one, and its latest
    # possible end, as every later record has at least one byte.
    cdef Py_ssize_t _packed
    cdef const uint8_t *_position
    cdef const uint8_t *_limit
    cdef Py_buffer _memory
    cdef object _content
    cdef object _unpack
    cdef Py_ssize_t _length_max
    cdef PyObject *_made[2]  # the two records unpacked last, used in turn
    cdef int _turn

    def __cinit__(self):
        self._packed = self._turn = 0
        self._made[0] = self._made[1] = NULL

    def __dealloc__(self):
        if self._packed:
            PyBuffer_Release(&self._memory)
        self._forget_made()

    def __init__(self, begin):
        self._begin = begin
        self._coroutine = None
        self._end = StopIteration()
        self._have(())

    cdef _have(self, tuple records):
        # Freeing the old records may run code that calls this again.
        forget_result(<PyObject *>self._end)
        self._forget_made()
        self._number = self._handed_out = 0
        self._records = records
        self._number = PyTuple_GET_SIZE(<PyObject *>records)

    cdef _forget_made(self):
        cdef int index
        for index in range(2):
            made, self._made[index] = self._made[index], NULL
            Py_XDECREF(made)

    def have(
        self,
        content,
        Py_ssize_t start,
        Py_ssize_t end,
        Py_ssize_t number,
        *,
        tuple unpacked not None,
        Py_ssize_t length_max,
        unpack,
    ):
        self.drop()
        # A single record gains nothing. An impossible number is left to ``unpack``, which refuses
        # it.
        if REUSES_VALUES and 1 < number <= length_max and number <= end - start:
            self._hold(content, start, end, number, length_max, unpack)
        else:
            with content:
                if start < end or number:
                    unpacked += unpack(content, start, end, number)
        self._have(unpacked)

    cdef _hold(
        self,
        content,
        Py_ssize_t start,
        Py_ssize_t end,
        Py_ssize_t number,
        Py_ssize_t length_max,
        unpack,
    ):
        PyObject_GetBuffer(content, &self._memory, PyBUF_SIMPLE)
        self._packed = number
        self._position = <const uint8_t *>self._memory.buf + start
        self._limit = <const uint8_t *>self._memory.buf + end - number + 1
        self._content = content
        self._unpack = unpack
        self._length_max = length_max

    cdef _let_go(self):
        """Return the content, which is no longer used here."""
        content, self._content, self._unpack = self._content, None, None
        self._packed = 0
        PyBuffer_Release(&self._memory)
        return content

    cdef bint _take(self, PyObject **result) except -1:
        """Set ``result`` to the next arrived record; return whether there is one."""
        if self._handed_out == self._number and self._packed:
            result[0] = _next_flat(self)
            if result[0] is not NULL:
                if self._packed == 0:
                    self._let_go().release()
                return True
            self._have(self._unpack_left())
        if self._handed_out == self._number:
            return False
        result[0] = _next_made(self)
        return True

    cdef tuple _unpack_left(self):
        cdef const uint8_t *begin = <const uint8_t *>self._memory.buf
        cdef Py_ssize_t start = self._position - begin, number = self._packed
        cdef Py_ssize_t end = self._limit + number - 1 - begin
        unpack = self._unpack
        with self._let_go() as content:
            return unpack(content, start, end, number)

    def drop(self):
        self._have(())
        if self._packed:
            self._let_go().release()

    def __aiter__(self):
        return self

    def __anext__(self):
        if self._coroutine is not None:
            raise LocalProtocolError(
                "a task reads the next record while another waits for it: one task reads at a time"
            )
        return self

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, value):
        cdef PyObject *result = NULL
        cdef PySendResult status = _send_next(<PyObject *>self, <PyObject *>value, &result)
        if status == PYGEN_ERROR:
            raise_what_stands()
        sent = <object>result
        Py_DECREF(result)
        if status == PYGEN_RETURN:
            raise StopIteration(sent)
        return sent

    def throw(self, *error):
        coroutine = self._coroutine
        if coroutine is None:
            coroutine = WRITTEN  # This coroutine has not begun either, and it raises the error.
        try:
            return coroutine.throw(*error)
        except BaseException:
            self._coroutine = None
            raise

    def close(self):
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is not None:
            coroutine.close()


cdef PySendResult _send_next(PyObject *self, PyObject *value, PyObject **result) noexcept:
    cdef RecordIterator this = <RecordIterator>self
    if this._coroutine is None:
        if this._handed_out < this._number:
            result[0] = _next_made(this)
            return PYGEN_RETURN
        if this._packed > 1:  # the last record is left to ``_take``, which releases the buffer
            result[0] = _next_flat(this)
            if result[0] is not NULL:
                return PYGEN_RETURN
    return _send_to_coroutine(this, value, result)


cdef inline PyObject *_next_made(RecordIterator this) noexcept:
    cdef PyObject *record = PyTuple_GET_ITEM(<PyObject *>this._records, this._handed_out)
    this._handed_out += 1
    Py_INCREF(record)
    return record


cdef inline PyObject *_next_flat(RecordIterator this) noexcept:
    """Return a new reference to the next record.

    Return NULL, with no error set, for a record that is not flat or invalid, and for a last record
    that ends too early. The buffer is still held.
    """
    cdef const uint8_t *position = this._position
    cdef PyObject *old = this._made[this._turn]
    cdef PyObject *record
    record = flat_record(&position, this._limit, old, this._length_max)
    if record is NULL:
        return NULL
    if record is not old:
        this._made[this._turn] = record
        Py_XDECREF(old)
    if this._packed == 1 and position < this._limit:
        return NULL
    this._turn ^= 1
    this._position = position
    this._limit += 1
    this._packed -= 1
    Py_INCREF(record)
    return record


cdef PySendResult _send_to_coroutine(
    RecordIterator this, PyObject *value, PyObject **result
) noexcept:
    cdef PySendResult status
    coroutine = this._coroutine  # keeps a reference while the coroutine runs
    if coroutine is None:
        try:
            if this._packed and this._take(result):
                return PYGEN_RETURN
            this._have(())  # so that the next records can reuse their memory
            this._coroutine = coroutine = this._begin()
        except BaseException as error:
            PyErr_SetObject(type(error), error)
            return PYGEN_ERROR
    status = PyIter_Send(<PyObject *>coroutine, value, result)
    if status != PYGEN_NEXT:
        this._coroutine = None
    return status


cdef PyObject *_next(PyObject *self) noexcept:
    cdef PyObject *result = NULL
    if _send_next(self, <PyObject *>None, &result) == PYGEN_RETURN:
        end_with(<PyObject *>(<RecordIterator>self)._end, result)
        return NULL
    return result


cdef class ArrivedRecords:
    """See ``record_iterator.py``."""

    cdef RecordIterator _owner

    def __init__(self, RecordIterator owner not None):
        self._owner = owner

    def take_all(self):
        cdef RecordIterator owner = self._owner
        left = owner._records[owner._handed_out :]
        owner._have(())
        if owner._packed:
            left += owner._unpack_left()
        return left

    @property
    def last(self):
        cdef RecordIterator owner = self._owner
        cdef PyObject *made = owner._made[owner._turn ^ 1]
        if made is not NULL:
            return <object>made
        return owner._records[owner._handed_out - 1] if owner._handed_out else None

    def __length_hint__(self):
        cdef RecordIterator owner = self._owner
        return owner._number - owner._handed_out + owner._packed

    def __iter__(self):
        return self

    def __next__(self):
        cdef PyObject *result = NULL
        if not self._owner._take(&result):
            raise StopIteration
        record = <object>result
        Py_DECREF(result)
        return record


answer_awaits(RecordIterator, _send_next, _next)
Coroutine.register(RecordIterator)
