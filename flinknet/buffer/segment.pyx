# cython: binding=False
"""The memory segment in C: ``segment.py`` with its own memory in place of a ``BytesIO``.

It counts views as a ``BytesIO`` does. A long part that the writer appends behind is a view here,
where ``segment.py`` copies every part. Parts have a separate count, because they do not keep the
writer from appending.

The segments of a pool share one stretch of memory, which is freed with its last segment. When a
segment takes new memory, its range of the stretch stays unused until then.
"""

import mmap

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memset

__all__ = ["ARRAY_HEADER_BYTES", "MemorySegment", "allocate_segments"]

cdef enum:
    ROOM = 5
    CACHE_LINE_BYTES = 64
    HUGE_PAGE_BYTES = 1 << 21

ARRAY_HEADER_BYTES = ROOM

cdef Py_ssize_t COPIED_BYTES_MAX = 1024
"""Copying a part of up to this many bytes costs no more than making and releasing a view."""


cdef class Stretch:
    """Zeroed memory of the operating system, freed with the last object that uses a part of it."""

    def __cinit__(self, Py_ssize_t size):
        mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                mapped.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                pass  # the kernel has no huge pages
        PyObject_GetBuffer(mapped, &self.memory, PyBUF_SIMPLE)
        memset(self.memory.buf, 0, self.memory.len)  # fault pages in: a lack fails here

    def __dealloc__(self):
        PyBuffer_Release(&self.memory)


cdef class Memory:
    """A piece of memory that its views keep alive."""

    def __cinit__(self, Py_ssize_t size, Stretch stretch=None, Py_ssize_t place=0):
        if stretch is not None:
            if not 0 <= place <= stretch.memory.len - size:
                raise ValueError(f"no memory of {size} bytes is {place} bytes from the start")
            self.start = <uint8_t *>stretch.memory.buf + place
            self.stretch = stretch
        else:
            self.own = self.start = <uint8_t *>PyMem_Calloc(1, size)
            if self.start is NULL:
                raise MemoryError
        self.size = size
        self.view_size = size

    def __dealloc__(self):
        PyMem_Free(self.own)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(
            buffer, self, self.start + self.view_start, self.view_size, self.views_part, flags
        )
        if self.views_part:
            # Tells ``__releasebuffer__`` that this view is a part.
            buffer.internal = &self.parts
            self.parts += 1
        else:
            self.views += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        if buffer.internal is not NULL:
            self.parts -= 1
        else:
            self.views -= 1

    cdef object view(self, Py_ssize_t start, Py_ssize_t size):
        if not (0 <= start and 0 <= size <= self.size - start):
            raise ValueError(f"there are no {size} bytes from {start} on, of {self.size}")
        self.view_start = start
        self.view_size = size
        return PyMemoryView_FromObject(self)

    cdef object part(self, Py_ssize_t start, Py_ssize_t size):
        # Read by ``__getbuffer__``, which the creation of the view calls.
        self.views_part = True
        try:
            return self.view(start, size)
        finally:
            self.views_part = False


cdef class MemorySegment:
    """See ``segment.py``."""

    def __init__(self, Py_ssize_t capacity, Memory memory=None):
        if capacity < 0:
            raise ValueError(f"a segment of {capacity} bytes")
        self.capacity = capacity
        if memory is None:
            self.renew()
        else:
            self._memory = memory

    def __reduce__(self):
        content = PyBytes_FromStringAndSize(<char *>self._memory.start, self._memory.size)
        return _restored, (self.capacity, content, self._written)

    cpdef writer(self):
        self._written = 0
        return self.write

    cpdef Py_ssize_t write(self, data) except -1:
        cdef Py_buffer memory
        cdef Py_ssize_t size
        # Bytes are the frequent case, and need no buffer request.
        if PyBytes_CheckExact(data):
            size = PyBytes_GET_SIZE(data)
            memcpy(self._room(size), PyBytes_AS_STRING(data), size)
        else:
            PyObject_GetBuffer(data, &memory, PyBUF_SIMPLE)
            try:
                size = memory.len
                memcpy(self._room(size), memory.buf, size)
            finally:
                PyBuffer_Release(&memory)
        self._written += size
        return size

    cdef uint8_t *_room(self, Py_ssize_t size) except NULL:
        """Return the address of the next write."""
        if self._memory.views:
            raise BufferError("the memory of a segment that is written to is looked at")
        if size > self.capacity - self._written:
            raise ValueError(f"{size} bytes do not fit a segment behind {self._written}")
        return self._memory.start + ROOM + self._written

    cpdef view(self, Py_ssize_t size):
        return self._memory.view(ROOM, size)

    cpdef view_with_room(self, Py_ssize_t size):
        return self._memory.view(0, ROOM + size)

    cpdef part(self, Py_ssize_t start, Py_ssize_t size):
        if not (0 <= start and 0 <= size <= self.capacity - start):
            raise ValueError(f"there are no {size} bytes from {start} on, of {self.capacity}")
        if size <= COPIED_BYTES_MAX:
            return PyBytes_FromStringAndSize(<char *>self._memory.start + ROOM + start, size)
        return self._memory.part(ROOM + start, size)

    cpdef bint is_locked(self) except -1:
        return self._memory.views > 0 or self._memory.parts > 0

    cpdef renew(self):
        self._memory = Memory(ROOM + self.capacity)


def allocate_segments(Py_ssize_t number, Py_ssize_t capacity):
    cdef Py_ssize_t size = ROOM + capacity
    # Rounded up, so that each segment begins with a cache line.
    cdef Py_ssize_t distance = -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
    # A smaller stretch would not fill one huge page.
    if number * distance < HUGE_PAGE_BYTES:
        return [MemorySegment(capacity) for _ in range(number)]
    stretch = Stretch(number * distance)
    return [
        MemorySegment(capacity, Memory(size, stretch, distance * index)) for index in range(number)
    ]


def _restored(Py_ssize_t capacity, bytes content not None, Py_ssize_t written):
    cdef MemorySegment segment = MemorySegment(capacity)
    if len(content) != segment._memory.size or not 0 <= written <= capacity:
        raise ValueError("that was no segment")
    memcpy(segment._memory.start, PyBytes_AS_STRING(content), segment._memory.size)
    segment._written = written
    return segment
