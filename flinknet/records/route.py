"""Routes: the implementations of ``emit`` and ``emit_many``; every record passes through one.

Theory of operation. A route serialises a record, chooses its output, and writes to the output's
builder if the record fits. Otherwise ``RecordAppender.append`` takes over, which does all work per
buffer (``appender.py``). Each way of emitting has its own kind of route: to one output, to a chosen
output, or split into parts for several outputs.

``emit`` does all its work when it is called, not when its result is awaited. For most records it
returns the single object WRITTEN, which is complete, in an eighth of the time of a coroutine. A
caller that forgets to await still writes those records. After a few buffers, ``emit`` returns a
coroutine that yields to the loop or waits for memory. Python's warning that it was never awaited
then reveals the mistake.

``pack`` is the first half of ``emit_many``: it serialises many records and chooses their outputs.
The writes that it generates are the second half, so the two halves may run in different threads.
Small records are packed many at a time, as a *block* (``block.py``).

Large bytes and Arrow batches are not packed: they are copied only into the buffer, in two pieces
(``large_form``). Checking a record's type costs as much as packing a small record, so ``emit``
checks only after a large record that did not fit. Compared with packing, a record of 32 KiB of
bytes takes 0.94 of the CPU time with ``emit``, and 0.74 with ``emit_many`` (`--case
emit,emit-many`, bytes-32k).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from flinknet.errors import SerializationError
from flinknet.records.appender import RecordAppender, emit_lets_loop_turn
from flinknet.records.block import BlockPacker, chunks, record_ends
from flinknet.records.bulk_split import BulkSplitHeuristic
from flinknet.records.cooperative_budget import records_between_turns
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

__all__ = [
    "UNDECIDED",
    "PartitionedRoute",
    "RecordRoute",
    "SingleOutputRoute",
    "SplittingRoute",
    "Write",
]


class Write(NamedTuple):
    """Packed records."""

    write: Callable[[], Awaitable[None]]
    """Coroutine function that writes them, called on the event loop."""
    bytes: int
    """Approximate size of the records."""


UNDECIDED: Final = -1
"""Channel of a record that is chosen only when the record is written."""

_WRITE_BYTES = 1 << 16
"""Maximum size of a write, plus one record.

Between two writes the loop may turn, and pending writes may be written before more records are
packed.
"""

_LARGE_RECORDS = 64
"""Number of large records that are written before their size is checked again."""


class RecordRoute:
    """Route of records to the outputs of one writer.

    ``records_out`` counts the records written by the route; the appender counts the others. When
    ``records_out`` reaches ``_turn_at``, the writer yields to the loop.
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
        """Write a record that does not fit, or may not fit."""
        # The next record is checked for a large form after a large record.
        self._large = len(data) >= LARGE_RECORD_BYTES
        appended = self._appender.append(output, data)
        if appended is not WRITTEN:  # awaiting it lets the loop turn
            self._turn_at = self.records_out + self._records_between_turns
        return appended

    def _one_is_written(self) -> Coroutine[Any, Any, None]:
        """Return the awaitable for a record that is written and counted."""
        if self.records_out < self._turn_at:
            return WRITTEN
        self._turn_at = self.records_out + self._records_between_turns
        return emit_lets_loop_turn()

    def _emit_large(self, output: Output, pieces: LargeForm) -> Coroutine[Any, Any, None]:
        """Write a record in two pieces, which are copied only into the buffer."""
        head, content = pieces
        if output.builder.append_whole(content, head):
            self.records_out += 1
            return self._one_is_written()
        return self._appender.append(output, content, head)

    def pack(self, records: Iterable[Any]) -> Iterable[Write]:
        """Pack many records; see ``RecordWriter.pack``."""
        raise NotImplementedError

    def _pack_each(self, records: list[Any], select: Callable[[Any], int]) -> Iterator[Write]:
        """Pack records one by one, and choose the output of each.

        If a record fails, the records before it are yielded first.
        """
        encode, form, options = self._encode, self._form, self._options
        large = not self._blocks.worthwhile  # small records need no check for a large form
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
                except SerializationError:  # a record is invalid, or the block nests too deep
                    count = 0
                else:
                    yield Write(partial(self._write_block, channel, block, count), len(block))
            if count <= 1:
                # After a failed block, the next one begins after its first record.
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
        """Write a block, with one call for all records that fit the rest of a buffer."""
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
        raise NotImplementedError


class SingleOutputRoute(RecordRoute):
    """Route of all records to one output: the only subpartition, the first, or all at once."""

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
        # Both kinds of ``emit`` inline ``append_whole``: the call would add a twentieth to the CPU
        # time of a small record (`python -m bench run micro --case emit`, tuple).
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


class PartitionedRoute(RecordRoute):
    """Route of each record to the output that the partitioner chooses."""

    __slots__ = ("_bulk_split", "_partitioner", "_select")

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
        self._bulk_split = BulkSplitHeuristic()

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
        """Pack the share of each output in blocks; pack one by one if there are no shares."""
        bulk_split, partitioner = self._bulk_split, self._partitioner
        for chunk in chunks(records):
            if partitioner.looks_at_queues:
                yield from self._pack_each(chunk, _when_it_is_written)
            elif self._blocks.worthwhile and bulk_split.is_worthwhile(len(chunk)):
                shares = partitioner.divide(chunk)
                bulk_split.observe(len(chunk), len(shares))
                for index, share in shares.items():
                    yield from self._pack_blocks(index, share)
            else:
                yield from self._pack_each(chunk, self._select)

    def _chosen_now(self) -> int:
        # Only a partitioner that looks at the queues chooses late, and it ignores the record.
        return self._select(None)


def _when_it_is_written(record: Any) -> int:
    """Return UNDECIDED: the channel is chosen when the record is written."""
    return UNDECIDED


class SplittingRoute(RecordRoute):
    """Route of each record in parts, which are records of their own, each to its own output."""

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
        """Pack one by one: each record already has many rows."""
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
        """Return the bytes of a record. Raises SerializationError."""
        form = kept_form(record)
        if form is None:
            form = b"", self._packer.pack(record)
        head, content = form
        if len(head) + len(content) > self._limits.unchecked_bytes:
            self._limits.check(content, head)
        return form
