from flinknet.records.appender cimport RecordAppender
from flinknet.records.route cimport RecordRoute


cdef class RecordWriter:
    cdef object __weakref__
    cdef readonly object partition
    cdef readonly object partitioner
    cdef readonly object buffer_timeout_ms
    cdef readonly RecordAppender _appender
    cdef readonly RecordRoute _broadcast_route
    cdef readonly RecordRoute _route
    cdef object _flusher
    cdef object _wait
