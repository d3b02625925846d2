import cython

from flinknet.buffer.buffer cimport Buffer
from flinknet.records.serialization.serializer cimport RecordDeserializer, RecordUnpacker

# The work per record is in ``record_iterator.pyx``.


cdef class RecordBatch:
    cdef object __weakref__
    cdef public tuple records
    cdef public Py_ssize_t channel
    cdef public Py_ssize_t size_bytes


cdef class OtherBatch:
    cdef public Py_ssize_t channel
    cdef public object arrived
    cdef object _iterator
    cdef Buffer _buffer


cdef class RecordReader:
    cdef object __weakref__
    cdef public object gate
    cdef public Py_ssize_t bytes_in
    cdef public Py_ssize_t records_in
    cdef public Py_ssize_t channel
    cdef public object arrived
    cdef object _wait
    cdef list _deserializers
    cdef object _event_handler
    cdef Buffer _current
    cdef tuple _polled
    cdef list _others
    cdef public object fail_gate
    cdef object _records
    cdef RecordUnpacker _unpacker
    cdef object _budget
    cdef bint _budget_is_spent
    cdef bint _is_slow

    cdef Py_ssize_t _begin_buffer(self, Buffer buffer) except -1
    @cython.locals(
        view=object, deserializer=RecordDeserializer, clear_end=bint, spanning=tuple, records=Py_ssize_t
    )
    cdef Py_ssize_t _begin_records(self, Py_ssize_t channel, Buffer buffer, iterator) except -1
    cdef _count(self, Py_ssize_t records)
    cdef _say_whether_slow(self)
    cdef _return_buffers(self)
    cdef _on_event(self, Py_ssize_t index, Buffer buffer)


cdef object _DATA
cdef object _DATA_WITH_CLEAR_END
