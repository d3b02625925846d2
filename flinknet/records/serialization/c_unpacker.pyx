# cython: binding=False
"""Unpacking of records in C: ``c_unpacker.py`` in less time, and whole records in place.

It takes two thirds of the time for a small record, and half for a record with keys. It refuses the
same bytes as msgpack; the tests give both the same bytes.

Theory of operation. A value is created where its bytes are found, with one call per value. Deeply
nested arrays and maps are unpacked without a call, so the depth of a record does not depend on the
stack. Every later value takes at least a byte, so each value must end that many bytes before the
end of the content. An array or a map with an impossible length is therefore refused before memory
is allocated for it, and all containers together get no more room than the content could fill.

Maps repeat their keys from record to record, and records repeat names and codes. Short texts are
looked up by their bytes, so a repeated text is one object with a known hash (``known_texts.pxd``).
This saves a third of the time for a record with a dozen keys.

Usually all keys of a map equal the keys of an earlier map, its *shape*. The shape is looked up by
the beginning of the first key and the number of keys. Its keys are compared with the content a word
at a time. The map is then a copy of an empty map with these keys, filled with the values; this
saves a quarter for eight keys. Where a key differs, the map continues as any other. A shape is
remembered only after two maps with the same keys came in succession at its place. Maps with data as
keys, such as counts by word, therefore cost nothing more.

Batches of flat records are kept, two for each length of a record, and the next batch takes over
their records if no other object refers to them (``recycled_records.pxd``). The next batch uses the
last batch, or the one before it if a reader still holds the last. A batch with any other record is
not kept. Batches of other lengths are dropped if all batches would exceed ``REUSED_RECORDS_BYTES``.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.datetime cimport import_datetime, timedelta_new
from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from datetime import UTC, datetime

from msgpack import ExtraData, StackError
from msgpack.exceptions import FormatError

from flinknet.records.serialization.known_texts cimport KNOWN_TEXT_BYTES, known_text
from flinknet.records.serialization.msgpack_bytes cimport (
    get16,
    get32,
    get64,
    get_double,
    get_float,
    get_signed,
    get_unsigned,
    is_ascii,
)
from flinknet.records.serialization.recycled_records cimport flat_record, is_short_array
from flinknet.records.serialization.reused_values cimport REUSES_VALUES

from flinknet.config import REUSED_RECORDS_BYTES
from flinknet.records.serialization.elements import INCOMPLETE

__all__ = ["CUnpacker"]


cdef extern from "Python.h":
    PyObject *PyLong_FromLongLong(long long value) except NULL
    PyObject *PyLong_FromUnsignedLongLong(unsigned long long value) except NULL
    PyObject *PyFloat_FromDouble(double value) except NULL
    PyObject *PyUnicode_New(Py_ssize_t size, uint32_t largest) except NULL
    uint8_t *PyUnicode_1BYTE_DATA(PyObject *text)
    PyObject *PyUnicode_DecodeUTF8(const char *content, Py_ssize_t size, const char *errors) except NULL
    PyObject *PyBytes_FromStringAndSize(const char *content, Py_ssize_t size) except NULL
    PyObject *PyTuple_New(Py_ssize_t length) except NULL
    void PyTuple_SET_ITEM(PyObject *values, Py_ssize_t index, PyObject *value)
    PyObject *PyTuple_GET_ITEM(PyObject *values, Py_ssize_t index)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *values)
    void PyObject_GC_UnTrack(PyObject *value)
    Py_ssize_t Py_REFCNT(PyObject *value)
    dict PyDict_Copy(dict values)
    Py_ssize_t PyDict_GET_SIZE(PyObject *values)
    PyObject *PyList_GET_ITEM(PyObject *values, Py_ssize_t index)
    int PyDict_SetItem(PyObject *values, PyObject *key, PyObject *value) except -1
    bint PyUnicode_IS_COMPACT_ASCII(PyObject *value)
    const void *PyUnicode_DATA(PyObject *value)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *value)
    void Py_INCREF(PyObject *value)
    void Py_DECREF(PyObject *value)
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False


cdef enum:
    KNOWN_SHAPES = 64
    SHAPE_KEYS_MAX = 32
    TIMESTAMP = -1
    DAY_SECONDS = 86_400
    DAYS_MAX = 999_999_999  # the maximum of a timedelta
    NANOSECONDS_MAX = 999_999_999
    DEPTH_MAX = 1024  # nested arrays and maps that msgpack has room for
    DEPTH_OF_CALLS = 100  # nested arrays and maps that take a call each
    LENGTHS_KEPT = 16  # lengths of short arrays; 0 stands for numbers

cdef struct _Key:
    Py_ssize_t size
    PyObject *text  # borrowed from the shape
    Py_hash_t text_hash
    uint8_t content[40]  # head and text, and a spare word
    uint64_t last_word  # mask of the key's bits in its last word

cdef struct _Kept:
    PyObject *batch
    Py_ssize_t size  # size of the bytes that it was unpacked from


cdef object EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
cdef list known_shapes = [None] * KNOWN_SHAPES
cdef uint64_t last_keys_seen[KNOWN_SHAPES]
cdef _Kept last_batches[LENGTHS_KEPT]
cdef _Kept batches_before[LENGTHS_KEPT]
cdef Py_ssize_t bytes_kept = 0
cdef Py_ssize_t BYTES_KEPT_MAX = REUSED_RECORDS_BYTES

import_datetime()


@cython.auto_pickle(False)
@cython.final
cdef class _Shape:
    """The keys of a map, in order; ``empty`` is a map with these keys."""

    cdef Py_ssize_t length
    cdef dict empty
    cdef _Key keys[SHAPE_KEYS_MAX]


@cython.auto_pickle(False)
@cython.final
cdef class CUnpacker:
    """See ``c_unpacker.py``.

    ``records`` returns ``number`` values that begin at ``start`` and end at ``end``. It raises the
    errors of ``unpack``: the values are the elements of an array without its header.
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
            values = self._batch(&at, limit, number)
            if at < limit:
                raise ExtraData(values, (<const char *>at)[:limit - at])
            return values
        finally:
            PyBuffer_Release(&memory)

    cdef tuple _batch(self, const uint8_t **position, const uint8_t *end, Py_ssize_t number):
        """Return ``number`` records; the first ones, usually all, are flat or numbers."""
        cdef Py_ssize_t index = 0, old_number, length
        cdef Py_ssize_t size_max = min(self._bytes_max, self._elements_max)
        cdef const uint8_t *begin = position[0]
        cdef PyObject *old = NULL
        cdef PyObject *record
        self._check_array(number, end - position[0])
        if number == 0:
            return ()
        values = _owned(PyTuple_New(number))
        end -= number
        if REUSES_VALUES:
            length = position[0][0] - 0x90 if is_short_array(position[0]) else 0
            earlier = _take_batch(length)
            old_number = PyTuple_GET_SIZE(<PyObject *>earlier)
            while index < number:
                old = NULL
                if index < old_number:
                    old = PyTuple_GET_ITEM(<PyObject *>earlier, index)
                record = flat_record(position, end + 1, old, size_max)
                if record is NULL:
                    break
                if record is old:
                    Py_INCREF(record)
                PyTuple_SET_ITEM(<PyObject *>values, index, record)
                end += 1
                index += 1
            else:
                _keep_batch(length, <PyObject *>values, position[0] - begin)
        while index < number:
            end += 1
            PyTuple_SET_ITEM(<PyObject *>values, index, self._value(position, end, 1))
            index += 1
        return values

    # Each of these methods returns a new reference to a value. The value begins at ``position``,
    # which is advanced to its end. It must not exceed ``end``, its latest possible end: every later
    # value has at least one byte.

    cdef inline PyObject *_value(
        self, const uint8_t **position, const uint8_t *end, int depth
    ) except NULL:
        cdef const uint8_t *at = position[0]
        cdef int head
        _check_left(end - at, 1)
        head = at[0]
        at += 1
        if head < 0x80:
            position[0] = at
            return PyLong_FromLongLong(head)
        if head >= 0xE0:
            position[0] = at
            return PyLong_FromLongLong(head - 0x100)
        # The most common types of records come first; ``_marked`` repeats them with all other
        # markers.
        if head == 0xCB and end - at >= 8:
            position[0] = at + 8
            return PyFloat_FromDouble(get_double(at))
        if head == 0xCE and end - at >= 4:
            position[0] = at + 4
            return PyLong_FromLongLong(get32(at))
        if head == 0xCF and end - at >= 8:
            position[0] = at + 8
            return PyLong_FromUnsignedLongLong(get64(at))
        if head == 0xCD and end - at >= 2:
            position[0] = at + 2
            return PyLong_FromLongLong(get16(at))
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
        cdef int size
        if head <= 0xC3:
            position[0] = at
            return _constant(head)
        if head <= 0xC6:
            size = 1 << (head - 0xC4)
            return self._bytes(position, at + size, end, _length(at, end, size))
        if head <= 0xC9:
            size = 1 << (head - 0xC7)
            return self._extension(position, at + size, end, _length(at, end, size))
        if head <= 0xCB:
            return _float(position, at, end, head)
        if head <= 0xD3:
            return _integer(position, at, end, head)
        if head <= 0xD8:
            return self._extension(position, at, end, 1 << (head - 0xD4))
        if head <= 0xDB:
            size = 1 << (head - 0xD9)
            return self._text(position, at + size, end, _length(at, end, size))
        size = 2 << (head & 1)
        position[0] = at + size
        if head <= 0xDD:
            return self._array(position, end, _length(at, end, size), depth + 1)
        return self._map(position, end, _length(at, end, size), depth + 1)

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
        held = _owned(values)  # freed if an element raises
        end -= length
        for index in range(length):
            end += 1
            PyTuple_SET_ITEM(values, index, self._value(position, end, depth))
        Py_INCREF(values)
        return values

    cdef PyObject *_map(
        self, const uint8_t **position, const uint8_t *end, Py_ssize_t length, int depth
    ) except NULL:
        cdef Py_ssize_t place = -1
        if depth > DEPTH_OF_CALLS:
            return self._deep(position, end, length, True, depth)
        self._check_map(length, end - position[0])
        if 2 <= length <= SHAPE_KEYS_MAX:
            place = _place_of_shape(position[0], length)
            shape = <object>PyList_GET_ITEM(<PyObject *>known_shapes, place)
            if shape is not None and (<_Shape>shape).length == length:
                return self._map_like(<_Shape>shape, position, end, depth, place)
        return self._rest_of_map({}, 0, position, end, length, depth, place)

    cdef PyObject *_map_like(
        self, _Shape shape, const uint8_t **position, const uint8_t *end, int depth, Py_ssize_t place
    ) except NULL:
        """Return a map with all keys of an earlier map, or with the first of them."""
        cdef Py_ssize_t length = shape.length, number = 0, index
        cdef const uint8_t *limit = end
        cdef PyObject *made[SHAPE_KEYS_MAX]
        cdef _Key *key
        cdef uint64_t keys_seen = 0
        end -= 2 * length
        try:
            while number < length:
                end += 1
                key = &shape.keys[number]
                if key.size > self._bytes_max or not _is_key(key, position[0], end):
                    break
                position[0] += 1 + key.size
                end += 1
                made[number] = self._value(position, end, depth)
                number += 1
            values = PyDict_Copy(shape.empty) if number == length else {}
            for index in range(number):
                key = &shape.keys[index]
                keys_seen = _with_key(keys_seen, key.text_hash)
                PyDict_SetItem(<PyObject *>values, key.text, made[index])
        finally:
            for index in range(number):
                Py_DECREF(made[index])
        if number < length:
            return self._rest_of_map(values, keys_seen, position, limit, length, depth, place)
        last_keys_seen[place] = keys_seen
        Py_INCREF(<PyObject *>values)
        return <PyObject *>values

    cdef PyObject *_rest_of_map(
        self,
        dict values,
        uint64_t keys_seen,
        const uint8_t **position,
        const uint8_t *end,
        Py_ssize_t length,
        int depth,
        Py_ssize_t place,
    ) except NULL:
        """Return a map of this length, and remember its shape.

        Some entries may already be in ``values``.
        """
        cdef Py_ssize_t begun = PyDict_GET_SIZE(<PyObject *>values)
        end -= 2 * (length - begun)
        for _ in range(begun, length):
            end += 1
            key = _owned(self._value(position, end, depth))
            end += 1
            value = _owned(self._value(position, end, depth))
            PyDict_SetItem(<PyObject *>values, <PyObject *>key, <PyObject *>value)
            keys_seen = _with_key(keys_seen, hash(key))
        if place >= 0:
            if last_keys_seen[place] == keys_seen and PyDict_GET_SIZE(<PyObject *>values) == length:
                _remember_shape(place, values)
            last_keys_seen[place] = keys_seen
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
        """Return a deeply nested array or map, with all arrays and maps in it."""
        cdef list outer = []
        cdef list values = []
        cdef const uint8_t *at
        cdef int head, size
        while True:
            # An array or a map begins here; its length has been read.
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
                _check_left(end - at, 1)
                head = at[0]
                if 0x80 <= head < 0xA0 or 0xDC <= head < 0xE0:
                    break
                # The head is no array or map, so the depth is not used.
                values.append(_owned(self._value(position, end, 0)))
            outer.append((values, length, is_map))
            values = []
            depth += 1
            is_map = head < 0x90 or head >= 0xDE
            at += 1
            size = 0 if head < 0xA0 else 2 << (head & 1)
            length = _length(at, end, size) if size else head & 0x0F
            position[0] = at + size

    # An element takes at least one byte, and an entry of a map two. The bytes of all later elements
    # are reserved, so all arrays together get no more room than the content could fill.

    cdef inline int _check_array(self, Py_ssize_t length, Py_ssize_t left) except -1:
        if length > self._elements_max:
            raise ValueError(f"{length} exceeds max_array_len({self._elements_max})")
        return _check_left(left, length)

    cdef inline int _check_map(self, Py_ssize_t length, Py_ssize_t left) except -1:
        if length > self._entries_max:
            raise ValueError(f"{length} exceeds max_map_len({self._entries_max})")
        return _check_left(left >> 1, length)

    cdef inline PyObject *_text(
        self, const uint8_t **position, const uint8_t *at, const uint8_t *end, Py_ssize_t size
    ) except NULL:
        _check_left(end - at, size)
        if size > self._bytes_max:
            raise ValueError(f"{size} exceeds max_str_len({self._bytes_max})")
        position[0] = at + size
        return _text(at, size)

    cdef PyObject *_bytes(
        self, const uint8_t **position, const uint8_t *at, const uint8_t *end, Py_ssize_t size
    ) except NULL:
        _check_left(end - at, size)
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
        _check_left(end - at, 1 + size)
        code = <int8_t>at[0]
        position[0] = at + 1 + size
        if code == TIMESTAMP:
            value = _timestamp(at + 1, size)
        else:
            value = self._read_extension(code, (<const char *>at)[1:1 + size])
        Py_INCREF(<PyObject *>value)
        return <PyObject *>value


cdef tuple _take_batch(Py_ssize_t length):
    """Return an earlier batch without other references; an empty batch if there is none."""
    cdef _Kept *kept = &last_batches[length]
    # With another reference, a reader still holds the batch.
    if kept.batch is NULL or Py_REFCNT(kept.batch) > 1:
        kept = &batches_before[length]
    if kept.batch is NULL or Py_REFCNT(kept.batch) > 1:
        return ()
    batch = <tuple>kept.batch
    _let_go(kept)
    return batch


cdef int _keep_batch(Py_ssize_t length, PyObject *batch, Py_ssize_t size) except -1:
    global bytes_kept
    cdef Py_ssize_t other = length
    _let_go(&batches_before[length])
    batches_before[length] = last_batches[length]
    last_batches[length].batch = NULL
    if size > BYTES_KEPT_MAX:
        return 0
    while bytes_kept + size > BYTES_KEPT_MAX:  # batches of this length are dropped last
        other = (other + 1) % LENGTHS_KEPT
        _let_go(&batches_before[other])
        _let_go(&last_batches[other])
    # The records of a kept batch will be overwritten, so ``gc.get_objects`` must not return it.
    # Flat records form no cycles, so the collector need not know it.
    PyObject_GC_UnTrack(batch)
    Py_INCREF(batch)
    last_batches[length].batch = batch
    last_batches[length].size = size
    bytes_kept += size
    return 0


cdef int _let_go(_Kept *kept) except -1:
    global bytes_kept
    cdef PyObject *batch = kept.batch
    if batch is not NULL:
        kept.batch = NULL
        bytes_kept -= kept.size
        Py_DECREF(batch)
    return 0


cdef inline PyObject *_text(const uint8_t *at, Py_ssize_t size) except NULL:
    """Return a text.

    Most texts are ASCII, and are copied. Python decodes all others, and also texts of up to one
    character, because it has a single object for each of these.
    """
    cdef PyObject *text = NULL
    if 2 <= size <= KNOWN_TEXT_BYTES:
        text = known_text(at, size)
        if text is not NULL:
            return text
    if size < 2 or not is_ascii(at, size):
        return PyUnicode_DecodeUTF8(<const char *>at, size, NULL)
    text = PyUnicode_New(size, 0x7F)
    memcpy(PyUnicode_1BYTE_DATA(text), at, size)
    return text


cdef inline PyObject *_constant(int head) except NULL:
    cdef PyObject *value
    if head == 0xC0:
        value = Py_None
    elif head == 0xC1:
        raise FormatError
    else:
        value = Py_True if head == 0xC3 else Py_False
    Py_INCREF(value)
    return value


cdef inline PyObject *_float(
    const uint8_t **position, const uint8_t *at, const uint8_t *end, int head
) except NULL:
    if head == 0xCA:
        _check_left(end - at, 4)
        position[0] = at + 4
        return PyFloat_FromDouble(get_float(at))
    _check_left(end - at, 8)
    position[0] = at + 8
    return PyFloat_FromDouble(get_double(at))


cdef inline PyObject *_integer(
    const uint8_t **position, const uint8_t *at, const uint8_t *end, int head
) except NULL:
    cdef int size = 1 << (head & 3)
    _check_left(end - at, size)
    position[0] = at + size
    if head >= 0xD0:
        return PyLong_FromLongLong(get_signed(at, size))
    return PyLong_FromUnsignedLongLong(get_unsigned(at, size))


cdef inline Py_ssize_t _length(const uint8_t *at, const uint8_t *end, int size) except -1:
    """Return the number in the next ``size`` bytes."""
    _check_left(end - at, size)
    return get_unsigned(at, size)


cdef dict _mapped(list values):
    """Return the map of alternating keys and elements."""
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
        seconds = get32(at)
    elif size == 8:
        bits = get64(at)
        seconds = bits & ((<uint64_t>1 << 34) - 1)
        nanoseconds = bits >> 34
    elif size == 12:
        nanoseconds = get32(at)
        seconds = <int64_t>get64(at + 4)
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


cdef int _remember_shape(Py_ssize_t place, dict values) except -1:
    """Remember the keys of a map, in order, for the next map at this place."""
    cdef Py_ssize_t index = 0, size
    shape = _Shape()
    for text in values:
        if type(text) is not str or not PyUnicode_IS_COMPACT_ASCII(<PyObject *>text):
            return 0
        size = PyUnicode_GET_LENGTH(<PyObject *>text)
        if not 0 < size < 0x20:
            return 0
        shape.keys[index].size = size
        shape.keys[index].text = <PyObject *>text
        shape.keys[index].text_hash = hash(text)
        shape.keys[index].content[0] = <uint8_t>(0xA0 + size)
        memcpy(shape.keys[index].content + 1, PyUnicode_DATA(<PyObject *>text), size)
        memset(&shape.keys[index].last_word, 0xFF, size % 8 + 1)
        index += 1
    shape.length = index
    shape.empty = dict.fromkeys(values)
    known_shapes[place] = shape
    return 0


cdef inline bint _is_key(_Key *key, const uint8_t *at, const uint8_t *end) noexcept:
    """Return whether the key is at ``at``.

    It usually is, so whole words are compared.
    """
    cdef Py_ssize_t size = 1 + key.size
    cdef uint64_t one = 0, other = 0
    cdef const uint8_t *content = key.content
    if end - at < size:
        return False
    while size > 8:
        memcpy(&one, at, 8)
        memcpy(&other, content, 8)
        if one != other:
            return False
        at += 8
        content += 8
        size -= 8
    if end - at >= 8:
        memcpy(&one, at, 8)
        memcpy(&other, content, 8)  # only spare room follows a key
        return (one ^ other) & key.last_word == 0
    return memcmp(at, content, size) == 0


cdef inline uint64_t _with_key(uint64_t keys_seen, Py_hash_t key_hash) noexcept:
    return (keys_seen ^ <uint64_t>key_hash) * 0x9E3779B97F4A7C15ULL


cdef inline Py_ssize_t _place_of_shape(const uint8_t *at, Py_ssize_t length) noexcept:
    """Return the place of a map of two or more keys, by its first key and its length."""
    cdef uint32_t few_bytes
    memcpy(&few_bytes, at, 4)  # two entries have at least four bytes
    return (few_bytes * 0x9E3779B1U + <uint32_t>length * 0x85EBCA6BU) >> 26


cdef inline object _owned(PyObject *value):
    """Take over a reference to a value, and return the value."""
    owned = <object>value
    Py_DECREF(value)
    return owned


cdef inline int _check_left(Py_ssize_t left, Py_ssize_t size) except -1:
    if left < size:
        _raise_incomplete()
    return 0


cdef int _raise_incomplete() except -1:
    raise ValueError(INCOMPLETE)
