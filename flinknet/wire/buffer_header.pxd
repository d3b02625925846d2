cdef class BufferHeader:
    cdef readonly Py_ssize_t channel
    cdef readonly Py_ssize_t sequence
    cdef readonly Py_ssize_t backlog
    cdef readonly object data_type
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t continued
    cdef readonly Py_ssize_t unfinished
    cdef readonly Py_ssize_t records


cpdef bytes encode_buffer_header(
    unsigned int channel,
    unsigned int sequence,
    unsigned int backlog,
    int data_type,
    unsigned int size,
    unsigned int continued=*,
    unsigned int unfinished=*,
    unsigned int records=*,
)
cpdef BufferHeader read_buffer_header(bytearray data, Py_ssize_t start)
cpdef bytes encode_credit(unsigned int channel, unsigned int credit)
cpdef tuple read_credit(bytearray data, Py_ssize_t start)
cpdef copy_body(data, Py_ssize_t start, Py_ssize_t end, body, Py_ssize_t filled)
