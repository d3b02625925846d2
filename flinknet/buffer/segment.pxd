from libc.stdint cimport uint8_t


cdef class Stretch:
    cdef Py_buffer memory


cdef class Memory:
    cdef Stretch stretch
    cdef uint8_t *own
    cdef uint8_t *start
    cdef Py_ssize_t size
    cdef Py_ssize_t views
    cdef Py_ssize_t parts
    cdef bint views_part
    cdef Py_ssize_t view_start
    cdef Py_ssize_t view_size

    cdef object view(self, Py_ssize_t start, Py_ssize_t size)
    cdef object part(self, Py_ssize_t start, Py_ssize_t size)


cdef class MemorySegment:
    cdef readonly Py_ssize_t capacity
    cdef Memory _memory
    cdef Py_ssize_t _written

    cdef uint8_t *_room(self, Py_ssize_t size) except NULL
    cpdef Py_ssize_t write(self, data) except -1
    cpdef writer(self)
    cpdef view(self, Py_ssize_t size)
    cpdef view_with_room(self, Py_ssize_t size)
    cpdef part(self, Py_ssize_t start, Py_ssize_t size)
    cpdef bint is_locked(self) except -1
    cpdef renew(self)
