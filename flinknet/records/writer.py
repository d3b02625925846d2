"""The record writer: what a producing task emits records with.

Theory of operation (Flink's RecordWriter over BufferWritingResultPartition). For every
subpartition the writer knows the builder it last opened. Emitting serialises the record, chooses
the subpartition and appends (``emission.py``), which is all as long as the bytes fit. When they do
not (the builder is full, or a reader has taken from it meanwhile) it goes on or a new one is
opened (``appender.py``), and that is where everything per buffer happens: waiting for memory,
noticing that the consumers are gone, asking for a flush, and yielding to the event loop.

*Backpressure*: a record is begun only while the partition's pool is available (soft), so that a
subpartition over its quota stops the writer between records; in the middle of a record any buffer
will do (hard). Waiting is all that ``emit`` ever does besides, so ``await emit()`` *is* the
backpressure.

*Cancellation*: a cancelled ``emit`` has written the record entirely or not at all, except for a
record longer than a buffer, which may be cut: the writer then refuses further records (they would
continue a torn one).

*Flushing*: with timeout -1 nothing is asked for; otherwise the flusher is told when something
stands in a new builder, or behind what a reader has taken, and nothing did before. With timeout 0
it flushes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol

from flinknet.buffer.availability import Wait, WaitReason
from flinknet.config import RECORD_KEYS_MAX, BufferTimeout
from flinknet.errors import LocalProtocolError, SerializationError
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.appender import RecordAppender
from flinknet.records.block import BlockPacker, chunks
from flinknet.records.emission import Emission, Writing, emission_to, emission_to_chosen
from flinknet.records.loop_turn import LoopTurn, yield_to_loop
from flinknet.records.output import BroadcastOutput, Output, SubpartitionOutput
from flinknet.records.partitioner import ForwardPartitioner, Partitioner
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.record_types import Registered
from flinknet.records.serialization.serializer import (
    LargeForm,
    check_limits,
    check_uncut,
    large_form,
)

__all__ = ["OutputFlusher", "RecordWriter"]


_LARGE_RECORDS = 64
"""As many large records are written before somebody looks whether they are still large."""


def _the_only(record: Any) -> int:
    """Choose the first of one output."""
    return 0


class OutputFlusher(Protocol):
    """Who calls ``flush`` after the buffer timeout; the shell owns the clock."""

    def request_flush(self, writer: RecordWriter) -> None:
        """Something stands in a builder where nothing stood before."""


class RecordWriter:
    """Writes records to a result partition; one writer per partition.

    Args:
        partition: where the records go.
        partitioner: chooses the subpartition; ForwardPartitioner for a single one by default.
        wait: suspends until an Availability is available; made by the shell.
        flusher: called for a positive or adaptive buffer timeout.
        buffer_timeout_ms: -1, 0, a positive number or "adaptive".
        record_bytes_max: larger records are refused.
        record_elements_max: records with more elements are refused, as the reader would.
        record_keys_max: records with more keys that could collide are refused, as the reader would.
        types: the classes whose objects may be in records.
    """

    emit: Callable[[Any], Coroutine[Any, Any, None]]
    """``await emit(record)`` writes one record, waiting for memory if there is none. The record is
    serialised by the call, and mostly written by it, whenever what it returns is awaited.

    Raises SerializationError (nothing was written), ConsumerCancelledError or the cause with which
    the consumers were lost, LocalProtocolError after ``finish``.

    If the partitioner cuts a record, its parts are records of their own: ``records_out`` counts
    them, and a cancellation leaves some of them written and some not, each like any record.
    """

    def __init__(
        self,
        partition: ResultPartition,
        partitioner: Partitioner | None,
        *,
        wait: Wait,
        flusher: OutputFlusher,
        buffer_timeout_ms: BufferTimeout,
        record_bytes_max: int,
        record_elements_max: int,
        record_keys_max: int = RECORD_KEYS_MAX,
        types: Registered = None,
    ) -> None:
        self.partition = partition
        self.partitioner = partitioner if partitioner is not None else ForwardPartitioner()
        channels = len(partition.subpartitions)
        if not self.partitioner.channels:
            self.partitioner.setup(channels)
        if self.partitioner.channels != channels:
            raise LocalProtocolError(
                f"the partitioner was set up for {self.partitioner.channels} channels, but "
                f"partition {partition.partition_id} has {channels}: make one for each writer"
            )
        self.partitioner.observe(partition.subpartitions)
        self.buffer_timeout_ms = buffer_timeout_ms
        self._records_out = 0
        self._wait = wait
        self._flusher = flusher
        self._record_bytes_max = record_bytes_max
        self._record_elements_max = record_elements_max
        self._record_keys_max = record_keys_max
        self._unlimited_bytes = min(record_bytes_max, record_elements_max, COUNTED_FROM_BYTES)
        self._appender = RecordAppender(partition, wait)
        self._select = self.partitioner.select
        self._packer = RecordPacker(types)
        if partition.subpartitions[0].buffer_bytes > COUNTED_FROM_BYTES:
            self._packer.check_with(self._check_uncounted)  # what fits a buffer, too
        self._outputs = [SubpartitionOutput(partition, index) for index in range(channels)]
        self._broadcast = BroadcastOutput(partition)
        self._blocks = BlockPacker(self._packer.pack, self._unlimited_bytes)
        self._unflushed: set[Output] = set()
        self._finished = False
        self._turn = LoopTurn()
        self._writing = Writing(self._packer, self._append, self._emit_large)
        self._counts: list[Callable[[], int]] = []
        self._only: Output | None = None
        if self.partitioner.is_broadcast:
            self._only, self.emit = self._broadcast, self.broadcast_emit
        elif self.partitioner.cuts_records:
            self.emit = self._emit_cut
        elif self.partitioner.selects_first:
            self._only = self._outputs[0]
            self.emit = self._count(emission_to(self._only, self._writing))
        else:
            self.emit = self._count(emission_to_chosen(self._select, self._outputs, self._writing))

    # -- emitting ---------------------------------------------------------------------------------

    @cached_property
    def broadcast_emit(self) -> Callable[[Any], Coroutine[Any, Any, None]]:
        """The same as ``emit`` for every subpartition; the record is serialised once, into shared
        buffers."""
        return self._count(emission_to(self._broadcast, self._writing))

    def _count(self, emission: Emission) -> Callable[[Any], Coroutine[Any, Any, None]]:
        self._counts.append(emission.counted)
        return emission.emit

    async def emit_many(self, records: Iterable[Any]) -> None:
        """Write many records: the same as ``emit`` for each, at a fraction of the cost.

        The order within a subpartition is that of the records. After an error or a cancellation
        some of them are written and some are not. A list must not be changed meanwhile.
        """
        partitioner, blocks = self.partitioner, self._blocks
        if self._only is not None:
            for part in [records] if type(records) is list else chunks(records):
                await self._emit_blocks(self._only, part)
            return
        for chunk in chunks(records):
            if partitioner.cuts_records:
                for record in chunk:
                    await self._emit_cut(record)
            elif partitioner.looks_at_queues or not blocks.wants(chunk):
                await self._emit_each(chunk, self._select, self._outputs)
            else:
                shares = partitioner.divide(chunk)
                blocks.observe_shares(len(chunk), len(shares))
                for index, share in shares.items():
                    await self._emit_blocks(self._outputs[index], share)

    async def _emit_cut(self, record: Any) -> None:
        """Write the parts of a record, each to its own output, once all of them can be written."""
        check_uncut(record, self._record_bytes_max)
        forms = [
            (self._outputs[index], *self._serialised(part))
            for index, part in self.partitioner.cut(record).items()
        ]
        for output, head, content in forms:
            await self._emit_large(output, head, content)

    def _serialised(self, record: Any) -> LargeForm:
        """Return a record as its bytes; raises SerializationError."""
        form = large_form(record)
        if form is None:
            form = b"", self._packer.pack(record)
        head, content = form
        if len(head) + len(content) > self._unlimited_bytes:
            self._check_limits(content, head)
        return form

    async def _emit_each(
        self,
        records: Iterable[Any],
        select: Callable[[Any], int],
        outputs: Sequence[Output],
    ) -> None:
        """Write records one by one, each to the output that is chosen for it then."""
        packer = self._packer
        encode, form, options = packer.encode, packer.form, packer.options
        data = b""
        large = not self._blocks.worthwhile
        for record in records:
            if large and (pieces := large_form(record)) is not None:
                await self._emit_large(outputs[select(record)], *pieces)
                continue
            try:
                data = encode(record, form, options)
            except TypeError:
                data = packer.pack_otherwise(record)
            output = outputs[select(record)]
            builder = output.builder
            remaining = builder.remaining - len(data)
            if remaining < 0:
                await self._append(output, data)
            else:
                builder.remaining = remaining
                write = builder.write
                write(data)
                builder.records += 1
                self._records_out += 1
        if data:
            self._blocks.observe(len(data))

    async def _emit_blocks(self, output: Output, records: list[Any]) -> None:
        """Write records to one output, as many at once as fit what is left of a buffer."""
        blocks = self._blocks
        start, end = 0, len(records)
        while start < end:
            builder = output.builder
            room = builder.remaining
            count = min(blocks.records_in(room), end - start)
            if count > 1:
                part = records[start : start + count]
                try:
                    block = blocks.pack(part)
                except SerializationError:  # one of them; or, packed alone, none
                    count = 0
                else:
                    if len(block) > room:
                        continue
                    builder.remaining = room - len(block)
                    builder.write(block)
                    builder.records += count
                    self._records_out += count
            if count <= 1:
                count = 1 if blocks.worthwhile else _LARGE_RECORDS
                await self._emit_each(records[start : start + count], _the_only, (output,))
            start += count

    async def _emit_large(self, output: Output, head: bytes, content: bytes | memoryview) -> None:
        """Write a record in two pieces, which are copied nowhere but into the buffer."""
        builder = output.builder
        remaining = builder.remaining - len(head) - len(content)
        if remaining < 0:
            await self._append(output, content, head)
        else:
            builder.remaining = remaining
            builder.write(head)
            builder.write(content)
            builder.records += 1
            self._records_out += 1

    # -- per buffer -------------------------------------------------------------------------------

    async def _append(self, output: Output, data: bytes | memoryview, head: bytes = b"") -> None:
        """Write a record that does not fit the open builder of an output.

        ``head`` are its first bytes, if ``data`` is only its content.
        """
        size = len(head) + len(data)
        if size > self._unlimited_bytes:
            self._check_limits(data, head)
        appender = self._appender
        while appender.slow_path.busy:
            await appender.slow_path.until_free()
        if self._finished or appender.torn:
            self._check_writable()
        if output is not self._broadcast and not self._broadcast.builder.sealed:
            self._broadcast.seal()
        filled, opened = output.builder, appender.buffers_opened
        waiting = appender.append(output, data, head)
        if waiting is not None:
            await waiting
        self._records_out += 1
        self._ask_for_flush(output)
        opened = appender.buffers_opened - opened
        if output.target.released or self._turn.is_over(opened, filled.records):
            await yield_to_loop()

    def _check_uncounted(self, data: bytes) -> None:
        if len(data) > COUNTED_FROM_BYTES:
            self._check_limits(data, b"")

    def _check_limits(self, data: bytes | memoryview, head: bytes) -> None:
        check_limits(
            data, self._record_bytes_max, self._record_elements_max, head, self._record_keys_max
        )

    def _check_writable(self) -> None:
        if self._finished:
            raise LocalProtocolError(
                f"a record was emitted to partition {self.partition.partition_id} after its "
                f"end: after finish, fail or close"
            )
        if self._appender.torn:
            raise LocalProtocolError(
                f"the last record of partition {self.partition.partition_id} was cut off by a "
                f"cancellation: nothing can follow it"
            )

    # -- flushing ---------------------------------------------------------------------------------

    def _ask_for_flush(self, output: Output) -> None:
        is_first = not self._unflushed
        self._unflushed.add(output)
        if is_first and self.buffer_timeout_ms != -1:
            self._flusher.request_flush(self)

    def flush(self) -> None:
        """Let the consumers have everything written so far, full buffer or not."""
        unflushed, self._unflushed = self._unflushed, set()
        for output in unflushed:
            output.flush()

    # -- the end ----------------------------------------------------------------------------------

    @property
    def records_out(self) -> int:
        """Records emitted; a broadcast one counts once, a cut one with each of its parts."""
        records = self._records_out
        for count in self._counts:
            records += count()
        return records

    @property
    def progress(self) -> int:
        """A number that changes whenever the writer gets on; the adaptive flusher watches it."""
        return self.records_out + self._appender.buffers_opened

    @property
    def buffers_opened(self) -> int:
        """Buffers that records were begun or continued in, each part that a reader has taken before
        it was full counting as one."""
        return self._appender.buffers_opened

    @property
    def bytes_out(self) -> int:
        """Bytes that readers have taken, over all subpartitions."""
        return sum(part.statistics().bytes_out for part in self.partition.subpartitions)

    async def finish(self) -> None:
        """End the data and the partition; returns when every consumer has processed and read all
        of it.

        Raises what ``emit`` raises if the consumers are gone before that, LocalProtocolError after
        a torn record. Idempotent; one that was cancelled can be taken up again.
        """
        partition = self.partition
        if self._finished and partition.released:
            return
        self.partition.check_writable()
        if not self._finished:
            self._check_writable()
            self._finished = True
        partition.notify_end_of_data()
        while not partition.all_data_processed.available:
            await self._wait(partition.all_data_processed, WaitReason.IDLE)
        if not partition.finished:
            self.partition.check_writable()
            partition.finish()
        while not partition.all_consumed.available:
            await self._wait(partition.all_consumed, WaitReason.IDLE)
        if partition.lost is not None:
            raise partition.lost

    def fail(self, cause: BaseException) -> None:
        """The producing task failed: every consumer gets the cause as ProducerFailedError."""
        self._finished = True
        self.partition.fail(cause)

    def close(self) -> None:
        """Release the partition unless it is finished and still being read; idempotent."""
        self._finished = True
        self.partition.close()
