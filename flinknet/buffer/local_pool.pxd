from flinknet.buffer.availability cimport Availability
from flinknet.buffer.segment cimport MemorySegment


cdef class SubpartitionRecycler:
    cdef public object recycle


cdef class LocalBufferPool:
    cdef object __weakref__
    cdef public object _network_pool
    cdef public object owner
    cdef public Py_ssize_t required
    cdef public Py_ssize_t maximum
    cdef public Py_ssize_t estimated_demand
    cdef public Py_ssize_t size
    cdef public Availability availability
    cdef public list recyclers
    cdef public Py_ssize_t _quota
    cdef public Py_ssize_t _large_quota
    cdef public Py_ssize_t _small_quota
    cdef public set _with_large_records
    cdef public Py_ssize_t _extra
    cdef public bint _widened
    cdef public list _per_subpartition
    cdef public Py_ssize_t _at_quota
    cdef public Py_ssize_t _overdraft_max
    cdef public object _idle
    cdef public Py_ssize_t _ordinary
    cdef public Py_ssize_t _overdraft
    cdef public object _listeners
    cdef public bint _destroyed

    cpdef MemorySegment request(self, subpartition=*)
    cpdef recycle_from(self, Py_ssize_t subpartition, MemorySegment segment)
    cpdef recycle(self, MemorySegment segment)
    cpdef expect(self, Py_ssize_t subpartition, bint has_large_records)
    cpdef expect_backlog(self, Py_ssize_t backlog)
    cpdef widen(self)
    cdef _set_quota(self, Py_ssize_t quota)
    cdef bint _should_be_available(self)
    cdef _update_availability(self)
    cdef _fetch(self)
    cdef MemorySegment _take_overdraft(self)
    cdef _return(self, MemorySegment segment)
