# cython: binding=False, cdivision=True
"""See ``entry_writer.py``."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.dict cimport PyDict_Next
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from zlib import crc32

from flinknet.prefetch cimport have_brought
from flinknet.records.key_hash cimport begin_key_hashes, key_hash_of, over_byte
from flinknet.records.serialization.c_packer cimport CPacker, pack_quietly

from flinknet.records.key_groups import key_group
from flinknet.state.snapshot_format import RUN
from flinknet.records.value_copy import are_unchanging

__all__ = ["RUN_BYTES", "DetachedEntries", "EntryWriter", "WrittenGroup"]

RUN_BYTES = 16_384

cdef enum:
    AHEAD = 16  # entries that are written in the time of a memory access

cdef Py_ssize_t RUN_ENDS = RUN_BYTES


cdef extern from "Python.h":
    void PyErr_Clear()


begin_key_hashes()


cdef class DetachedEntries:
    """See ``entry_writer.py``.

    The references are stored in a C array, which the garbage collector does not traverse. Most of
    them refer to objects outside the cache, so the objects are prefetched.
    """

    cdef readonly bint is_whole
    cdef dict _entries
    cdef Py_ssize_t _position
    cdef PyObject **_taken
    cdef Py_ssize_t _first
    cdef Py_ssize_t _end

    def __cinit__(self, dict entries not None):
        self._taken = <PyObject **>PyMem_Malloc(2 * len(entries) * sizeof(PyObject *))
        if self._taken is NULL:
            raise MemoryError
        self._entries = entries

    def __dealloc__(self):
        while self._first < self._end:
            self._ask_for(self._first + AHEAD)
            self._release_first()
        PyMem_Free(self._taken)

    def __iter__(self):
        return self

    def __next__(self):
        if self._first == self._end:
            raise StopIteration
        entry = (<object>self._taken[2 * self._first], <object>self._taken[2 * self._first + 1])
        self._release_first()
        return entry

    def take(self, Py_ssize_t entries_max):
        cdef Py_ssize_t begin = self._end
        cdef list others = []
        while not self.is_whole and self._end - begin < entries_max:
            self._take_some(min(AHEAD, entries_max - (self._end - begin)), others)
        return are_unchanging(others)

    cdef int _take_some(self, Py_ssize_t count, list others) except -1:
        cdef Py_ssize_t end = self._end
        cdef PyObject *key
        cdef PyObject *value
        while end < self._end + count:
            if not PyDict_Next(self._entries, &self._position, &key, &value):
                self.is_whole = True
                break
            # The objects are in the cache when the next loop touches them.
            have_brought(key)
            have_brought(value)
            self._taken[2 * end] = key
            self._taken[2 * end + 1] = value
            end += 1
        while self._end < end:
            value = self._taken[2 * self._end + 1]
            Py_INCREF(<object>self._taken[2 * self._end])
            Py_INCREF(<object>value)
            self._end += 1
            if not _is_scalar(<object>value):
                others.append(<object>value)
        return 0

    cdef void _ask_for(self, Py_ssize_t index) noexcept:
        if index < self._end:
            have_brought(self._taken[2 * index])
            have_brought(self._taken[2 * index + 1])

    cdef int _release_first(self) except -1:
        cdef PyObject *key = self._taken[2 * self._first]
        cdef PyObject *value = self._taken[2 * self._first + 1]
        self._first += 1
        Py_DECREF(<object>key)
        Py_DECREF(<object>value)
        return 0


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
    cdef list _by_group
    cdef object _pack
    cdef uint32_t _max_parallelism

    def __init__(self, serializer, max_parallelism):
        self.groups = {}
        self.key = None
        self._by_group = [None] * max_parallelism
        self._direct = serializer.direct
        self._pack = serializer.pack
        self._max_parallelism = max_parallelism

    def write(
        self, state, entries, serialised, Py_ssize_t entries_max, Py_ssize_t bytes_max
    ):
        cdef Py_ssize_t count = 0, size = 0
        for key, value in entries:
            size += self._write_entry(state, key, value, serialised)
            count += 1
            if count >= entries_max or size >= bytes_max:
                break
        return count

    def write_detached(
        self,
        state,
        DetachedEntries entries not None,
        serialised,
        Py_ssize_t entries_max,
        Py_ssize_t bytes_max,
    ):
        cdef Py_ssize_t count = 0, size = 0, first
        while count < entries_max and size < bytes_max and entries._first < entries._end:
            first = entries._first
            entries._ask_for(first + AHEAD)
            size += self._write_entry(
                state,
                <object>entries._taken[2 * first],
                <object>entries._taken[2 * first + 1],
                serialised,
            )
            entries._release_first()
            count += 1
        return count

    cdef Py_ssize_t _write_entry(self, state, key, value, serialised) except -1:
        """Pack a key and its value, and append the bytes to their key group; return their size."""
        cdef CPacker direct = self._direct
        cdef Py_ssize_t start = direct._size, packed
        cdef uint32_t group
        cdef WrittenGroup written
        self.key = key
        try:
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
            written = self._by_group[group]
            if written is None:
                written = self._by_group[group] = self.groups[group] = WrittenGroup()
            packed = direct._size - start
            _append(written.begun, direct._scratch + start, packed)
        finally:
            direct.release(start)
        written.entries += 1
        if PyByteArray_GET_SIZE(written.begun) >= RUN_ENDS:
            written.end_run(state)
        return packed

    cdef int _put_plain(self, value) except -1:
        """Pack a value without a list in it."""
        cdef Py_ssize_t before = self._direct._size
        if pack_quietly(self._direct, <PyObject *>value) < 0:
            PyErr_Clear()
            self._direct.release(before)
            self._put(self._pack(value))  # an integer that is too large, which raises here
        return 0

    cdef int _put(self, bytes packed) except -1:
        cdef Py_ssize_t size = len(packed)
        memcpy(self._direct._room(size), <const char *>packed, size)
        self._direct._size += size
        return 0

    cdef uint32_t _group_of_bytes(self, Py_ssize_t start) noexcept:
        """Return the key group of a key that is its own form, by hashing its packed bytes."""
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
