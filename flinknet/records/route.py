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

``emit_many`` packs many records with one call, a *block*, as long as they are small (``block.py``).

Large bytes and Arrow batches are not packed: they are copied nowhere but into the buffer, in two
pieces (``large_form``). To look what a record is takes as long as packing a small one, so ``emit``
looks only after one that was large and did not fit. With 32 KiB of bytes a record takes 0.94 of the
CPU with ``emit``, and 0.74 with ``emit_many`` (`--case emit,emit-many`, bytes-32k).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from flinknet.errors import SerializationError
from flinknet.records.appender import RecordAppender, emit_lets_loop_turn
from flinknet.records.block import BlockPacker, chunks
from flinknet.records.cooperative_budget import records_between_turns
from flinknet.records.division import Division
from flinknet.records.output import Output
from flinknet.records.partitioner import Partitioner
from flinknet.records.serialization.large_record import (
    LARGE_RECORD_BYTES,
    LargeForm,
    large_form,
)
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.written import WRITTEN

__all__ = ["CutRoute", "RecordRoute", "RouteToChosen", "RouteToOne"]

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
        channels: int = 1,
    ) -> None:
        self.records_out = 0
        self._records_between_turns = records_between_turns(channels)
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
        raise NotImplementedError

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

    async def _emit_each(
        self, records: list[Any], select: Callable[[Any], int], outputs: Sequence[Output]
    ) -> None:
        """Write records one by one, each to the output that is chosen for it then."""
        encode, form, options = self._encode, self._form, self._options
        data = b""
        large = not self._blocks.worthwhile
        for record in records:
            if large and (pieces := large_form(record)) is not None:
                await self._emit_large(outputs[select(record)], pieces)
                continue
            try:
                data = encode(record, form, options)
            except TypeError:
                data = self._packer.pack_otherwise(record)
            output = outputs[select(record)]
            if output.builder.append_whole(data):
                self.records_out += 1
            else:
                await self._appender.append(output, data)
        if data:
            self._blocks.observe(len(data))

    async def _emit_blocks(self, output: Output, records: list[Any]) -> None:
        """Write records to one output, as many at once as fit what is left of a buffer."""
        blocks = self._blocks
        start, end = 0, len(records)
        while start < end:
            builder = output.builder
            count = min(blocks.records_in(builder.remaining), end - start)
            if count > 1:
                try:
                    block = blocks.pack(records[start : start + count])
                except SerializationError:  # one of them; or, packed alone, none
                    count = 0
                else:
                    if not builder.append_whole(block, records=count):
                        continue
                    self.records_out += count
            if count <= 1:
                count = 1 if blocks.worthwhile else _LARGE_RECORDS
                await self._emit_each(records[start : start + count], _the_only, (output,))
            start += count


def _the_only(record: Any) -> int:
    """Choose the first of one output."""
    return 0


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
        super().__init__(packer, appender, limits)
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

    async def emit_many(self, records: Iterable[Any]) -> None:
        """Write blocks to the output."""
        for chunk in [records] if type(records) is list else chunks(records):
            await self._emit_blocks(self._output, chunk)


class RouteToChosen(RecordRoute):
    """Each record to the output that the partitioner chooses for it."""

    __slots__ = ("_division", "_outputs", "_partitioner", "_select")

    def __init__(
        self,
        packer: RecordPacker,
        appender: RecordAppender,
        limits: RecordLimits,
        outputs: Sequence[Output],
        partitioner: Partitioner,
    ) -> None:
        super().__init__(packer, appender, limits, len(outputs))
        self._outputs = outputs
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

    async def emit_many(self, records: Iterable[Any]) -> None:
        """Write to each output its share of the records in blocks; if there are no shares to make,
        or the choice depends on what was written before, write one by one."""
        division, partitioner = self._division, self._partitioner
        for chunk in chunks(records):
            together = not partitioner.looks_at_queues and self._blocks.worthwhile
            if together and division.wants(len(chunk)):
                shares = partitioner.divide(chunk)
                division.observe(len(chunk), len(shares))
                for index, share in shares.items():
                    await self._emit_blocks(self._outputs[index], share)
            else:
                await self._emit_each(chunk, self._select, self._outputs)
            await self._one_is_written()


class CutRoute(RecordRoute):
    """Each record in parts, which are records of their own, each to its own output."""

    __slots__ = ("_limits", "_outputs", "_partitioner")

    def __init__(
        self,
        packer: RecordPacker,
        appender: RecordAppender,
        limits: RecordLimits,
        outputs: Sequence[Output],
        partitioner: Partitioner,
    ) -> None:
        super().__init__(packer, appender, limits)
        self._limits = limits
        self._outputs = outputs
        self._partitioner = partitioner

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write the parts of a record, once all of them can be written."""
        return self._emit_parts(record)

    async def _emit_parts(self, record: Any) -> None:
        self._limits.check_uncut(record)
        forms = [
            (self._outputs[index], self._serialised(part))
            for index, part in self._partitioner.cut(record).items()
        ]
        for output, pieces in forms:
            await self._emit_large(output, pieces)

    async def emit_many(self, records: Iterable[Any]) -> None:
        """Write one by one: a record is many rows already."""
        for chunk in chunks(records):
            for record in chunk:
                await self._emit_parts(record)

    def _serialised(self, record: Any) -> LargeForm:
        """Return a record as its bytes; raises SerializationError."""
        form = large_form(record)
        if form is None:
            form = b"", self._packer.pack(record)
        head, content = form
        if len(head) + len(content) > self._limits.unchecked_bytes:
            self._limits.check(content, head)
        return form
