# What stands in the bytes of msgpack, read a word at a time.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline bint is_ascii(const uint8_t *at, Py_ssize_t size) noexcept:
    cdef uint64_t bits = 0, part = 0
    if size >= 8:
        memcpy(&part, at + size - 8, 8)
        while size >= 8:
            bits |= part
            memcpy(&part, at, 8)
            at += 8
            size -= 8
        return (bits | part) & 0x8080808080808080ULL == 0
    while size > 0:
        size -= 1
        bits |= at[size]
    return bits < 0x80


cdef inline uint16_t get16(const uint8_t *at) noexcept:
    return <uint16_t>(<uint32_t>at[0] << 8 | at[1])


cdef inline uint32_t get32(const uint8_t *at) noexcept:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline uint64_t get64(const uint8_t *at) noexcept:
    return <uint64_t>get32(at) << 32 | get32(at + 4)


cdef inline double get_double(const uint8_t *at) noexcept:
    cdef uint64_t bits = get64(at)
    cdef double number
    memcpy(&number, &bits, 8)
    return number


cdef inline float get_float(const uint8_t *at) noexcept:
    cdef uint32_t bits = get32(at)
    cdef float number
    memcpy(&number, &bits, 4)
    return number


cdef inline uint64_t get_unsigned(const uint8_t *at, Py_ssize_t size) noexcept:
    """Return what stands in 1, 2, 4 or 8 bytes."""
    if size == 1:
        return at[0]
    if size == 2:
        return get16(at)
    if size == 4:
        return get32(at)
    return get64(at)


cdef inline int64_t get_signed(const uint8_t *at, Py_ssize_t size) noexcept:
    """The highest bit is the sign."""
    return <int64_t>(get_unsigned(at, size) << (64 - 8 * size)) >> (64 - 8 * size)
