# Packs small records directly at their destination, in half the time of packing them in the
# packer's own memory. A small record is a short tuple of numbers, None, truth values and short
# ASCII texts, or one of these values alone. Any other record, and one that may not fit, is left to
# the packer.

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from flinknet.buffer.builder cimport BufferBuilder
from flinknet.buffer.segment cimport MemorySegment
from flinknet.prefetch cimport have_brought_to_write
from flinknet.records.compact_integer cimport compact_integer
from flinknet.records.serialization.msgpack_bytes cimport (
    put_double,
    put_negative,
    put_short_text,
    put_unsigned,
)


cdef extern from "Python.h":
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False
    bint PyLong_CheckExact(PyObject *value)
    bint PyFloat_CheckExact(PyObject *value)
    bint PyUnicode_CheckExact(PyObject *value)
    bint PyTuple_CheckExact(PyObject *value)
    double PyFloat_AS_DOUBLE(PyObject *value)
    bint PyUnicode_IS_COMPACT_ASCII(PyObject *value)
    const void *PyUnicode_DATA(PyObject *value)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *value)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *value)
    PyObject *PyTuple_GET_ITEM(PyObject *value, Py_ssize_t index)


cdef enum:
    CACHE_LINE_BYTES = 64
    SHORT_TUPLE_MAX = 15
    NUMBER_BYTES_MAX = 9
    SHORT_TEXT_BYTES_MAX = 31


cdef inline bint write_flat(BufferBuilder builder, PyObject *record) except -1:
    """Write a small record and count it, if it fits; return whether it is written."""
    cdef MemorySegment segment
    cdef uint8_t *at
    cdef uint8_t *behind
    cdef Py_ssize_t size
    if builder.remaining < NUMBER_BYTES_MAX:  # 0 for a closed builder
        return False
    segment = builder._segment
    at = segment._room(builder.remaining)
    behind = put_flat(at, at + builder.remaining, record)
    if behind is NULL:
        return False
    size = behind - at
    # With a thousand channels the processor does not detect that each is written in order.
    have_brought_to_write(behind + CACHE_LINE_BYTES)
    segment._written += size
    builder.remaining -= size
    builder.records += 1
    return True


cdef inline uint8_t *put_flat(uint8_t *at, uint8_t *end, PyObject *record) noexcept:
    """Return the position after the packed record.

    Return NULL for a record that is not small, or that has no room; it may be written in part.
    """
    cdef Py_ssize_t index, length
    if not PyTuple_CheckExact(record):
        return put_scalar(at, end, record)
    length = PyTuple_GET_SIZE(record)
    if length > SHORT_TUPLE_MAX or at >= end:
        return NULL
    at[0] = 0x90 | <uint8_t>length
    at += 1
    for index in range(length):
        at = put_scalar(at, end, PyTuple_GET_ITEM(record, index))
        if at is NULL:
            return NULL
    return at


cdef inline uint8_t *put_scalar(uint8_t *at, uint8_t *end, PyObject *value) noexcept:
    cdef long long number
    cdef Py_ssize_t size
    if end - at < NUMBER_BYTES_MAX:
        return NULL
    if PyLong_CheckExact(value):
        if not compact_integer(value, &number):
            return NULL
        return put_unsigned(at, <uint64_t>number) if number >= 0 else put_negative(at, number)
    if PyFloat_CheckExact(value):
        return put_double(at, PyFloat_AS_DOUBLE(value))
    if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value):
        size = PyUnicode_GET_LENGTH(value)
        if size > SHORT_TEXT_BYTES_MAX or size >= end - at:
            return NULL
        return put_short_text(at, <const char *>PyUnicode_DATA(value), size)
    if value is Py_None or value is Py_True or value is Py_False:
        at[0] = 0xC0 if value is Py_None else 0xC3 if value is Py_True else 0xC2
        return at + 1
    return NULL
