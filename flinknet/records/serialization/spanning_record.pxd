import cython

from flinknet.records.serialization.large_content cimport LargeContent


cdef class ReassemblyMemory:
    cdef object __weakref__
    cdef public Py_ssize_t record_bytes_max
    cdef public Py_ssize_t record_spill_bytes
    cdef public Py_ssize_t memory_bytes_max
    cdef public object spill_file
    cdef public Py_ssize_t reserved
    cdef public Py_ssize_t records_spilled
    cdef public set records

    cpdef check_size(self, Py_ssize_t size)


cdef class SpanningRecord:
    cdef object __weakref__
    cdef public ReassemblyMemory _memory
    cdef public bytearray _gathered
    cdef public LargeContent _large
    cdef public object _extent
    cdef public Py_ssize_t size

    @cython.locals(memory=ReassemblyMemory, size=Py_ssize_t, reserved=Py_ssize_t)
    cpdef append(self, data, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(
        memory=ReassemblyMemory,
        head_bytes=Py_ssize_t,
        length=Py_ssize_t,
        whole=Py_ssize_t,
        reserved=Py_ssize_t,
        content=Py_ssize_t,
    )
    cpdef bint _begin_large(self, data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(large=LargeContent)
    cpdef _gather(self)
    @cython.locals(memory=ReassemblyMemory, large=LargeContent, gathered=bytearray)
    cpdef complete(self, data, Py_ssize_t end, unpacker)
    @cython.locals(memory=ReassemblyMemory)
    cpdef release(self)
