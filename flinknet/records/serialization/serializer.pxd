import cython

from flinknet.records.serialization.spanning_record cimport SpanningRecord


cdef class RecordUnpacker:
    cdef object __weakref__
    cdef public Py_ssize_t _bytes_max
    cdef public Py_ssize_t _elements_max
    cdef public Py_ssize_t _keys_max
    cdef public Py_ssize_t length_max
    cdef public object _unpack
    cdef public object _unpack_records
    cdef public object _unpack_few_keys
    cdef public object _unpack_records_few_keys

    @cython.locals(size=Py_ssize_t, content=Py_ssize_t)
    cpdef tuple whole_records(self, data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t number)


cdef class RecordDeserializer:
    cdef object __weakref__
    cdef public SpanningRecord _spanning
    cdef public RecordUnpacker _unpacker

    @cython.locals(spanning=SpanningRecord, goes_on=bint, records=tuple)
    cpdef tuple spanning_record(
        self, data, Py_ssize_t continued, Py_ssize_t unfinished, bint clear_end
    )
