# Records without other references are overwritten with the next records, if these are similar. This
# takes a third of the time of creating and freeing them.
#
# Such a record is *flat*: a number, None, a truth value, a short ASCII text, or a short array of
# flat values. No user code runs while a flat record is filled. It forms no cycle, so the garbage
# collector need not track it, and functions such as ``gc.get_objects`` cannot return it. The
# reference counts of the record and its containers therefore tell whether user code can reach it:
# while all of them are one, the reference followed here is the only one. A record that user code
# has kept, or a value out of it, is not changed.

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from flinknet.records.serialization.known_texts cimport KNOWN_TEXT_BYTES, known_text
from flinknet.records.serialization.msgpack_bytes cimport (
    get16,
    get32,
    get64,
    get_double,
    get_float,
    get_signed,
    is_ascii,
)
from flinknet.records.serialization.reused_values cimport float_in, integer_in, is_unshared


cdef extern from "Python.h":
    PyObject *new_tuple "PyTuple_New" (Py_ssize_t length) noexcept
    PyObject *new_text "PyUnicode_New" (Py_ssize_t size, unsigned int largest) noexcept
    PyObject *one_character "PyUnicode_FromOrdinal" (int character) noexcept
    PyTypeObject PyTuple_Type
    Py_ssize_t PyTuple_GET_SIZE(PyObject *values)
    PyObject *PyTuple_GET_ITEM(PyObject *values, Py_ssize_t index)
    void PyTuple_SET_ITEM(PyObject *values, Py_ssize_t index, PyObject *value)
    void *PyUnicode_DATA(PyObject *text)
    void PyObject_GC_UnTrack(PyObject *value)
    void Py_INCREF(PyObject *value)
    void Py_DECREF(PyObject *value)
    void Py_XDECREF(PyObject *value)
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False
    void PyErr_Clear()


cdef enum:
    NESTING_OF_FLAT = 4


cdef inline bint is_short_array(const uint8_t *at) noexcept:
    # Not an empty array: Python has a single empty tuple, which cannot be overwritten.
    return 0x90 < at[0] < 0xA0


cdef inline PyObject *flat_record(
    const uint8_t **position, const uint8_t *end, PyObject *old, Py_ssize_t size_max
) noexcept:
    """Return the record that begins at ``position``, as ``flat_array`` does.

    Return NULL, with no error set, for a record that is not flat or invalid. The error of an
    invalid record is found again by the general unpacker.
    """
    cdef PyObject *record
    if is_short_array(position[0]):
        record = flat_array(position, end, old, size_max, NESTING_OF_FLAT)
    else:
        record = number_in(old, position, end)
    if record is NULL:
        PyErr_Clear()
    return record


cdef inline PyObject *flat_array(
    const uint8_t **position, const uint8_t *end, PyObject *old, Py_ssize_t size_max, int nesting
) noexcept:
    """Return the flat short array that begins at ``position``, and does not exceed ``end``.

    ``position`` is advanced to its end. The result is ``old`` itself, with no new reference, or a
    new array. Return NULL, with or without an error set, for anything else, and if an array or text
    is longer than ``size_max``. ``old`` may then be partly overwritten, and must not be read.
    """
    cdef const uint8_t *at = position[0] + 1
    cdef Py_ssize_t index, length = at[-1] - 0x90
    cdef PyObject *values = old
    cdef PyObject *value
    cdef PyObject *before
    if length > size_max or length > end - at or nesting == 0:
        return NULL
    if not (is_unshared(old, &PyTuple_Type) and PyTuple_GET_SIZE(old) == length):
        values = new_tuple(length)
        if values is NULL:
            return NULL
        PyObject_GC_UnTrack(values)
    end -= length
    for index in range(length):
        end += 1
        before = PyTuple_GET_ITEM(values, index)
        value = number_in(before, &at, end)
        if value is NULL:
            if at < end and is_short_array(at):
                value = flat_array(&at, end, before, size_max, nesting - 1)
            else:
                value = other_scalar(&at, end, before, size_max)
        if value is NULL:
            if values is not old:
                Py_DECREF(values)
            return NULL
        if value is not before:
            PyTuple_SET_ITEM(values, index, value)
            Py_XDECREF(before)
    position[0] = at
    return values


cdef inline PyObject *number_in(
    PyObject *old, const uint8_t **position, const uint8_t *end
) noexcept:
    """Return a number in one of the most common forms, as ``flat_array`` does."""
    cdef const uint8_t *at = position[0] + 1
    cdef Py_ssize_t left = end - at
    cdef PyObject *value
    cdef uint64_t number
    cdef int head
    if left < 0:
        return NULL
    head = at[-1]
    if head < 0x80:
        number = head
    elif head == 0xCE and left >= 4:
        number = get32(at)
        at += 4
    elif head == 0xCD and left >= 2:
        number = get16(at)
        at += 2
    elif head == 0xCF and left >= 8:
        number = get64(at)
        at += 8
    elif head == 0xCC and left >= 1:
        number = at[0]
        at += 1
    elif head == 0xCB and left >= 8:
        value = float_in(old, get_double(at))
        if value is not NULL:
            position[0] = at + 8
        return value
    else:
        return NULL
    value = integer_in(old, number, False)
    if value is not NULL:
        position[0] = at
    return value


cdef inline PyObject *other_scalar(
    const uint8_t **position, const uint8_t *end, PyObject *old, Py_ssize_t size_max
) noexcept:
    cdef const uint8_t *at = position[0] + 1
    cdef Py_ssize_t left = end - at, size = 0
    cdef PyObject *value = NULL
    cdef int64_t number
    cdef int head
    if left < 0:
        return NULL
    head = at[-1]
    if 0xA0 <= head < 0xC0:
        size = head - 0xA0
        value = short_text(at, left, size, size_max)
    elif head >= 0xE0:
        value = integer_in(old, 0x100 - head, True)
    elif head == 0xC0 or head == 0xC2 or head == 0xC3:
        value = Py_None if head == 0xC0 else Py_True if head == 0xC3 else Py_False
        Py_INCREF(value)
    elif 0xD0 <= head <= 0xD3 and left >= 1 << (head - 0xD0):
        size = 1 << (head - 0xD0)
        number = get_signed(at, size)
        value = integer_in(old, <uint64_t>number if number >= 0 else -<uint64_t>number, number < 0)
    elif head == 0xD9 and left >= 1:
        size = 1 + at[0]
        value = short_text(at + 1, left - 1, at[0], size_max)
    elif head == 0xCA and left >= 4:
        size = 4
        value = float_in(old, get_float(at))
    if value is not NULL:
        position[0] = at + size
    return value


cdef inline PyObject *short_text(
    const uint8_t *at, Py_ssize_t left, Py_ssize_t size, Py_ssize_t size_max
) noexcept:
    cdef PyObject *text
    if size > left or size > size_max:
        return NULL
    if 2 <= size <= KNOWN_TEXT_BYTES:
        return known_text(at, size)
    if not is_ascii(at, size):
        return NULL
    if size == 1:
        return one_character(at[0])
    text = new_text(size, 0x7F)
    if text is not NULL and size:
        memcpy(PyUnicode_DATA(text), at, size)
    return text
