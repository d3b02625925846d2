# The hash of a key from its packed bytes, as in ``key_groups.py``: zlib's ``crc32`` byte by byte,
# then ``mixed``. For few bytes this is faster than a Python call. A module that uses it must call
# ``begin_key_hashes`` once before.

from libc.stdint cimport uint8_t, uint32_t


cdef extern from *:
    """
    #include <stdint.h>

    static uint32_t checksum_table[256];

    static void begin_key_hashes(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t value = byte;
            for (int bit = 0; bit < 8; bit++)
                value = (value >> 1) ^ (value & 1 ? 0xEDB88320U : 0);
            checksum_table[byte] = value;
        }
    }

    static inline uint32_t over_byte(uint32_t checksum, uint8_t byte) {
        return checksum_table[(checksum ^ byte) & 0xFF] ^ (checksum >> 8);
    }

    static inline uint32_t key_hash_of(uint32_t checksum) {
        checksum ^= 0xFFFFFFFFU;
        checksum ^= checksum >> 16;
        checksum *= 0x85EBCA6BU;
        checksum ^= checksum >> 13;
        checksum *= 0xC2B2AE35U;
        return checksum ^ checksum >> 16;
    }
    """
    void begin_key_hashes() noexcept
    uint32_t over_byte(uint32_t checksum, uint8_t byte) noexcept
    uint32_t key_hash_of(uint32_t checksum) noexcept
