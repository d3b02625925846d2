# cython: binding=False
"""Packing of records in C: ``c_packer.py`` in a third of the time for a small record.

The bytes are the same: every integer has the shortest form, and every float has eight bytes. The
tests pack every kind of record with both.

Theory of operation. A value is packed into memory that the packer keeps, with one call per value,
and copied out of it once. The form of an object packs the values in the object with the same
packer, after the bytes of the object's record, and removes them again.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.long cimport PyLong_AsUnsignedLongLong
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8String
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flinknet.buffer.builder cimport BufferBuilder
from flinknet.buffer.segment cimport MemorySegment
from flinknet.records.compact_integer cimport compact_integer
from flinknet.records.serialization.msgpack_bytes cimport (
    put16,
    put32,
    put_double,
    put_negative,
    put_short_text,
    put_unsigned,
)

from flinknet.records.serialization.extension_types import NESTING_MAX
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.value_forms import ValueForms

__all__ = ["CPacker"]


cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False
    bint PyLong_CheckExact(PyObject *value)
    bint PyFloat_CheckExact(PyObject *value)
    bint PyUnicode_CheckExact(PyObject *value)
    bint PyBytes_CheckExact(PyObject *value)
    bint PyTuple_CheckExact(PyObject *value)
    bint PyList_CheckExact(PyObject *value)
    bint PyDict_CheckExact(PyObject *value)
    long long PyLong_AsLongLongAndOverflow(PyObject *value, int *overflow) except? -1
    double PyFloat_AS_DOUBLE(PyObject *value)
    bint PyUnicode_IS_COMPACT_ASCII(PyObject *value)
    const void *PyUnicode_DATA(PyObject *value)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *value)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *value)
    PyObject *PyTuple_GET_ITEM(PyObject *value, Py_ssize_t index)
    Py_ssize_t PyList_GET_SIZE(PyObject *value)
    PyObject *PyList_GET_ITEM(PyObject *value, Py_ssize_t index)
    Py_ssize_t PyDict_GET_SIZE(PyObject *value)


cdef enum:
    SCRATCH_BYTES = 4096
    # A large record's memory is not kept for the small records after it.
    SCRATCH_KEPT_BYTES = 1 << 20

cdef int DEPTH_MAX = NESTING_MAX
cdef Py_ssize_t LENGTH_MAX = 0xFFFFFFFF
cdef Py_ssize_t CHECKED_FROM_BYTES = COUNTED_FROM_BYTES
cdef str TOO_DEEP = f"arrays and maps are nested more than {NESTING_MAX} levels deep"
cdef str TOO_LONG = "an int has at most 64 bits, -2**63 to 2**64 - 1: convert it to text or a Decimal"


@cython.final
cdef class _Extension:
    cdef int code
    cdef bytes content

    def __init__(self, int code, bytes content not None):
        self.code = code
        self.content = content


cdef class CPacker:
    """See ``c_packer.py``.

    ``pack_otherwise`` only raises the error here: there is no second packer. Raises RuntimeError if
    packing an element changes its list or dict.
    """

    # Packed bytes occupy the scratch memory up to ``_size``. The form of an object uses the same
    # packer meanwhile, after these bytes, and removes its own bytes again.

    def __cinit__(self):
        self._scratch = <uint8_t *>PyMem_Malloc(SCRATCH_BYTES)
        if self._scratch is NULL:
            raise MemoryError
        self._capacity = SCRATCH_BYTES
        self._size = 0

    def __init__(self, types):
        self.form = ValueForms(types, self.pack).made_with(_Extension)
        self.options = 0

    def __dealloc__(self):
        PyMem_Free(self._scratch)

    def pack(self, value):
        return self._packed(value)

    def pack_otherwise(self, value):
        return self._packed(value)

    def encode(self, value, form, options):
        try:
            return self._packed(value)
        except Exception:  # ``pack_otherwise`` raises it again, as with ormsgpack
            raise TypeError from None

    cdef bytes _packed(self, value):
        cdef Py_ssize_t start = self.hold(value)
        try:
            return PyBytes_FromStringAndSize(<char *>self._scratch + start, self._size - start)
        finally:
            self.release(start)

    cpdef Py_ssize_t hold(self, value) except -1:
        cdef Py_ssize_t start = self._size
        if pack_quietly(self, <PyObject *>value) < 0:
            self.release(start)
            raise_what_is_set()
        return start

    cpdef bytes write(self, Py_ssize_t start, BufferBuilder builder):
        cdef Py_ssize_t size = self._size - start
        cdef MemorySegment segment
        try:
            if size > builder.remaining or size > CHECKED_FROM_BYTES:
                return PyBytes_FromStringAndSize(<char *>self._scratch + start, size)
            segment = builder._segment
            memcpy(segment._room(size), self._scratch + start, size)
            segment._written += size
            builder.remaining -= size
            builder.records += 1
            return None
        finally:
            self.release(start)

    cpdef int release(self, Py_ssize_t start) noexcept:
        self._size = start
        if self._capacity > SCRATCH_KEPT_BYTES and start == 0:
            self._shrink()
        return 0

    cdef int _shrink(self) noexcept:
        cdef uint8_t *scratch = <uint8_t *>PyMem_Realloc(self._scratch, SCRATCH_BYTES)
        if scratch is not NULL:
            self._scratch = scratch
            self._capacity = SCRATCH_BYTES
        return 0

    cdef int _grow(self, Py_ssize_t room) except -1:
        cdef Py_ssize_t capacity = self._capacity
        cdef uint8_t *scratch = NULL
        while capacity - self._size < room and capacity <= PY_SSIZE_T_MAX // 2:
            capacity *= 2
        if capacity - self._size >= room:
            scratch = <uint8_t *>PyMem_Realloc(self._scratch, capacity)
        if scratch is NULL:
            raise MemoryError
        self._scratch = scratch
        self._capacity = capacity
        return 0

    cdef inline uint8_t *_room(self, Py_ssize_t size) except NULL:
        """Return the position of the next bytes, with room for ``size`` of them."""
        if self._capacity - self._size < size:
            self._grow(size)
        return self._scratch + self._size

    cdef int _pack(self, PyObject *value, int depth) except -1:
        if PyLong_CheckExact(value):
            return self._pack_int(value)
        if PyFloat_CheckExact(value):
            return self._pack_float(value)
        if PyUnicode_CheckExact(value):
            return self._pack_text(value)
        if PyTuple_CheckExact(value):
            return self._pack_tuple(value, depth + 1)
        if PyDict_CheckExact(value):
            return self._pack_dict(value, depth + 1)
        if PyList_CheckExact(value):
            return self._pack_list(value, depth + 1)
        if value is Py_None:
            return self._byte(0xC0)
        if value is Py_True:
            return self._byte(0xC3)
        if value is Py_False:
            return self._byte(0xC2)
        if PyBytes_CheckExact(value):
            return self._pack_bytes(<object>value)
        return self._pack_other(<object>value, depth)

    cdef inline int _byte(self, uint8_t byte) except -1:
        self._room(1)[0] = byte
        self._size += 1
        return 0

    cdef inline int _pack_float(self, PyObject *value) except -1:
        self._size = put_double(self._room(9), PyFloat_AS_DOUBLE(value)) - self._scratch
        return 0

    cdef inline int _pack_int(self, PyObject *value) except -1:
        cdef long long number
        if compact_integer(value, &number) and number >= 0:
            return self._pack_unsigned(<uint64_t>number)
        return self._pack_any_int(value)

    cdef int _pack_any_int(self, PyObject *value) except -1:
        cdef int overflow
        cdef long long number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow > 0:
            try:
                return self._pack_unsigned(PyLong_AsUnsignedLongLong(<object>value))
            except OverflowError:
                raise OverflowError(TOO_LONG) from None
        if overflow < 0:
            raise OverflowError(TOO_LONG)
        if number >= 0:
            return self._pack_unsigned(<uint64_t>number)
        self._size = put_negative(self._room(9), number) - self._scratch
        return 0

    cdef inline int _pack_unsigned(self, uint64_t value) except -1:
        self._size = put_unsigned(self._room(9), value) - self._scratch
        return 0

    cdef inline int _pack_text(self, PyObject *value) except -1:
        if PyUnicode_IS_COMPACT_ASCII(value):  # its memory is UTF-8 already
            return self._put_text(<const char *>PyUnicode_DATA(value), PyUnicode_GET_LENGTH(value))
        return self._pack_any_text(<object>value)

    cdef int _pack_any_text(self, value) except -1:
        encoded = PyUnicode_AsUTF8String(value)
        return self._put_text(PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))

    cdef inline int _put_text(self, const char *content, Py_ssize_t size) except -1:
        if size < 0x20:  # at most 31 bytes and a head of one
            self._size = put_short_text(self._room(0x20), content, size) - self._scratch
            return 0
        return self._put_content(0xD9, content, size)

    cdef int _pack_bytes(self, value) except -1:
        return self._put_content(0xC4, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))

    cdef int _put_content(self, int marker, const char *content, Py_ssize_t size) except -1:
        cdef uint8_t *at
        if size > LENGTH_MAX:
            _raise_too_long(size)
        at = self._room(size + 5)
        if size < 0x100:
            at[0] = <uint8_t>marker
            at[1] = <uint8_t>size
            at += 2
        else:
            at += _put_length(at, marker + 1, size)
        memcpy(at, content, size)
        self._size = at + size - self._scratch
        return 0

    cdef inline int _begin(self, int short_form, int marker, Py_ssize_t length, int depth) except -1:
        """Write the head of an array or a map."""
        cdef uint8_t *at = self._room(5)
        if depth > DEPTH_MAX:
            raise RecursionError(TOO_DEEP)
        if length < 16:
            at[0] = <uint8_t>(short_form | length)
            self._size += 1
        else:
            if length > LENGTH_MAX:
                _raise_too_long(length)
            self._size += _put_length(at, marker, length)
        return 0

    cdef inline int _pack_tuple(self, PyObject *value, int depth) except -1:
        cdef Py_ssize_t index, length = PyTuple_GET_SIZE(value)
        self._begin(0x90, 0xDC, length, depth)
        for index in range(length):
            self._pack(PyTuple_GET_ITEM(value, index), depth)
        return 0

    # The form of an object runs code of its class, which may change the object's container. These
    # methods therefore hold a reference to each element while it is packed, and compare the
    # container's length with the length that is already written.

    cdef int _pack_list(self, PyObject *value, int depth) except -1:
        cdef Py_ssize_t index, length = PyList_GET_SIZE(value)
        self._begin(0x90, 0xDC, length, depth)
        for index in range(length):
            element = <object>PyList_GET_ITEM(value, index)
            self._pack(<PyObject *>element, depth)
            if PyList_GET_SIZE(value) != length:
                raise RuntimeError("a list changed its size while it was packed")
        return 0

    cdef int _pack_dict(self, PyObject *value, int depth) except -1:
        cdef Py_ssize_t position = 0, packed = 0, length = PyDict_GET_SIZE(value)
        cdef PyObject *next_key
        cdef PyObject *next_element
        self._begin(0x80, 0xDE, length, depth)
        while PyDict_Next(<object>value, &position, &next_key, &next_element):
            key, element = <object>next_key, <object>next_element
            self._pack(<PyObject *>key, depth)
            self._pack(<PyObject *>element, depth)
            packed += 1
            if PyDict_GET_SIZE(value) != length or packed > length:
                break
        if packed != length or PyDict_GET_SIZE(value) != length:
            raise RuntimeError("a dict changed while it was packed")
        return 0

    cdef int _pack_other(self, value, int depth) except -1:
        cdef _Extension extension
        if type(value) is bytearray or type(value) is memoryview:
            if type(value) is memoryview and not value.c_contiguous:
                raise BufferError("memoryview: underlying buffer is not C-contiguous")
            return self._pack_bytes(bytes(value))
        found = self.form(value)
        if type(found) is not _Extension:
            return self._pack(<PyObject *>found, depth)
        extension = <_Extension>found
        return self._pack_extension(
            extension.code, PyBytes_AS_STRING(extension.content), PyBytes_GET_SIZE(extension.content)
        )

    cdef int _pack_extension(self, int code, const char *content, Py_ssize_t size) except -1:
        cdef uint8_t *at
        cdef uint8_t fixed = 0xD4 if size == 1 else 0xD5 if size == 2 else 0xD6 if size == 4 \
            else 0xD7 if size == 8 else 0xD8 if size == 16 else 0
        if size > LENGTH_MAX:
            _raise_too_long(size)
        at = self._room(size + 6)
        if fixed:
            at[0] = fixed
            at += 1
        elif size < 0x100:
            at[0] = 0xC7
            at[1] = <uint8_t>size
            at += 2
        else:
            at += _put_length(at, 0xC8, size)
        at[0] = <uint8_t>code
        memcpy(at + 1, content, size)
        self._size = at + 1 + size - self._scratch
        return 0


# A try statement in Cython costs time for valid records, too. A function that may raise is called
# through a type that declares no errors instead. The result -1 tells that an error is set.

ctypedef int (*_Quietly)(CPacker, PyObject *) noexcept


cdef int _pack_value(CPacker packer, PyObject *value) except -1:
    return packer._pack(value, 0)


cdef int pack_quietly(CPacker packer, PyObject *value) noexcept:
    return (<_Quietly>_pack_value)(packer, value)


cdef inline int _put_length(uint8_t *at, int marker, Py_ssize_t length) noexcept:
    """Write a head with a two-byte length or, with the next marker, a four-byte length.

    Return the size of the head.
    """
    if length < 0x10000:
        at[0] = <uint8_t>marker
        put16(at + 1, <uint16_t>length)
        return 3
    at[0] = <uint8_t>(marker + 1)
    put32(at + 1, <uint32_t>length)
    return 5


cdef int _raise_too_long(Py_ssize_t length) except -1:
    raise ValueError(f"{length} elements or bytes are more than msgpack can hold")
