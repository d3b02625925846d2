# cython: binding=False
"""Unpacking records in C of our own: what ``c_unpacker.py`` makes, in two thirds of the time for a
small record, a half for one with keys; and whole records where they lie.

It refuses what msgpack refuses; the tests give both the same bytes.

Theory of operation. A value is made where it is found, by a call each; arrays and maps that are far
inside others take none, so that the depth of a record does not depend on the stack. Whatever is to
come takes at least a byte, so each value has to end so many bytes before the end as values follow
it: an array or a map whose claim cannot be true is refused before there is room for it, and all of
them together get no more than the content could fill.

Maps repeat their keys from record to record. Those of one to 31 ASCII characters are looked up in a
table of 1,024, by their bytes, and each is one object with its hash known: a third of the time that
a record with a dozen of them takes. Another key in the same place drives one out.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.datetime cimport import_datetime, timedelta_new
from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from datetime import UTC, datetime

from msgpack import ExtraData, StackError
from msgpack.exceptions import FormatError

from flinknet.records.serialization.python_unpacker import DEPTH_MAX as PYTHON_DEPTH_MAX
from flinknet.records.serialization.python_unpacker import INCOMPLETE

__all__ = ["CUnpacker"]


cdef extern from "Python.h":
    PyObject *PyLong_FromLongLong(long long value) except NULL
    PyObject *PyLong_FromUnsignedLongLong(unsigned long long value) except NULL
    PyObject *PyFloat_FromDouble(double value) except NULL
    PyObject *PyUnicode_DecodeUTF8(const char *content, Py_ssize_t size, const char *errors) except NULL
    PyObject *PyBytes_FromStringAndSize(const char *content, Py_ssize_t size) except NULL
    PyObject *PyTuple_New(Py_ssize_t length) except NULL
    void PyTuple_SET_ITEM(PyObject *values, Py_ssize_t index, PyObject *value)
    PyObject *PyDict_New() except NULL
    int PyDict_SetItem(PyObject *values, PyObject *key, PyObject *value) except -1
    bint PyUnicode_IS_COMPACT_ASCII(PyObject *value)
    const void *PyUnicode_DATA(PyObject *value)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *value)
    void Py_INCREF(PyObject *value)
    void Py_DECREF(PyObject *value)
    void Py_XDECREF(PyObject *value)
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False


cdef enum:
    KNOWN_KEYS = 1024
    TIMESTAMP = -1
    DAY_SECONDS = 86_400
    DAYS_MAX = 999_999_999  # of a timedelta
    NANOSECONDS_MAX = 999_999_999
    DEPTH_OF_CALLS = 100  # Those in one another that take a call each, as in Python.

cdef int DEPTH_MAX = PYTHON_DEPTH_MAX
cdef object EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
cdef PyObject *known_keys[KNOWN_KEYS]

import_datetime()


@cython.auto_pickle(False)
@cython.final
cdef class CUnpacker:
    """See ``c_unpacker.py``. ``records`` returns the values that stand from ``start`` to ``end``, so
    many; it raises what ``unpack`` raises: they are one array's elements, but for its header.
    """

    cdef Py_ssize_t _bytes_max
    cdef Py_ssize_t _elements_max
    cdef Py_ssize_t _entries_max
    cdef object _read_extension

    def __init__(self, bytes_max, elements_max, read_extension, map_entries_max=None):
        self._bytes_max = bytes_max
        self._elements_max = elements_max
        self._entries_max = elements_max if map_entries_max is None else map_entries_max
        self._read_extension = read_extension

    def unpack(self, content):
        cdef Py_buffer memory
        cdef const uint8_t *at
        cdef const uint8_t *end
        PyObject_GetBuffer(content, &memory, PyBUF_SIMPLE)
        try:
            at = <const uint8_t *>memory.buf
            end = at + memory.len
            value = _owned(self._value(&at, end, 0))
            if at < end:
                raise ExtraData(value, (<const char *>at)[:end - at])
            return value
        finally:
            PyBuffer_Release(&memory)

    def records(self, content, Py_ssize_t start, Py_ssize_t end, Py_ssize_t number):
        cdef Py_buffer memory
        cdef const uint8_t *at
        cdef const uint8_t *limit
        PyObject_GetBuffer(content, &memory, PyBUF_SIMPLE)
        try:
            if not 0 <= start <= end <= memory.len or number < 0:
                raise ValueError(f"{number} records cannot stand there")
            at = <const uint8_t *>memory.buf + start
            limit = <const uint8_t *>memory.buf + end
            values = _owned(self._array(&at, limit, number, 1))
            if at < limit:
                raise ExtraData(values, (<const char *>at)[:limit - at])
            return values
        finally:
            PyBuffer_Release(&memory)

    # Each of these returns a value that belongs to whoever calls. It begins at ``position``, which
    # is behind it then, and has to end before ``end``, where what follows begins at the earliest.

    cdef PyObject *_value(
        self, const uint8_t **position, const uint8_t *end, int depth
    ) except NULL:
        cdef const uint8_t *at = position[0]
        cdef int head
        cdef uint64_t bits
        cdef double number
        if at >= end:
            _raise_incomplete()
        head = at[0]
        at += 1
        if head < 0x80:
            position[0] = at
            return PyLong_FromLongLong(head)
        if head >= 0xE0:
            position[0] = at
            return PyLong_FromLongLong(head - 0x100)
        # What records have most of; it is there again with everything else that has a marker.
        if head == 0xCB and end - at >= 8:
            bits = _get64(at)
            memcpy(&number, &bits, 8)
            position[0] = at + 8
            return PyFloat_FromDouble(number)
        if head == 0xCE and end - at >= 4:
            position[0] = at + 4
            return PyLong_FromLongLong(_get32(at))
        if head == 0xCD and end - at >= 2:
            position[0] = at + 2
            return PyLong_FromLongLong(_get16(at))
        if head >= 0xC0:
            return self._marked(position, at, end, head, depth)
        if head >= 0xA0:
            return self._text(position, at, end, head & 0x1F)
        position[0] = at
        if head >= 0x90:
            return self._array(position, end, head & 0x0F, depth + 1)
        return self._map(position, end, head & 0x0F, depth + 1)

    cdef inline PyObject *_marked(
        self, const uint8_t **position, const uint8_t *at, const uint8_t *end, int head, int depth
    ) except NULL:
        cdef uint64_t bits
        cdef uint32_t few_bits
        cdef double number
        cdef float short_number
        cdef Py_ssize_t left = end - at
        if head == 0xCB:
            if left < 8:
                _raise_incomplete()
            bits = _get64(at)
            memcpy(&number, &bits, 8)
            position[0] = at + 8
            return PyFloat_FromDouble(number)
        elif head == 0xC0:
            position[0] = at
            Py_INCREF(Py_None)
            return Py_None
        elif head == 0xC1:
            raise FormatError
        elif head == 0xC2:
            position[0] = at
            Py_INCREF(Py_False)
            return Py_False
        elif head == 0xC3:
            position[0] = at
            Py_INCREF(Py_True)
            return Py_True
        elif head == 0xC4:
            if left < 1:
                _raise_incomplete()
            return self._bytes(position, at + 1, end, at[0])
        elif head == 0xC5:
            if left < 2:
                _raise_incomplete()
            return self._bytes(position, at + 2, end, _get16(at))
        elif head == 0xC6:
            if left < 4:
                _raise_incomplete()
            return self._bytes(position, at + 4, end, _get32(at))
        elif head == 0xC7:
            if left < 1:
                _raise_incomplete()
            return self._extension(position, at + 1, end, at[0])
        elif head == 0xC8:
            if left < 2:
                _raise_incomplete()
            return self._extension(position, at + 2, end, _get16(at))
        elif head == 0xC9:
            if left < 4:
                _raise_incomplete()
            return self._extension(position, at + 4, end, _get32(at))
        elif head == 0xCA:
            if left < 4:
                _raise_incomplete()
            few_bits = _get32(at)
            memcpy(&short_number, &few_bits, 4)
            position[0] = at + 4
            return PyFloat_FromDouble(short_number)
        elif head == 0xCC:
            if left < 1:
                _raise_incomplete()
            position[0] = at + 1
            return PyLong_FromLongLong(at[0])
        elif head == 0xCD:
            if left < 2:
                _raise_incomplete()
            position[0] = at + 2
            return PyLong_FromLongLong(_get16(at))
        elif head == 0xCE:
            if left < 4:
                _raise_incomplete()
            position[0] = at + 4
            return PyLong_FromLongLong(_get32(at))
        elif head == 0xCF:
            if left < 8:
                _raise_incomplete()
            position[0] = at + 8
            return PyLong_FromUnsignedLongLong(_get64(at))
        elif head == 0xD0:
            if left < 1:
                _raise_incomplete()
            position[0] = at + 1
            return PyLong_FromLongLong(<int8_t>at[0])
        elif head == 0xD1:
            if left < 2:
                _raise_incomplete()
            position[0] = at + 2
            return PyLong_FromLongLong(<int16_t>_get16(at))
        elif head == 0xD2:
            if left < 4:
                _raise_incomplete()
            position[0] = at + 4
            return PyLong_FromLongLong(<int32_t>_get32(at))
        elif head == 0xD3:
            if left < 8:
                _raise_incomplete()
            position[0] = at + 8
            return PyLong_FromLongLong(<int64_t>_get64(at))
        elif head <= 0xD8:
            return self._extension(position, at, end, 1 << (head - 0xD4))
        elif head == 0xD9:
            if left < 1:
                _raise_incomplete()
            return self._text(position, at + 1, end, at[0])
        elif head == 0xDA:
            if left < 2:
                _raise_incomplete()
            return self._text(position, at + 2, end, _get16(at))
        elif head == 0xDB:
            if left < 4:
                _raise_incomplete()
            return self._text(position, at + 4, end, _get32(at))
        elif head == 0xDC or head == 0xDE:
            if left < 2:
                _raise_incomplete()
            position[0] = at + 2
            if head == 0xDC:
                return self._array(position, end, _get16(at), depth + 1)
            return self._map(position, end, _get16(at), depth + 1)
        else:
            if left < 4:
                _raise_incomplete()
            position[0] = at + 4
            if head == 0xDD:
                return self._array(position, end, _get32(at), depth + 1)
            return self._map(position, end, _get32(at), depth + 1)

    cdef PyObject *_array(
        self, const uint8_t **position, const uint8_t *end, Py_ssize_t length, int depth
    ) except NULL:
        cdef Py_ssize_t index
        cdef PyObject *values
        if depth > DEPTH_OF_CALLS:
            return self._deep(position, end, length, False, depth)
        self._check_array(length, end - position[0])
        values = PyTuple_New(length)
        if length == 0:
            return values
        held = _owned(values)  # until an element is refused, or all are there
        end -= length
        for index in range(length):
            end += 1
            PyTuple_SET_ITEM(values, index, self._value(position, end, depth))
        Py_INCREF(values)
        return values

    cdef PyObject *_map(
        self, const uint8_t **position, const uint8_t *end, Py_ssize_t length, int depth
    ) except NULL:
        if depth > DEPTH_OF_CALLS:
            return self._deep(position, end, length, True, depth)
        self._check_map(length, end - position[0])
        values = _owned(PyDict_New())
        end -= 2 * length
        for _ in range(length):
            end += 1
            key = _owned(self._key(position, end, depth))
            end += 1
            value = _owned(self._value(position, end, depth))
            PyDict_SetItem(<PyObject *>values, <PyObject *>key, <PyObject *>value)
        Py_INCREF(<PyObject *>values)
        return <PyObject *>values

    cdef PyObject *_deep(
        self,
        const uint8_t **position,
        const uint8_t *end,
        Py_ssize_t length,
        bint is_map,
        int depth,
    ) except NULL:
        """Return an array or a map that is so deep, with all arrays and maps in it."""
        cdef list outer = []
        cdef list values = []
        cdef const uint8_t *at
        cdef int head
        while True:
            # Here one begins, with its length read.
            if depth > DEPTH_MAX:
                raise StackError
            if is_map:
                self._check_map(length, end - position[0])
                length *= 2
            else:
                self._check_array(length, end - position[0])
            end -= length
            while True:
                while len(values) == length:
                    value = _mapped(values) if is_map else tuple(values)
                    if not outer:
                        Py_INCREF(<PyObject *>value)
                        return <PyObject *>value
                    values, length, is_map = outer.pop()
                    values.append(value)
                    depth -= 1
                end += 1
                at = position[0]
                if at >= end:
                    _raise_incomplete()
                head = at[0]
                if 0x80 <= head < 0xA0 or 0xDC <= head < 0xE0:
                    break
                values.append(_owned(self._value(position, end, 0)))
            outer.append((values, length, is_map))
            values = []
            depth += 1
            is_map = head < 0x90 or head >= 0xDE
            at += 1
            if head < 0xA0:
                length = head & 0x0F
            elif head & 1:
                if end - at < 4:
                    _raise_incomplete()
                length = _get32(at)
                at += 4
            else:
                if end - at < 2:
                    _raise_incomplete()
                length = _get16(at)
                at += 2
            position[0] = at

    # An element has at least one byte. Those of all that is still to come are set aside, so all
    # arrays together get no more room than the content could fill.

    cdef inline int _check_array(self, Py_ssize_t length, Py_ssize_t left) except -1:
        if length > self._elements_max:
            raise ValueError(f"{length} exceeds max_array_len({self._elements_max})")
        if length > left:
            _raise_incomplete()
        return 0

    cdef inline int _check_map(self, Py_ssize_t length, Py_ssize_t left) except -1:
        if length > self._entries_max:
            raise ValueError(f"{length} exceeds max_map_len({self._entries_max})")
        if length > left >> 1:
            _raise_incomplete()
        return 0

    cdef inline PyObject *_key(
        self, const uint8_t **position, const uint8_t *end, int depth
    ) except NULL:
        """The same keys come again and again: short ones are not made anew, nor is their hash."""
        cdef const uint8_t *at = position[0]
        cdef Py_ssize_t size
        cdef PyObject **known
        cdef PyObject *key
        if at >= end:
            _raise_incomplete()
        size = at[0] - 0xA0
        if not 0 < size < 0x20:
            return self._value(position, end, depth)
        known = &known_keys[_place(at + 1, size)] if size < end - at else NULL
        if known is not NULL:
            key = known[0]
            if (
                key is not NULL
                and PyUnicode_GET_LENGTH(key) == size
                and memcmp(PyUnicode_DATA(key), at + 1, size) == 0
                and size <= self._bytes_max
            ):
                position[0] = at + 1 + size
                Py_INCREF(key)
                return key
        key = self._text(position, at + 1, end, size)
        if PyUnicode_IS_COMPACT_ASCII(key):
            Py_INCREF(key)
            Py_XDECREF(known[0])
            known[0] = key
        return key

    cdef inline PyObject *_text(
        self, const uint8_t **position, const uint8_t *at, const uint8_t *end, Py_ssize_t size
    ) except NULL:
        if size > end - at:
            _raise_incomplete()
        if size > self._bytes_max:
            raise ValueError(f"{size} exceeds max_str_len({self._bytes_max})")
        position[0] = at + size
        return PyUnicode_DecodeUTF8(<const char *>at, size, NULL)

    cdef PyObject *_bytes(
        self, const uint8_t **position, const uint8_t *at, const uint8_t *end, Py_ssize_t size
    ) except NULL:
        if size > end - at:
            _raise_incomplete()
        if size > self._bytes_max:
            raise ValueError(f"{size} exceeds max_bin_len({self._bytes_max})")
        position[0] = at + size
        return PyBytes_FromStringAndSize(<const char *>at, size)

    cdef PyObject *_extension(
        self, const uint8_t **position, const uint8_t *at, const uint8_t *end, Py_ssize_t size
    ) except NULL:
        cdef int code
        if size > self._bytes_max:
            raise ValueError(f"{size} exceeds max_ext_len({self._bytes_max})")
        if size >= end - at:
            _raise_incomplete()
        code = <int8_t>at[0]
        position[0] = at + 1 + size
        if code == TIMESTAMP:
            value = _timestamp(at + 1, size)
        else:
            value = self._read_extension(code, (<const char *>at)[1:1 + size])
        Py_INCREF(<PyObject *>value)
        return <PyObject *>value


cdef dict _mapped(list values):
    """Return the map whose keys and elements these are in turn."""
    cdef Py_ssize_t index
    mapped = {}
    for index in range(0, len(values), 2):
        mapped[values[index]] = values[index + 1]
    return mapped


cdef object _timestamp(const uint8_t *at, Py_ssize_t size):
    cdef int64_t seconds, days
    cdef uint64_t bits
    cdef uint32_t nanoseconds = 0
    if size == 4:
        seconds = _get32(at)
    elif size == 8:
        bits = _get64(at)
        seconds = bits & ((<uint64_t>1 << 34) - 1)
        nanoseconds = bits >> 34
    elif size == 12:
        nanoseconds = _get32(at)
        seconds = <int64_t>_get64(at + 4)
    else:
        raise ValueError(f"invalid timestamp data (length {size})")
    if nanoseconds > NANOSECONDS_MAX:
        raise ValueError(f"a second has no {nanoseconds} nanoseconds")
    days = seconds // DAY_SECONDS
    if not -DAYS_MAX <= days <= DAYS_MAX:
        raise OverflowError("date value out of range")
    return EPOCH + timedelta_new(
        <int>days, <int>(seconds - days * DAY_SECONDS), nanoseconds // 1000
    )


cdef inline object _owned(PyObject *value):
    """Return a value that belongs to whoever calls."""
    owned = <object>value
    Py_DECREF(value)
    return owned


cdef int _raise_incomplete() except -1:
    raise ValueError(INCOMPLETE)


cdef inline uint32_t _place(const uint8_t *at, Py_ssize_t size) noexcept:
    """Where a key of 1 to 31 bytes is looked for."""
    cdef uint64_t mixed = size, part = 0
    while size > 8:
        memcpy(&part, at, 8)
        mixed = (mixed ^ part) * 0x9E3779B97F4A7C15ULL
        mixed ^= mixed >> 32
        at += 8
        size -= 8
    if size >= 4:
        memcpy(&part, at, 4)
        mixed ^= part & 0xFFFFFFFFULL
        memcpy(&part, at + size - 4, 4)
        mixed ^= part << 32
    else:
        mixed ^= at[0] | <uint64_t>at[size >> 1] << 16 | <uint64_t>at[size - 1] << 32
    mixed *= 0x9E3779B97F4A7C15ULL
    return <uint32_t>(mixed >> 32) % KNOWN_KEYS


cdef inline uint16_t _get16(const uint8_t *at) noexcept:
    return <uint16_t>(<uint32_t>at[0] << 8 | at[1])


cdef inline uint32_t _get32(const uint8_t *at) noexcept:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline uint64_t _get64(const uint8_t *at) noexcept:
    return <uint64_t>_get32(at) << 32 | _get32(at + 4)
