# Reads and writes msgpack's bytes a word at a time.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline bint is_ascii(const uint8_t *at, Py_ssize_t size) noexcept:
    cdef uint64_t bits = 0, part = 0
    if size >= 8:
        memcpy(&part, at + size - 8, 8)  # the last word, which may overlap the one before
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
    """Return the number in 1, 2, 4 or 8 bytes."""
    if size == 1:
        return at[0]
    if size == 2:
        return get16(at)
    if size == 4:
        return get32(at)
    return get64(at)


cdef inline int64_t get_signed(const uint8_t *at, Py_ssize_t size) noexcept:
    """Return the signed number in 1, 2, 4 or 8 bytes."""
    return <int64_t>(get_unsigned(at, size) << (64 - 8 * size)) >> (64 - 8 * size)


cdef inline void put16(uint8_t *at, uint16_t value) noexcept:
    at[0] = value >> 8
    at[1] = value & 0xFF


cdef inline void put32(uint8_t *at, uint32_t value) noexcept:
    put16(at, value >> 16)
    put16(at + 2, value & 0xFFFF)


cdef inline void put64(uint8_t *at, uint64_t value) noexcept:
    put32(at, value >> 32)
    put32(at + 4, value & 0xFFFFFFFFULL)


# Each of these functions writes at most nine bytes, and returns the position after them.

cdef inline uint8_t *put_unsigned(uint8_t *at, uint64_t value) noexcept:
    if value < 0x80:
        at[0] = <uint8_t>value
        return at + 1
    if value < 0x100:
        at[0] = 0xCC
        at[1] = <uint8_t>value
        return at + 2
    if value < 0x10000:
        at[0] = 0xCD
        put16(at + 1, <uint16_t>value)
        return at + 3
    if value < 0x100000000ULL:
        at[0] = 0xCE
        put32(at + 1, <uint32_t>value)
        return at + 5
    at[0] = 0xCF
    put64(at + 1, value)
    return at + 9


cdef inline uint8_t *put_negative(uint8_t *at, int64_t number) noexcept:
    if number >= -0x20:
        at[0] = <uint8_t>number
        return at + 1
    if number >= -0x80:
        at[0] = 0xD0
        at[1] = <uint8_t>number
        return at + 2
    if number >= -0x8000:
        at[0] = 0xD1
        put16(at + 1, <uint16_t>number)
        return at + 3
    if number >= -0x80000000LL:
        at[0] = 0xD2
        put32(at + 1, <uint32_t>number)
        return at + 5
    at[0] = 0xD3
    put64(at + 1, <uint64_t>number)
    return at + 9


cdef inline uint8_t *put_double(uint8_t *at, double number) noexcept:
    cdef uint64_t bits
    memcpy(&bits, &number, 8)
    at[0] = 0xCB
    put64(at + 1, bits)
    return at + 9


cdef inline uint8_t *put_short_text(uint8_t *at, const char *content, Py_ssize_t size) noexcept:
    """Write a text of less than 32 bytes; return the position after it."""
    at[0] = 0xA0 | <uint8_t>size
    copy_short(at + 1, content, size)
    return at + 1 + size


cdef inline void copy_short(uint8_t *to, const char *content, Py_ssize_t size) noexcept:
    """Copy less than 32 bytes, with two overlapping copies of a constant size."""
    if size >= 16:
        memcpy(to, content, 16)
        memcpy(to + size - 16, content + size - 16, 16)
    elif size >= 8:
        memcpy(to, content, 8)
        memcpy(to + size - 8, content + size - 8, 8)
    elif size >= 4:
        memcpy(to, content, 4)
        memcpy(to + size - 4, content + size - 4, 4)
    elif size > 0:
        to[0] = content[0]
        to[size >> 1] = content[size >> 1]
        to[size - 1] = content[size - 1]
