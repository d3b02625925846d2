# cython: binding=False
"""Direct routes: ``emit`` without an object for the record's bytes.

Theory of operation. The packer holds a record's bytes in its own memory, and copies them to their
destination if they fit. If they do not fit, they become ``bytes`` for the appender. This saves the
object, and the call of the builder's ``write``. A small record is packed directly at its
destination (``flat_packing.pxd``), so its channel is chosen first. The channel of a tuple is found
without a call of the key function, if that function is known (``tuple_channels.pyx``). The next
round-robin channel is read without a call (``round_robin.py``). Everything else works as in
``route.py``.

``pack`` packs small records of all channels into one block, and notes the end and the channel of
each. Writing the block copies bytes, and touches no object. If an operator runs in a thread, only
this copying remains for the event loop.
"""

from functools import partial

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy

from flinknet.buffer.builder cimport BufferBuilder
from flinknet.buffer.segment cimport MemorySegment
from flinknet.records.output cimport Output
from flinknet.records.round_robin cimport take_turn, turns_behind
from flinknet.records.route cimport RecordRoute, PartitionedRoute, SingleOutputRoute
from flinknet.records.serialization.c_packer cimport CPacker, pack_quietly, raise_what_is_set
from flinknet.records.serialization.flat_packing cimport put_flat, write_flat
from flinknet.records.tuple_channels cimport TupleChannels

from flinknet.records.block import chunks
from flinknet.records.serialization.packer import unserializable
from flinknet.records.route import UNDECIDED, Write
from flinknet.records.serialization.large_record import LARGE_RECORD_BYTES, kept_form, large_form
from flinknet.records.written import WRITTEN

__all__ = ["DirectPartitionedRoute", "DirectSingleOutputRoute"]


cdef extern from "Python.h":
    PyObject *PyList_GET_ITEM(PyObject *values, Py_ssize_t index)
    Py_ssize_t PyList_GET_SIZE(PyObject *values)


cdef enum:
    # plus one record; a longer block would leave the nearer caches of the processor
    BLOCK_BYTES = 1 << 16
    BLOCK_RECORDS_MAX = 4096
    FLAT_BYTES = 512  # upper bound of a record that ``put_flat`` packs

cdef Py_ssize_t LARGE_FROM_BYTES = LARGE_RECORD_BYTES
cdef int32_t UNDECIDED_CHANNEL = UNDECIDED


ctypedef struct _Place:
    uint32_t end  # offset of the record's end in the block
    int32_t channel


cdef class _Block:
    """Packed records, in order; ``written`` counts the records written so far."""

    cdef uint8_t *_data
    cdef _Place *_places
    cdef Py_ssize_t records
    cdef Py_ssize_t written

    def __cinit__(self, Py_ssize_t records_max):
        self._places = <_Place *>PyMem_Malloc(records_max * sizeof(_Place))
        if self._places is NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self._data)
        PyMem_Free(self._places)

    cdef Py_ssize_t take(self, const uint8_t *data) except -1:
        """Keep a copy of the bytes of all records; return their size."""
        cdef Py_ssize_t size = self._places[self.records - 1].end
        cdef void *places = PyMem_Realloc(self._places, self.records * sizeof(_Place))
        if places is not NULL:  # else the larger memory stays
            self._places = <_Place *>places
        self._data = <uint8_t *>PyMem_Malloc(size)
        if self._data is NULL:
            raise MemoryError
        memcpy(self._data, data, size)
        return size

    cdef bytes pop(self):
        """Return the bytes of the next record, and count it as written."""
        cdef Py_ssize_t start = self._places[self.written - 1].end if self.written else 0
        cdef Py_ssize_t end = self._places[self.written].end
        self.written += 1
        return PyBytes_FromStringAndSize(<char *>self._data + start, end - start)

    cdef Output fill(self, RecordRoute route, Py_ssize_t turn_at):
        """Write records as long as they fit; return the output that the next record does not fit.

        Return None at the end of the block, and after the record with which the loop should turn.
        """
        cdef _Place *place = self._places + self.written
        cdef _Place *end = self._places + self.records
        cdef _Place *first
        cdef Py_ssize_t start = (place - 1).end if self.written else 0
        cdef Py_ssize_t stop, size
        cdef Output output
        cdef BufferBuilder builder
        cdef MemorySegment segment
        while place < end and route.records_out < turn_at:
            if place.channel == UNDECIDED_CHANNEL:
                place.channel = route._chosen_now()
            output = route._outputs[place.channel]
            builder = output.builder
            # Consecutive records of one channel are copied at once.
            first, stop = place, start + builder.remaining
            while place < end and place.channel == first.channel and place.end <= stop:
                place += 1
            if place == first:
                self.written = place - self._places
                return output
            size = (place - 1).end - start
            segment = builder._segment
            memcpy(segment._room(size), self._data + start, size)
            segment._written += size
            builder.remaining -= size
            builder.records += place - first
            route.records_out += place - first
            start += size
        self.written = place - self._places
        return None


cdef class DirectSingleOutputRoute(SingleOutputRoute):
    """Route of all records to one output."""

    def __init__(self, packer, appender, limits, output):
        super().__init__(packer, appender, limits, output)
        self._direct = packer.direct
        self._written = WRITTEN

    cpdef emit(self, record):
        """Write a record to the output."""
        cdef CPacker direct = self._direct
        cdef Py_ssize_t held
        if write_flat(self._output.builder, <PyObject *>record):
            self.records_out += 1
            return self._written
        held = direct._size
        if self._large and (pieces := large_form(record)) is not None:
            return self._emit_large(self._output, pieces)
        if pack_quietly(direct, <PyObject *>record) < 0:
            direct.release(held)
            _raise_unserializable(record)
        data = direct.write(held, self._output.builder)
        if data is None:
            self.records_out += 1
            return self._written
        return self._append_packed(self._output, data)

    async def emit_many(self, records):
        """Write many records; one call writes all consecutive records that fit."""
        cdef Py_ssize_t index
        for chunk in [records] if type(records) is list else chunks(records):
            index = 0
            while (index := self._write_some(chunk, index)) < len(chunk):
                index += 1
                if (data := self._let_go()) is None:
                    await self.emit(chunk[index - 1])
                else:
                    await self._append_packed(self._output, data)

    def pack(self, records):
        return _packed(self, self._direct, None, records)

    cdef Py_ssize_t _write_some(self, list records, Py_ssize_t index) except -1:
        """Write records from ``index`` on as long as they fit; return the index of the next one.

        If that record is packed but too large for the remaining space, its bytes are kept in
        ``_rest``. It is not packed if it must be checked for a large form first.
        """
        cdef CPacker direct = self._direct
        cdef Output output = self._output
        cdef Py_ssize_t held
        while index < len(records) and not self._large:
            record = records[index]
            if write_flat(output.builder, <PyObject *>record):
                self.records_out += 1
                index += 1
                continue
            held = direct._size
            if pack_quietly(direct, <PyObject *>record) < 0:
                direct.release(held)
                _raise_unserializable(record)
            self._rest = direct.write(held, output.builder)
            if self._rest is not None:
                break
            self.records_out += 1
            index += 1
        return index

    cdef bytes _let_go(self):
        data, self._rest = self._rest, None
        return data


cdef class DirectPartitionedRoute(PartitionedRoute):
    """Route of each record to the output that the partitioner chooses."""

    def __init__(self, packer, appender, limits, outputs, partitioner):
        super().__init__(packer, appender, limits, outputs, partitioner)
        self._direct = packer.direct
        self._turns = turns_behind(self._select)
        self._tuple_channels = partitioner.tuple_channels
        self._is_undecided = partitioner.looks_at_queues
        self._written = WRITTEN

    cpdef emit(self, record):
        """Write a record to its output."""
        cdef CPacker direct = self._direct
        cdef Py_ssize_t held = direct._size
        # The output comes first, because a small record is packed into the output's builder.
        cdef Output output = self._known_for(<PyObject *>record)
        if output is None:
            if self._large and (pieces := large_form(record)) is not None:
                return self._emit_large(self._outputs[self._select(record)], pieces)
            output = self._choose(record)
        if write_flat(output.builder, <PyObject *>record):
            self.records_out += 1
            return self._written if self.records_out < self._turn_at else self._one_is_written()
        if pack_quietly(direct, <PyObject *>record) < 0:
            direct.release(held)
            _raise_unserializable(record)
        data = direct.write(held, output.builder)
        if data is None:
            self.records_out += 1
            return self._one_is_written()
        return self._append_packed(output, data)

    async def emit_many(self, records):
        """Write many records, each to the output that ``emit`` would choose."""
        cdef Py_ssize_t index
        for share, output in self._shares_of(records):
            index = 0
            while (index := self._write_some(share, index, output)) < len(share):
                index += 1
                if (data := self._let_go()) is not None:
                    await self._append_packed(self._full, data)
                elif output is None:
                    await self.emit(share[index - 1])
                else:
                    await self._emit_to(output, share[index - 1])

    def pack(self, records):
        return _packed(self, self._direct, self, records)

    def _shares_of(self, records):
        """Yield records with their common output, or with None if each needs its own choice.

        The choice for a record with None is made when the record is written.
        """
        if (
            self._tuple_channels is not None
            or self._turns is not None
            or self._partitioner.looks_at_queues
        ):
            for chunk in [records] if type(records) is list else chunks(records):
                yield chunk, None
            return
        for chunk in chunks(records):
            if not self._bulk_split.is_worthwhile(len(chunk)):
                yield chunk, None
                continue
            shares = self._partitioner.divide(chunk)
            self._bulk_split.observe(len(chunk), len(shares))
            for index, share in shares.items():
                yield share, self._outputs[index]

    cdef object _emit_to(self, Output output, record):
        """Write a record that ``_write_some`` has left to its caller, to a known output."""
        cdef CPacker direct = self._direct
        cdef Py_ssize_t held = direct._size
        if (pieces := large_form(record)) is not None:
            return self._emit_large(output, pieces)
        if pack_quietly(direct, <PyObject *>record) < 0:
            direct.release(held)
            _raise_unserializable(record)
        data = direct.write(held, output.builder)
        if data is None:
            self.records_out += 1
            return self._one_is_written()
        return self._append_packed(output, data)

    cdef Py_ssize_t _write_some(self, list records, Py_ssize_t index, Output only) except -1:
        """Write records as ``DirectSingleOutputRoute`` does, each to its output.

        The output of a kept record is kept, too. The record with which the loop should turn is left
        to ``emit``. If ``only`` is None, the output of each record is chosen.
        """
        cdef CPacker direct = self._direct
        cdef Py_ssize_t held
        cdef Output output
        while index < len(records) and not self._large and self.records_out < self._turn_at:
            record = records[index]
            output = only if only is not None else self._known_for(<PyObject *>record)
            if output is None:
                output = self._choose(record)
            if write_flat(output.builder, <PyObject *>record):
                self.records_out += 1
                index += 1
                continue
            held = direct._size
            if pack_quietly(direct, <PyObject *>record) < 0:
                direct.release(held)
                _raise_unserializable(record)
            self._rest = direct.write(held, output.builder)
            if self._rest is not None:
                self._full = output
                break
            self.records_out += 1
            index += 1
        return index

    cdef bytes _let_go(self):
        data, self._rest = self._rest, None
        return data

    cdef inline Output _known_for(self, PyObject *record):
        """Return the output of a record if it is known without ``select``, else None."""
        cdef Py_ssize_t channel = self._known_channel(record)
        if channel < 0:
            return None
        return <Output>PyList_GET_ITEM(<PyObject *>self._outputs, channel)

    cdef inline Py_ssize_t _known_channel(self, PyObject *record) except? -2:
        """Return the channel of a record if it is known without ``select``, else -1."""
        cdef Py_ssize_t channel = -1
        if self._tuple_channels is not None:
            channel = self._tuple_channels.find(record)
        # After a large record, the next one is checked for a large form before a turn is taken.
        # A tuple has no large form.
        elif self._turns is not None and not self._large:
            channel = take_turn(self._turns)
        # For a channel out of range, ``select`` is called, and its choice is refused.
        return channel if 0 <= channel < PyList_GET_SIZE(<PyObject *>self._outputs) else -1

    cdef inline Output _choose(self, record):
        cdef Py_ssize_t channel = self._chosen_channel(record)
        return <Output>PyList_GET_ITEM(<PyObject *>self._outputs, channel)

    cdef Py_ssize_t _chosen_channel(self, record) except -1:
        cdef CPacker direct = self._direct
        cdef Py_ssize_t held = direct._size
        cdef Py_ssize_t channel
        try:
            channel = self._select(record)
            # The same as ``self._outputs[channel]``, with only the bounds checked.
            if 0 <= channel < PyList_GET_SIZE(<PyObject *>self._outputs):
                return channel
            self._outputs[channel]
            return channel + len(self._outputs)
        except BaseException:
            # If the record cannot be packed either, that error takes precedence.
            if pack_quietly(direct, <PyObject *>record) < 0:
                direct.release(held)
                _raise_unserializable(record)
            direct.release(held)
            raise

    cdef int32_t _channel_to_note(self, PyObject *record) except? -1:
        """Choose the channel of a record that is packed now and written later."""
        cdef Py_ssize_t channel
        if self._is_undecided:
            return UNDECIDED_CHANNEL
        channel = self._known_channel(record)
        return channel if channel >= 0 else self._chosen_channel(<object>record)


def _packed(RecordRoute route, CPacker direct, DirectPartitionedRoute chosen, records):
    """Generate the writes of records for a route; ``chosen`` is None or the route itself."""
    cdef list writes
    cdef Py_ssize_t index
    for chunk in [records] if type(records) is list else chunks(records):
        index = 0
        while index < len(chunk):
            writes = []
            if route._large:
                writes.append(_pack_large(route, direct, chosen, chunk[index]))
                index += 1
            else:
                index = _pack_block(route, direct, chosen, chunk, index, writes)
            yield from writes


cdef Py_ssize_t _pack_block(
    RecordRoute route,
    CPacker direct,
    DirectPartitionedRoute chosen,
    list records,
    Py_ssize_t index,
    list writes,
) except -1:
    """Pack records from ``index`` on into a block; return the index of the next record.

    A large record ends the block, and is written alone after it.
    """
    cdef Py_ssize_t start = direct._size
    cdef Py_ssize_t held
    cdef Py_ssize_t end = min(len(records), index + BLOCK_RECORDS_MAX)
    cdef int32_t channel = 0
    cdef uint8_t *behind
    cdef _Block block = _Block(end - index)
    cdef _Place *place = block._places
    long_one = None
    try:
        while index < end and direct._size - start < BLOCK_BYTES:
            if index >= PyList_GET_SIZE(<PyObject *>records):
                break  # code of a record's class has changed the list
            record = <object>PyList_GET_ITEM(<PyObject *>records, index)
            index += 1
            if chosen is not None:
                channel = chosen._channel_to_note(<PyObject *>record)
            behind = direct._room(FLAT_BYTES)
            behind = put_flat(behind, behind + FLAT_BYTES, <PyObject *>record)
            if behind is not NULL:
                direct._size = behind - direct._scratch
            else:
                held = direct._size
                _pack(direct, record)
                if direct._size - held >= LARGE_FROM_BYTES:
                    long_one = PyBytes_FromStringAndSize(
                        <char *>direct._scratch + held, direct._size - held
                    )
                    direct.release(held)
                    break
            place.end = <uint32_t>(direct._size - start)
            place.channel = channel
            place += 1
        block.records = place - block._places
        if block.records:
            size = block.take(direct._scratch + start)
            writes.append(Write(partial(_write_block, route, block), size))
    finally:
        direct.release(start)
    if long_one is not None:
        route._large = True
        writes.append(Write(partial(_write_long, route, channel, long_one), len(long_one)))
    return index


cdef object _pack_large(RecordRoute route, CPacker direct, DirectPartitionedRoute chosen, record):
    """Pack a record that follows a large one."""
    cdef int32_t channel = 0
    cdef Py_ssize_t held
    pieces = kept_form(record)
    if chosen is not None:
        channel = chosen._channel_to_note(<PyObject *>record)
    if pieces is not None:
        return Write(partial(route._write_large, channel, pieces), len(pieces[1]))
    held = direct._size
    try:
        _pack(direct, record)
        data = PyBytes_FromStringAndSize(<char *>direct._scratch + held, direct._size - held)
    finally:
        direct.release(held)
    route._large = len(data) >= LARGE_FROM_BYTES
    return Write(partial(_write_long, route, channel, data), len(data))


cdef int _pack(CPacker direct, record) except -1:
    """Pack a record after the bytes that the packer holds."""
    cdef Py_ssize_t held = direct._size
    if pack_quietly(direct, <PyObject *>record) < 0:
        direct.release(held)
        _raise_unserializable(record)
    return 0


async def _write_block(RecordRoute route, _Block block):
    cdef Output full
    while block.written < block.records:
        full = block.fill(route, route._turn_at)
        if full is not None:
            await route._append_packed(full, block.pop())
        else:
            await route._one_is_written()


async def _write_long(RecordRoute route, int channel, bytes data):
    """Write a record that must be checked against the limits, or may have to be cut."""
    if channel == UNDECIDED_CHANNEL:
        channel = route._chosen_now()
    await route._append_packed(route._outputs[channel], data)


cdef int _raise_unserializable(record) except -1:
    """Raise the SerializationError of a record that cannot be packed; its cause is set."""
    try:
        raise_what_is_set()
    except Exception as cause:
        raise unserializable(record, cause) from cause
