# cython: binding=False, cdivision=True
"""Channels of tuples keyed by one element, found without a call of user code.

Theory of operation. Most keyed exchanges are ``key_by(itemgetter(0))`` on tuples. The result of
itemgetter for an exact tuple is known, so it need not be called. An integer's key group is
computed, which is faster than remembering it; a text is looked up among the remembered keys.
Neither runs user code, and neither can fail: ``select`` handles every other key. All of this takes
a third of the time of a call. In plain Python ``select`` is one call itself, so nothing is gained
(``tuple_channels.py``).
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from operator import itemgetter

from flinknet.records.compact_integer cimport compact_integer
from flinknet.records.conversion cimport Conversion, ConvertedKey, fits
from flinknet.records.key_hash cimport begin_key_hashes, key_hash_of, over_byte
from flinknet.records.remembered_channels cimport RememberedChannels

__all__ = ["TupleChannels"]


cdef extern from "Python.h":
    bint PyLong_CheckExact(PyObject *value)
    bint PyTuple_CheckExact(PyObject *value)
    bint PyUnicode_CheckExact(PyObject *value)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *value)
    PyObject *PyTuple_GET_ITEM(PyObject *value, Py_ssize_t index)
    PyObject *PyDict_GetItemWithError(PyObject *values, PyObject *key) noexcept
    Py_ssize_t PyLong_AsSsize_t(PyObject *value) noexcept
    long long PyLong_AsLongLongAndOverflow(PyObject *value, int *overflow) noexcept
    void PyErr_Clear()


begin_key_hashes()


cdef inline uint32_t _over_number(uint32_t crc, uint64_t number, int size) noexcept:
    """Continue a checksum over the last ``size`` bytes of a number, big-endian."""
    cdef int shift = 8 * size
    while shift:
        shift -= 8
        crc = over_byte(crc, <uint8_t>(number >> shift))
    return crc


cdef uint32_t _integer_hash(long long key) noexcept:
    """Return ``key_hash`` of an integer, from its shortest msgpack form."""
    cdef uint32_t crc = 0xFFFFFFFFU
    cdef uint64_t bits = <uint64_t>key
    if -0x20 <= key < 0x80:
        crc = over_byte(crc, <uint8_t>bits)
    elif key >= 0:
        if bits < 0x100:
            crc = _over_number(over_byte(crc, 0xCC), bits, 1)
        elif bits < 0x10000:
            crc = _over_number(over_byte(crc, 0xCD), bits, 2)
        elif bits < 0x100000000ULL:
            crc = _over_number(over_byte(crc, 0xCE), bits, 4)
        else:
            crc = _over_number(over_byte(crc, 0xCF), bits, 8)
    elif key >= -0x80:
        crc = _over_number(over_byte(crc, 0xD0), bits, 1)
    elif key >= -0x8000:
        crc = _over_number(over_byte(crc, 0xD1), bits, 2)
    elif key >= -0x80000000LL:
        crc = _over_number(over_byte(crc, 0xD2), bits, 4)
    else:
        crc = _over_number(over_byte(crc, 0xD3), bits, 8)
    return key_hash_of(crc)


@cython.final
cdef class TupleChannels:
    """Channels of tuples by their element ``index``, as a hash partitioner chooses them.

    Args:
        index: The element that is the key.
        max_parallelism: The number of key groups.
        channels: The number of channels.
        remembered: The channels of keys other than integers.
        conversion: Converts a key to its declared type, if one is declared.
    """

    def __init__(
        self,
        Py_ssize_t index,
        Py_ssize_t max_parallelism,
        Py_ssize_t channels,
        RememberedChannels remembered not None,
        Conversion conversion=None,
    ):
        if max_parallelism < 1:
            raise ValueError(f"there are {max_parallelism} key groups")
        self._conversion = conversion
        self._index = index
        self._max_parallelism = max_parallelism
        self._channels = channels
        self._remembered = remembered

    @classmethod
    def of(cls, key, max_parallelism, channels, remembered):
        """Return the look-up for a key function; None unless the function takes one element."""
        conversion = None
        if isinstance(key, ConvertedKey):
            key, conversion = key.key, key.conversion
        if type(key) is not itemgetter:
            return None
        items = key.__reduce__()[1]  # an itemgetter has no attribute for its items
        if len(items) != 1 or type(items[0]) is not int or items[0] < 0:
            return None
        return cls(items[0], max_parallelism, channels, remembered, conversion)

    def channel(self, record):
        """Return the channel of a record; -1 for a record that needs ``select``."""
        return self.find(<PyObject *>record)

    cdef Py_ssize_t find(self, PyObject *record) noexcept:
        cdef PyObject *key
        cdef PyObject *channel
        cdef long long number
        cdef int overflow
        cdef uint32_t group
        if not PyTuple_CheckExact(record) or self._index >= PyTuple_GET_SIZE(record):
            return -1
        key = PyTuple_GET_ITEM(record, self._index)
        if self._conversion is not None and not fits(self._conversion, key):
            return -1
        if PyLong_CheckExact(key):
            if not compact_integer(key, &number):
                number = PyLong_AsLongLongAndOverflow(key, &overflow)
                if overflow:
                    return -1
            group = _integer_hash(number) % <uint32_t>self._max_parallelism
            return <Py_ssize_t>group * self._channels // self._max_parallelism
        if not PyUnicode_CheckExact(key):
            return -1
        channel = PyDict_GetItemWithError(<PyObject *>self._remembered._channel_of, key)
        if channel is NULL:
            PyErr_Clear()
            return -1
        return PyLong_AsSsize_t(channel)
