cpdef unsigned int crc32c(data, unsigned int crc=*) except? 0
cpdef unsigned int crc32c_between(
    data, Py_ssize_t start, Py_ssize_t end, unsigned int crc=*
) except? 0
cpdef bytes make_trailer(header, body)
cpdef bytes encode_trailer(unsigned int crc)
cpdef decode_trailer(data, Py_ssize_t start)
cpdef bytes seal(bytes message)
