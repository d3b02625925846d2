# Cache of short texts that repeat: keys of maps, names, states, codes. A repeated text is the same
# object each time, with a known hash. It is neither created nor freed, and found in a dict at once.
#
# Theory of operation. The bytes of a text determine its place in a table. The place remembers the
# hash of the last bytes, and keeps a text that came twice in a row until another text comes twice.
# Texts that never repeat therefore cost a lookup and a note, and no object is kept for them.

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from flinknet.records.serialization.msgpack_bytes cimport is_ascii


cdef extern from *:
    """
    #define KNOWN_TEXTS 1024  /* 2**10: the place is the upper 10 of 64 bits. */
    typedef struct {
        PyObject *text;
        unsigned int last;  /* The hash bits below the place, of the bytes that came last. */
    } known_text_place;
    static known_text_place known_texts[KNOWN_TEXTS];
    """
    enum:
        KNOWN_TEXTS
    ctypedef struct known_text_place:
        PyObject *text
        uint32_t last
    known_text_place known_texts[KNOWN_TEXTS]


cdef extern from "Python.h":
    PyObject *new_text "PyUnicode_New" (Py_ssize_t size, unsigned int largest) noexcept
    void *PyUnicode_DATA(PyObject *text)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *text)
    void PyErr_Clear()
    void Py_INCREF(PyObject *value)
    void Py_XDECREF(PyObject *value)


cdef enum:
    KNOWN_TEXT_BYTES = 31  # the longest text with a head of one byte in msgpack


cdef inline PyObject *known_text(const uint8_t *at, Py_ssize_t size) noexcept:
    """Return the text of 2 to ``KNOWN_TEXT_BYTES`` bytes.

    Return NULL, with no error set, if the bytes are not ASCII, or there is no memory.
    """
    cdef uint64_t mixed = mixed_bytes(at, size)
    cdef known_text_place *place = &known_texts[mixed >> 54]
    cdef PyObject *text
    cdef bint came_before = place.last == <uint32_t>(mixed >> 22)
    if came_before:
        text = place.text
        if (
            text is not NULL
            and PyUnicode_GET_LENGTH(text) == size
            and memcmp(PyUnicode_DATA(text), at, size) == 0
        ):
            Py_INCREF(text)
            return text
    if not is_ascii(at, size):
        return NULL
    text = new_text(size, 0x7F)
    if text is NULL:
        PyErr_Clear()
        return NULL
    memcpy(PyUnicode_DATA(text), at, size)
    place.last = <uint32_t>(mixed >> 22)
    if came_before:
        Py_INCREF(text)
        Py_XDECREF(place.text)
        place.text = text
    return text


cdef inline uint64_t mixed_bytes(const uint8_t *at, Py_ssize_t size) noexcept:
    """Return a hash of 1 to 31 bytes; its upper half depends on all of them."""
    cdef uint64_t mixed = size, part = 0
    while size > 8:
        memcpy(&part, at, 8)
        mixed = (mixed ^ part) * 0x9E3779B97F4A7C15ULL
        mixed ^= mixed >> 32
        at += 8
        size -= 8
    if size >= 4:
        memcpy(&part, at, 4)
        mixed ^= part & 0xFFFFFFFFULL
        memcpy(&part, at + size - 4, 4)
        mixed ^= part << 32
    else:
        mixed ^= at[0] | <uint64_t>at[size >> 1] << 16 | <uint64_t>at[size - 1] << 32
    return mixed * 0x9E3779B97F4A7C15ULL
