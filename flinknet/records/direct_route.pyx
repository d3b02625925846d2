# cython: binding=False
"""Direct routes: ``emit`` without an object for the record's bytes.

Theory of operation. The packer holds a record's bytes in memory of its own, and copies them to
where the record goes, if they fit there; if they do not, they become ``bytes``, for the appender.
That saves the object, and the call of the builder's ``write``. A small record is even packed where
it goes (``flat_packing.pxd``), so that its channel is chosen before. The channel of a tuple is
found without a call of the key's function, where that is known (``tuple_channels.pyx``); the next
channel in turn is seen without a call (``round_robin.py``). Everything else is as in ``route.py``,
which is what plain Python takes: there this would be the same with one call more.
"""

from cpython.object cimport PyObject

from flinknet.records.output cimport Output
from flinknet.records.round_robin cimport take_turn, turns_behind
from flinknet.records.route cimport RouteToChosen, RouteToOne
from flinknet.records.serialization.c_packer cimport CPacker, pack_quietly, raise_what_is_set
from flinknet.records.serialization.flat_packing cimport write_flat
from flinknet.records.tuple_channels cimport TupleChannels

from flinknet.records.block import chunks
from flinknet.records.serialization.packer import unserializable
from flinknet.records.serialization.large_record import large_form
from flinknet.records.written import WRITTEN

__all__ = ["DirectRouteToChosen", "DirectRouteToOne"]


cdef extern from "Python.h":
    PyObject *PyList_GET_ITEM(PyObject *values, Py_ssize_t index)
    Py_ssize_t PyList_GET_SIZE(PyObject *values)


cdef class DirectRouteToOne(RouteToOne):
    """Every record to the same output."""

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
        """Write all that fit with one call."""
        cdef Py_ssize_t index
        for chunk in [records] if type(records) is list else chunks(records):
            index = 0
            while (index := self._write_some(chunk, index)) < len(chunk):
                index += 1
                if (data := self._let_go()) is None:
                    await self.emit(chunk[index - 1])
                else:
                    await self._append_packed(self._output, data)

    cdef Py_ssize_t _write_some(self, list records, Py_ssize_t index) except -1:
        """Write records from ``index`` on as long as they fit; return the index of the first that
        is not written: too large for what is left, its bytes are kept, or to be looked at first."""
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


cdef class DirectRouteToChosen(RouteToChosen):
    """Each record to the output that the partitioner chooses for it."""

    def __init__(self, packer, appender, limits, outputs, partitioner):
        super().__init__(packer, appender, limits, outputs, partitioner)
        self._direct = packer.direct
        self._turns = turns_behind(self._select)
        self._tuple_channels = partitioner.tuple_channels
        self._written = WRITTEN

    cpdef emit(self, record):
        """Write a record to its output."""
        cdef CPacker direct = self._direct
        cdef Py_ssize_t held = direct._size
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
        """Write all that fit with one call, each where it would go alone."""
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

    def _shares_of(self, records):
        """Yield records with the output that they all are for, or with None: each is to be chosen
        for when it is its turn."""
        if (
            self._tuple_channels is not None
            or self._turns is not None
            or self._partitioner.looks_at_queues
        ):
            for chunk in [records] if type(records) is list else chunks(records):
                yield chunk, None
            return
        for chunk in chunks(records):
            if not self._division.wants(len(chunk)):
                yield chunk, None
                continue
            shares = self._partitioner.divide(chunk)
            self._division.observe(len(chunk), len(shares))
            for index, share in shares.items():
                yield share, self._outputs[index]

    cdef object _emit_to(self, Output output, record):
        """Write a record to an output, after one that was large."""
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
        """See ``DirectRouteToOne``; where the kept one is to go is kept, too, and what the loop is
        to turn with is left to ``emit``. Where there is no ``only`` output each record is chosen
        for."""
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
        """Return the output of a record for which ``select`` need not be called, None for others.
        """
        cdef Py_ssize_t channel = -1
        if self._tuple_channels is not None:
            channel = self._tuple_channels.find(record)
        elif self._turns is not None and not self._large:
            channel = take_turn(self._turns)
        # For one that there is not, ``select`` is called, and what it chooses is refused.
        if not 0 <= channel < PyList_GET_SIZE(<PyObject *>self._outputs):
            return None
        return <Output>PyList_GET_ITEM(<PyObject *>self._outputs, channel)

    cdef Output _choose(self, record):
        cdef CPacker direct = self._direct
        cdef Py_ssize_t held = direct._size
        cdef Py_ssize_t channel
        try:
            channel = self._select(record)
            # As ``self._outputs[channel]``, of which nothing but the bounds is looked at.
            if 0 <= channel < PyList_GET_SIZE(<PyObject *>self._outputs):
                return <Output>PyList_GET_ITEM(<PyObject *>self._outputs, channel)
            return self._outputs[channel]
        except BaseException:
            # That it cannot be packed is why, rather, if both is so.
            if pack_quietly(direct, <PyObject *>record) < 0:
                direct.release(held)
                _raise_unserializable(record)
            direct.release(held)
            raise


cdef int _raise_unserializable(record) except -1:
    """Raise what says why a record cannot be packed; the reason is set."""
    try:
        raise_what_is_set()
    except Exception as cause:
        raise unserializable(record, cause) from cause
