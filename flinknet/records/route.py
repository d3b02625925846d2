"""Routes: what ``emit`` and ``emit_many`` do, which stand in the way of every record.

Theory of operation. A route serialises a record, chooses its output and writes to the output's
builder, which writes to its segment, if the record fits. If it does not, ``RecordAppender.append``
takes over (``appender.py``), where everything per buffer happens. There is a kind of route for each
way of emitting: to one output, to a chosen one, and cut into parts that go to several.

All that is done by the call of ``emit`` itself, not when what it returns is awaited: for most
records that is the one object WRITTEN, which is over at once, where a coroutine would take an
eighth of the time. Who forgets to await writes those records all the same; after a few buffers what
lets the event loop turn is a coroutine, or what waits for memory, and Python's warning that nobody
awaited it finds the mistake.

Both kinds of ``emit`` spell ``builder.append_whole`` out: the call would take a twentieth more of
the CPU of a small record (`python -m bench run micro --case emit`, tuple).

``pack`` does half of that for many records: it serialises them and chooses their outputs. The
writes that it generates are the other half, so that the two may run in different threads. It packs
many records with one call, a *block*, as long as they are small (``block.py``). ``emit_many`` does
both halves.

Large bytes and Arrow batches are not packed: they are copied nowhere but into the buffer, in two
pieces (``large_form``). To look what a record is takes as long as packing a small one, so ``emit``
looks only after one that was large and did not fit. With 32 KiB of bytes a record takes 0.94 of the
CPU with ``emit``, and 0.74 with ``emit_many`` (`--case emit,emit-many`, bytes-32k).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from flinknet.errors import SerializationError
from flinknet.records.appender import RecordAppender, emit_lets_loop_turn
from flinknet.records.block import BlockPacker, chunks, record_ends
from flinknet.records.cooperative_budget import records_between_turns
from flinknet.records.division import Division
from flinknet.records.output import Output
from flinknet.records.partitioner import Partitioner
from flinknet.records.serialization.large_record import (
    LARGE_RECORD_BYTES,
    LargeForm,
    kept_form,
    large_form,
)
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.written import WRITTEN

__all__ = ["UNDECIDED", "CutRoute", "RecordRoute", "RouteToChosen", "RouteToOne", "Write"]


class Write(NamedTuple):
    """Records that are packed."""

    write: Callable[[], Awaitable[None]]
    """Writes them: called on the event loop, and awaited."""
    bytes: int
    """About how many they have."""


UNDECIDED: Final = -1
"""The channel of a record for which it is chosen when the record is written."""

_WRITE_BYTES = 1 << 16
"""A write has as many bytes, and a record, at most. Between two writes the loop may turn, and those
that wait may be written before more records are packed."""

_LARGE_RECORDS = 64
"""As many large records are written before somebody looks whether they are still large."""


class RecordRoute:
    """One way from a record to its segments.

    ``records_out`` counts the records that were written here; the appender counts the others. With
    the one that makes it ``_turn_at`` the loop is to turn.
    """

    __slots__ = (
        "_appender",
        "_blocks",
        "_encode",
        "_form",
        "_large",
        "_options",
        "_outputs",
        "_packer",
        "_records_between_turns",
        "_turn_at",
        "records_out",
    )

    def __init__(
        self,
        packer: RecordPacker,
        appender: RecordAppender,
        limits: RecordLimits,
        outputs: Sequence[Output],
    ) -> None:
        self.records_out = 0
        self._outputs = outputs
        self._records_between_turns = records_between_turns(len(outputs))
        self._turn_at = self._records_between_turns
        self._packer = packer
        self._encode, self._form, self._options = packer.encode, packer.form, packer.options
        self._appender = appender
        self._blocks = BlockPacker(packer.pack, limits.unchecked_bytes)
        self._large = False

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write a record; see ``RecordWriter.emit``."""
        raise NotImplementedError

    async def emit_many(self, records: Iterable[Any]) -> None:
        """Write many records; see ``RecordWriter.emit_many``."""
        for packed in self.pack(records):
            await packed.write()

    def _append_packed(self, output: Output, data: bytes) -> Coroutine[Any, Any, None]:
        """Write a record that does not fit, or of which that is not known."""
        self._large = len(data) >= LARGE_RECORD_BYTES
        appended = self._appender.append(output, data)
        if appended is not WRITTEN:
            self._turn_at = self.records_out + self._records_between_turns
        return appended

    def _one_is_written(self) -> Coroutine[Any, Any, None]:
        """Return what there is to await for a record that is written and counted."""
        if self.records_out < self._turn_at:
            return WRITTEN
        self._turn_at = self.records_out + self._records_between_turns
        return emit_lets_loop_turn()

    def _emit_large(self, output: Output, pieces: LargeForm) -> Coroutine[Any, Any, None]:
        """Write a record in two pieces, which are copied nowhere but into the buffer."""
        head, content = pieces
        if output.builder.append_whole(content, head):
            self.records_out += 1
            return self._one_is_written()
        return self._appender.append(output, content, head)

    def pack(self, records: Iterable[Any]) -> Iterable[Write]:
        """Pack many records; see ``RecordWriter.pack``."""
        raise NotImplementedError

    def _pack_each(self, records: list[Any], select: Callable[[Any], int]) -> Iterator[Write]:
        """Pack records one by one, each for the output that is chosen for it then. If that fails,
        those before come first."""
        encode, form, options = self._encode, self._form, self._options
        large = not self._blocks.worthwhile
        channels: list[int] = []
        packed: list[bytes] = []
        size = 0
        try:
            for record in records:
                if size >= _WRITE_BYTES:
                    yield self._write_of(channels, packed)
                    channels, packed, size = [], [], 0
                if large and (pieces := kept_form(record)) is not None:
                    channel = select(record)
                    yield self._write_of(channels, packed)
                    yield Write(partial(self._write_large, channel, pieces), len(pieces[1]))
                    channels, packed, size = [], [], 0
                    continue
                try:
                    data = encode(record, form, options)
                except TypeError:
                    data = self._packer.pack_otherwise(record)
                channels.append(select(record))
                packed.append(data)
                size += len(data)
        except Exception:
            yield self._write_of(channels, packed)
            raise
        if packed:
            self._blocks.observe(len(packed[-1]))
            yield self._write_of(channels, packed)

    def _pack_blocks(self, channel: int, records: list[Any]) -> Iterator[Write]:
        """Pack records for one output, many at once."""
        blocks = self._blocks
        start, end = 0, len(records)
        while start < end:
            count = min(blocks.records_in_block(), end - start)
            if count > 1:
                try:
                    block = blocks.pack(records[start : start + count])
                except SerializationError:  # one of them; or, packed alone, none
                    count = 0
                else:
                    yield Write(partial(self._write_block, channel, block, count), len(block))
            if count <= 1:
                count = 1 if blocks.worthwhile else _LARGE_RECORDS
                some = records[start : start + count]
                yield from self._pack_each(some, lambda record: channel)
            start += count

    def _write_of(self, channels: list[int], packed: list[bytes]) -> Write:
        return Write(partial(self._write_each, channels, packed), sum(map(len, packed)))

    async def _write_each(self, channels: list[int], packed: list[bytes]) -> None:
        """Write records that were packed one by one."""
        outputs = self._outputs
        for channel, data in zip(channels, packed, strict=True):
            output = outputs[channel if channel != UNDECIDED else self._chosen_now()]
            if output.builder.append_whole(data):
                self.records_out += 1
            else:
                await self._appender.append(output, data)
        await self._one_is_written()

    async def _write_large(self, channel: int, pieces: LargeForm) -> None:
        output = self._outputs[self._chosen_now() if channel == UNDECIDED else channel]
        await self._emit_large(output, pieces)

    async def _write_block(self, channel: int, block: memoryview, records: int) -> None:
        """Write a block: as many of its records at once as fit what is left of a buffer."""
        output = self._outputs[channel]
        if output.builder.append_whole(block, records=records):
            self.records_out += records
        else:
            await self._write_cut_block(output, block)
        await self._one_is_written()

    async def _write_cut_block(self, output: Output, block: memoryview) -> None:
        ends = record_ends(block)
        written = start = 0
        while written < len(ends):
            fitting = bisect_right(ends, start + output.builder.remaining)
            if fitting > written:
                whole = block[start : ends[fitting - 1]]
                output.builder.append_whole(whole, records=fitting - written)
                self.records_out += fitting - written
                written = fitting
            else:
                await self._appender.append(output, block[start : ends[written]])
                written += 1
            start = ends[written - 1]

    def _chosen_now(self) -> int:
        """Choose the channel of a record that is about to be written."""
        raise AssertionError(f"{type(self).__name__} knows the channels when it packs")


class RouteToOne(RecordRoute):
    """Every record to the same output: the only subpartition, the first, or all at once."""

    __slots__ = ("_output",)

    def __init__(
        self,
        packer: RecordPacker,
        appender: RecordAppender,
        limits: RecordLimits,
        output: Output,
    ) -> None:
        super().__init__(packer, appender, limits, [output])
        self._output = output

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write a record to the output."""
        if self._large and (pieces := large_form(record)) is not None:
            return self._emit_large(self._output, pieces)
        try:
            data = self._encode(record, self._form, self._options)
        except TypeError:
            data = self._packer.pack_otherwise(record)
        builder = self._output.builder
        remaining = builder.remaining - len(data)
        if remaining < 0:
            return self._append_packed(self._output, data)
        builder.remaining = remaining
        write = builder.write
        write(data)
        builder.records += 1
        self.records_out += 1
        return WRITTEN

    def pack(self, records: Iterable[Any]) -> Iterable[Write]:
        """Pack blocks for the output."""
        for chunk in [records] if type(records) is list else chunks(records):
            yield from self._pack_blocks(0, chunk)


class RouteToChosen(RecordRoute):
    """Each record to the output that the partitioner chooses for it."""

    __slots__ = ("_division", "_partitioner", "_select")

    def __init__(
        self,
        packer: RecordPacker,
        appender: RecordAppender,
        limits: RecordLimits,
        outputs: Sequence[Output],
        partitioner: Partitioner,
    ) -> None:
        super().__init__(packer, appender, limits, outputs)
        self._partitioner = partitioner
        self._select = partitioner.select
        self._division = Division()

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write a record to its output."""
        if self._large and (pieces := large_form(record)) is not None:
            return self._emit_large(self._outputs[self._select(record)], pieces)
        try:
            data = self._encode(record, self._form, self._options)
        except TypeError:
            data = self._packer.pack_otherwise(record)
        output = self._outputs[self._select(record)]
        builder = output.builder
        remaining = builder.remaining - len(data)
        if remaining < 0:
            return self._append_packed(output, data)
        builder.remaining = remaining
        write = builder.write
        write(data)
        builder.records += 1
        self.records_out += 1
        if self.records_out < self._turn_at:
            return WRITTEN
        return self._one_is_written()

    def pack(self, records: Iterable[Any]) -> Iterable[Write]:
        """Pack for each output its share of the records in blocks; if there are no shares to make,
        pack one by one."""
        division, partitioner = self._division, self._partitioner
        for chunk in chunks(records):
            if partitioner.looks_at_queues:
                yield from self._pack_each(chunk, _when_it_is_written)
            elif self._blocks.worthwhile and division.wants(len(chunk)):
                shares = partitioner.divide(chunk)
                division.observe(len(chunk), len(shares))
                for index, share in shares.items():
                    yield from self._pack_blocks(index, share)
            else:
                yield from self._pack_each(chunk, self._select)

    def _chosen_now(self) -> int:
        return self._select(None)


def _when_it_is_written(record: Any) -> int:
    """Choose no channel yet."""
    return UNDECIDED


class CutRoute(RecordRoute):
    """Each record in parts, which are records of their own, each to its own output."""

    __slots__ = ("_limits", "_partitioner")

    def __init__(
        self,
        packer: RecordPacker,
        appender: RecordAppender,
        limits: RecordLimits,
        outputs: Sequence[Output],
        partitioner: Partitioner,
    ) -> None:
        super().__init__(packer, appender, limits, outputs)
        self._limits = limits
        self._partitioner = partitioner

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write the parts of a record, once all of them can be written."""
        return self._emit_parts(record)

    async def _emit_parts(self, record: Any) -> None:
        for packed in self._packed_parts(record):
            await packed.write()

    def pack(self, records: Iterable[Any]) -> Iterable[Write]:
        """Pack one by one: a record is many rows already."""
        for chunk in chunks(records):
            for record in chunk:
                yield from self._packed_parts(record)

    def _packed_parts(self, record: Any) -> list[Write]:
        self._limits.check_uncut(record)
        forms = {
            index: self._serialised(part) for index, part in self._partitioner.cut(record).items()
        }
        return [
            Write(partial(self._write_large, index, form), len(form[1]))
            for index, form in forms.items()
        ]

    def _serialised(self, record: Any) -> LargeForm:
        """Return a record as its bytes; raises SerializationError."""
        form = kept_form(record)
        if form is None:
            form = b"", self._packer.pack(record)
        head, content = form
        if len(head) + len(content) > self._limits.unchecked_bytes:
            self._limits.check(content, head)
        return form
