"""Checksums in C: see ``checksum.py``."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)
    import google_crc32c

__all__ = [
    "TRAILER_BYTES",
    "crc32c",
    "crc32c_between",
    "decode_trailer",
    "encode_trailer",
    "make_trailer",
    "seal",
]


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    #define HAS_CRC_INSTRUCTIONS __builtin_cpu_supports("sse4.2")
    #define WITH_CRC_INSTRUCTIONS __attribute__((target("sse4.2")))
    typedef uint64_t crc_state;  /* The instruction's own type: no conversions in between. */
    #define CRC_OF_WORD(crc, word) _mm_crc32_u64(crc, word)
    #define CRC_OF_BYTE(crc, byte) _mm_crc32_u8((uint32_t)(crc), byte)
    #elif defined(__ARM_FEATURE_CRC32) && defined(__AARCH64EL__)
    #include <arm_acle.h>
    #define HAS_CRC_INSTRUCTIONS 1
    #define WITH_CRC_INSTRUCTIONS
    typedef uint32_t crc_state;
    #define CRC_OF_WORD(crc, word) __crc32cd(crc, word)
    #define CRC_OF_BYTE(crc, byte) __crc32cb(crc, byte)
    #endif

    #ifdef HAS_CRC_INSTRUCTIONS

    /* The instruction starts once per cycle and has a latency of three cycles, so three lanes are
       computed at a time. To combine the states, the first is moved over the length of the second
       lane, as if zeros followed, and the result over the length of the third. Lanes are too short
       for the hardware prefetcher, so memory is prefetched explicitly: this halves the time for
       uncached memory. Prefetching behind the end is harmless. */
    #define LANE_BYTES 256
    #define CACHE_LINE_BYTES 64
    #define AHEAD_BYTES (6 * LANE_BYTES)
    static uint32_t moved[4][256];  /* Each byte of a state, moved over one lane. */

    static inline uint64_t word_at(const uint8_t *place) {
        uint64_t word;
        memcpy(&word, place, 8);
        return word;
    }

    static inline crc_state over_lane(crc_state crc) {
        return moved[0][crc & 0xFF] ^ moved[1][crc >> 8 & 0xFF]
            ^ moved[2][crc >> 16 & 0xFF] ^ moved[3][crc >> 24 & 0xFF];
    }

    WITH_CRC_INSTRUCTIONS
    static void fill_moved(void) {
        for (int part = 0; part < 4; part++)
            for (uint32_t byte = 0; byte < 256; byte++) {
                crc_state crc = (crc_state)(byte << 8 * part);
                for (int count = 0; count < LANE_BYTES; count += 8)
                    crc = CRC_OF_WORD(crc, 0);
                moved[part][byte] = (uint32_t)crc;
            }
    }

    WITH_CRC_INSTRUCTIONS
    static uint32_t crc32c_by_instruction(uint32_t before, const uint8_t *place, Py_ssize_t size) {
        crc_state crc = before ^ 0xFFFFFFFFU;
        for (; size >= 3 * LANE_BYTES; size -= 3 * LANE_BYTES, place += 2 * LANE_BYTES) {
            crc_state second = 0, third = 0;
            for (const uint8_t *end = place + LANE_BYTES; place < end;) {
                __builtin_prefetch(place + AHEAD_BYTES);
                __builtin_prefetch(place + AHEAD_BYTES + LANE_BYTES);
                __builtin_prefetch(place + AHEAD_BYTES + 2 * LANE_BYTES);
                for (int count = 0; count < CACHE_LINE_BYTES; count += 8, place += 8) {
                    crc = CRC_OF_WORD(crc, word_at(place));
                    second = CRC_OF_WORD(second, word_at(place + LANE_BYTES));
                    third = CRC_OF_WORD(third, word_at(place + 2 * LANE_BYTES));
                }
            }
            crc = over_lane(over_lane(crc) ^ second) ^ third;
        }
        for (; size >= 8; size -= 8, place += 8)
            crc = CRC_OF_WORD(crc, word_at(place));
        for (; size > 0; size--, place++)
            crc = CRC_OF_BYTE(crc, *place);
        return (uint32_t)crc ^ 0xFFFFFFFFU;
    }

    static int begin_checksums(void) {
        if (!HAS_CRC_INSTRUCTIONS)
            return 0;
        fill_moved();
        return 1;
    }

    #else

    static int begin_checksums(void) { return 0; }
    static uint32_t crc32c_by_instruction(uint32_t before, const uint8_t *place, Py_ssize_t size) {
        return 0;  /* Never called, because begin_checksums returns 0. */
    }

    #endif
    """
    int begin_checksums() noexcept
    uint32_t crc32c_by_instruction(uint32_t before, const uint8_t *place, Py_ssize_t size) noexcept

cdef enum:
    UINT32_MARKER = 0xCE
    BYTES_OF_TRAILER = 5

TRAILER_BYTES = BYTES_OF_TRAILER

cdef bint by_instruction = begin_checksums()
cdef object extend = google_crc32c.extend


cdef inline uint32_t over(uint32_t crc, const uint8_t *place, Py_ssize_t size) except? 0:
    if by_instruction:
        return crc32c_by_instruction(crc, place, size)
    return extend(crc, PyBytes_FromStringAndSize(<const char *>place, size))


cpdef unsigned int crc32c(data, unsigned int crc=0) except? 0:
    """Extend the CRC32C ``crc`` of earlier bytes over ``data``."""
    cdef Py_buffer memory
    PyObject_GetBuffer(data, &memory, PyBUF_SIMPLE)
    try:
        return over(crc, <const uint8_t *>memory.buf, memory.len)
    finally:
        PyBuffer_Release(&memory)


cpdef unsigned int crc32c_between(
    data, Py_ssize_t start, Py_ssize_t end, unsigned int crc=0
) except? 0:
    """Extend the CRC32C ``crc`` of earlier bytes over ``data[start:end]``."""
    cdef Py_buffer memory
    PyObject_GetBuffer(data, &memory, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= memory.len:
            raise ValueError(f"the range {start} to {end} is outside of {memory.len} bytes")
        return over(crc, <const uint8_t *>memory.buf + start, end - start)
    finally:
        PyBuffer_Release(&memory)


cpdef bytes make_trailer(header, body):
    """Return the trailer of a message in two pieces."""
    return encode_trailer(crc32c(body, crc32c(header)))


cpdef bytes encode_trailer(unsigned int crc):
    """Encode the trailer for a checksum."""
    cdef bytes trailer = PyBytes_FromStringAndSize(NULL, BYTES_OF_TRAILER)
    cdef uint8_t *place = <uint8_t *>PyBytes_AS_STRING(trailer)
    place[0] = UINT32_MARKER
    place[1] = crc >> 24
    place[2] = (crc >> 16) & 0xFF
    place[3] = (crc >> 8) & 0xFF
    place[4] = crc & 0xFF
    return trailer


cpdef decode_trailer(data, Py_ssize_t start):
    """Return the checksum in a trailer, or None if the bytes are not a trailer."""
    cdef Py_buffer memory
    cdef const uint8_t *place
    PyObject_GetBuffer(data, &memory, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= memory.len - BYTES_OF_TRAILER:
            raise ValueError("the trailer is cut off")
        place = <const uint8_t *>memory.buf + start
        if place[0] != UINT32_MARKER:
            return None
        return (
            (<uint32_t>place[1] << 24)
            | (<uint32_t>place[2] << 16)
            | (<uint32_t>place[3] << 8)
            | place[4]
        )
    finally:
        PyBuffer_Release(&memory)


cpdef bytes seal(bytes message):
    """Return a message with its trailer."""
    return message + encode_trailer(crc32c(message))
