# cython: binding=False
"""See ``large_content.py``."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy

__all__ = ["LargeContent"]


@cython.auto_pickle(False)
cdef class LargeContent:
    def __init__(self, Py_ssize_t length):
        self._content = PyBytes_FromStringAndSize(NULL, length)
        self.length = length
        self.size = 0

    cpdef append(self, data, Py_ssize_t start, Py_ssize_t end):
        cdef Py_buffer memory
        PyObject_GetBuffer(data, &memory, PyBUF_SIMPLE)
        try:
            if not 0 <= start <= end <= memory.len or end - start > self.length - self.size:
                raise ValueError(
                    f"bytes {start} to {end} of {memory.len} do not fit: {self.size} of {self.length} "
                    "have arrived"
                )
            memcpy(
                PyBytes_AS_STRING(self._content) + self.size,
                <char *>memory.buf + start,
                end - start,
            )
            self.size += end - start
        finally:
            PyBuffer_Release(&memory)

    cpdef bytes part(self, Py_ssize_t start, Py_ssize_t end):
        return self._content[min(start, self.size):min(end, self.size)]

    cpdef bytes take(self):
        if self.size != self.length:
            raise ValueError(f"{self.size} of {self.length} bytes have arrived")
        content, self._content = self._content, b""
        self.length = self.size = 0
        return content
