# cython: binding=False, cdivision=True
"""See ``entry_writer.py``."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from zlib import crc32

from flinknet.records.key_hash cimport begin_key_hashes, key_hash_of, over_byte
from flinknet.records.serialization.c_packer cimport CPacker, pack_quietly

from flinknet.records.key_groups import key_group
from flinknet.task.state.snapshot_format import RUN

__all__ = ["RUN_BYTES", "EntryWriter", "WrittenGroup"]

RUN_BYTES = 16_384

cdef Py_ssize_t RUN_ENDS = RUN_BYTES


cdef extern from "Python.h":
    void PyErr_Clear()


begin_key_hashes()


cdef class WrittenGroup:
    """See ``entry_writer.py``."""

    cdef public list pieces
    cdef public bytearray begun
    cdef public Py_ssize_t entries
    cdef public Py_ssize_t size
    cdef public object checksum

    def __init__(self):
        self.pieces = []
        self.begun = bytearray()
        self.entries = 0
        self.size = 0
        self.checksum = 0

    cpdef end_run(self, state):
        if not self.entries:
            return
        for piece in (RUN.pack(state, self.entries, len(self.begun)), self.begun):
            self.pieces.append(piece)
            self.size += len(piece)
            self.checksum = crc32(piece, self.checksum)
        self.begun, self.entries = bytearray(), 0


cdef class EntryWriter:
    """See ``entry_writer.py``."""

    cdef public dict groups
    cdef public object key
    cdef CPacker _direct
    cdef object _pack
    cdef uint32_t _max_parallelism

    def __init__(self, serializer, max_parallelism):
        self.groups = {}
        self.key = None
        self._direct = serializer.direct
        self._pack = serializer.pack
        self._max_parallelism = max_parallelism

    def write(
        self, state, entries, serialised, Py_ssize_t entries_max, Py_ssize_t bytes_max
    ):
        """Pack key and value behind each other, look at the bytes of the one for the group of
        both, and copy them to that."""
        cdef CPacker direct = self._direct
        cdef Py_ssize_t count = 0, size = 0, start = direct._size, packed
        cdef WrittenGroup written
        try:
            for key, value in entries:
                self.key = key
                if _is_own_form(key):
                    self._put_plain(key)
                    group = self._group_of_bytes(start)
                else:
                    self._put(self._pack(key))
                    group = key_group(key, self._max_parallelism)
                if serialised is not None:
                    value = serialised(value)
                if _is_scalar(value):
                    self._put_plain(value)
                else:
                    self._put(self._pack(value))
                written = self.groups.get(group)
                if written is None:
                    written = self.groups[group] = WrittenGroup()
                packed = direct._size - start
                _append(written.begun, direct._scratch + start, packed)
                direct.release(start)
                written.entries += 1
                count += 1
                size += packed
                if PyByteArray_GET_SIZE(written.begun) >= RUN_ENDS:
                    written.end_run(state)
                if count >= entries_max or size >= bytes_max:
                    break
        finally:
            direct.release(start)
        return count

    cdef int _put_plain(self, value) except -1:
        """Pack what has no list in it."""
        cdef Py_ssize_t before = self._direct._size
        if pack_quietly(self._direct, <PyObject *>value) < 0:
            PyErr_Clear()
            self._direct.release(before)
            self._put(self._pack(value))  # a number that is too large, which says so
        return 0

    cdef int _put(self, bytes packed) except -1:
        cdef Py_ssize_t size = len(packed)
        memcpy(self._direct._room(size), <const char *>packed, size)
        self._direct._size += size
        return 0

    cdef uint32_t _group_of_bytes(self, Py_ssize_t start) noexcept:
        """The key group of a key that is its own form: the bytes are what is hashed."""
        cdef uint32_t value = 0xFFFFFFFFU
        cdef Py_ssize_t index
        for index in range(start, self._direct._size):
            value = over_byte(value, self._direct._scratch[index])
        return key_hash_of(value) % self._max_parallelism


cdef int _append(bytearray begun, const uint8_t *content, Py_ssize_t size) except -1:
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(begun)
    PyByteArray_Resize(begun, before + size)
    memcpy(PyByteArray_AS_STRING(begun) + before, content, size)
    return 0


cdef bint _is_scalar(value) noexcept:
    kind = type(value)
    return kind is int or kind is str or kind is float or kind is bytes


cdef bint _is_own_form(key) noexcept:
    cdef Py_ssize_t index
    kind = type(key)
    if kind is not tuple:
        return kind is str or kind is int
    for index in range(PyTuple_GET_SIZE(key)):
        kind = type(<object>PyTuple_GET_ITEM(key, index))
        if kind is not str and kind is not int:
            return False
    return True
