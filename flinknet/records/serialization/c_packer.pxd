cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from flinknet.buffer.builder cimport BufferBuilder


@cython.final
cdef class CPacker:
    cdef uint8_t *_scratch
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity
    cdef readonly object form
    cdef readonly int options

    cpdef Py_ssize_t hold(self, value) except -1
    cpdef bytes write(self, Py_ssize_t start, BufferBuilder builder)
    cpdef int release(self, Py_ssize_t start) noexcept
    cdef bytes _packed(self, value)
    cdef int _shrink(self) noexcept
    cdef int _grow(self, Py_ssize_t room) except -1
    cdef uint8_t *_room(self, Py_ssize_t size) except NULL
    cdef int _pack(self, PyObject *value, int depth) except -1
    cdef int _byte(self, uint8_t byte) except -1
    cdef int _pack_float(self, PyObject *value) except -1
    cdef int _pack_int(self, PyObject *value) except -1
    cdef int _pack_any_int(self, PyObject *value) except -1
    cdef int _pack_unsigned(self, uint64_t value) except -1
    cdef int _pack_text(self, PyObject *value) except -1
    cdef int _pack_any_text(self, value) except -1
    cdef int _put_text(self, const char *content, Py_ssize_t size) except -1
    cdef int _pack_bytes(self, value) except -1
    cdef int _put_content(self, int marker, const char *content, Py_ssize_t size) except -1
    cdef int _begin(self, int short_form, int marker, Py_ssize_t length, int depth) except -1
    cdef int _pack_tuple(self, PyObject *value, int depth) except -1
    cdef int _pack_list(self, PyObject *value, int depth) except -1
    cdef int _pack_dict(self, PyObject *value, int depth) except -1
    cdef int _pack_other(self, value, int depth) except -1
    cdef int _pack_extension(self, int code, const char *content, Py_ssize_t size) except -1


cdef extern from *:
    """
    static inline int raise_what_is_set(void) { return -1; }
    """
    int raise_what_is_set() except -1


cdef int pack_quietly(CPacker packer, PyObject *value) noexcept
