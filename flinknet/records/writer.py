"""The record writer: what a producing task emits records with.

Theory of operation (Flink's RecordWriter over BufferWritingResultPartition). For every
subpartition the writer knows the builder it last opened. Emitting serialises the record, chooses
the subpartition and appends, which is all as long as the bytes fit. When they do not (the builder
is full, or a reader has sealed it meanwhile) the slow path opens a new builder, and that is where
everything per buffer happens: waiting for memory, noticing that the consumers are gone, asking for
a flush, and yielding to the event loop.

*Backpressure*: a record is begun only while the partition's pool is available (soft), so that a
subpartition over its quota stops the writer between records; in the middle of a record any buffer
will do (hard). Waiting is all that ``emit`` ever does besides, so ``await emit()`` *is* the
backpressure.

*Cancellation*: a cancelled ``emit`` has written the record entirely or not at all, except for a
record longer than a buffer, which may be cut: the writer then refuses further records (they would
continue a torn one).

*Flushing*: with timeout -1 nothing is asked for; 0 flushes as soon as something stands in a new
builder, so it leaves with the loop turn; a positive timeout and "adaptive" tell the flusher, once
per new builder.

A record of at most 1/16 of a buffer is never cut: it starts the next buffer instead, so that most
buffers end with a record and the consumer can take them apart at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from flinknet.buffer.availability import Wait, WaitReason
from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.config import BufferTimeout
from flinknet.errors import (
    ClosedResourceError,
    ConsumerCancelledError,
    LocalProtocolError,
    SerializationError,
)
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.elements import check_elements
from flinknet.records.loop_turn import LoopTurn, yield_to_loop
from flinknet.records.partitioner import ForwardPartitioner, Partitioner
from flinknet.records.serializer import PACK_ERRORS, explain_unserializable, record_packer
from flinknet.records.slow_path import SlowPath

__all__ = ["OutputFlusher", "RecordWriter"]

_UNCUT_SHARE = 16


class OutputFlusher(Protocol):
    """Who calls ``flush`` after the buffer timeout; the shell owns the clock."""

    def request_flush(self, writer: RecordWriter) -> None:
        """Something stands in a builder that was empty before."""


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
        self.buffers_opened = 0
        self._records_out = 0
        self._wait = wait
        self._flusher = flusher
        self._record_bytes_max = record_bytes_max
        self._record_elements_max = record_elements_max
        self._select = self.partitioner.select
        self._pack = record_packer()
        self._builders: list[BufferBuilder] = [NO_BUILDER] * channels  # type: ignore[list-item]
        self._broadcast_builder: BufferBuilder = NO_BUILDER  # type: ignore[assignment]
        self._unflushed: set[int] = set()
        self._torn = False
        self._finished = False
        self._turn = LoopTurn()
        self._slow_path = SlowPath(wait)
        if self.partitioner.is_broadcast:
            self.emit = self.broadcast_emit  # type: ignore[method-assign]

    # -- emitting ---------------------------------------------------------------------------------

    async def emit(self, record: Any) -> None:
        """Write one record, waiting for memory if there is none.

        Raises SerializationError (nothing was written), ConsumerCancelledError or the cause with
        which the consumers were lost, LocalProtocolError after ``finish``.
        """
        try:
            data = self._pack(record)
        except PACK_ERRORS as cause:
            raise explain_unserializable(record, cause) from cause
        index = self._select(record)
        builder = self._builders[index]
        remaining = builder.remaining - len(data)
        if remaining < 0:
            await self._append(index, data)
        else:
            builder.remaining = remaining
            builder.write(data)
            self._records_out += 1

    async def emit_many(self, records: Iterable[Any]) -> None:
        """Write many records: the same as ``emit`` for each, at less cost."""
        if self.partitioner.is_broadcast:
            for record in records:
                await self.broadcast_emit(record)
            return
        pack, select, builders = self._pack, self._select, self._builders
        count = 0
        record = None
        try:
            for record in records:
                data = pack(record)
                index = select(record)
                builder = builders[index]
                remaining = builder.remaining - len(data)
                if remaining < 0:
                    self._records_out += count
                    count = 0
                    await self._append(index, data)
                else:
                    builder.remaining = remaining
                    builder.write(data)
                    count += 1
        except PACK_ERRORS as cause:
            self._raise_if_unserializable(record, cause)
            raise
        finally:
            self._records_out += count

    async def broadcast_emit(self, record: Any) -> None:
        """Write one record to every subpartition; it is serialised once, into shared buffers."""
        try:
            data = self._pack(record)
        except PACK_ERRORS as cause:
            raise explain_unserializable(record, cause) from cause
        builder = self._broadcast_builder
        remaining = builder.remaining - len(data)
        if remaining < 0:
            await self._append_broadcast(data)
        else:
            builder.remaining = remaining
            builder.write(data)
            self._records_out += 1

    # -- per buffer -------------------------------------------------------------------------------

    async def _append(self, index: int, data: bytes) -> None:
        """Write a record that does not fit the open builder of a subpartition."""
        self._check_size(data)
        async with self._slow_path:
            self._check_writable()
            subpartition = self.partition.subpartitions[index]
            if not self._broadcast_builder.sealed:
                self._seal_all()
            if len(data) > self._builders[index].remaining:
                await self._wait_to_begin()
            rest = self._fill_up(self._builders[index], data)
            if not rest:
                self._records_out += 1
                return
            subpartition.seal_open()
            while rest:
                self._check_consumers()
                if subpartition.released:
                    break
                builder = self.partition.request_builder(index)
                if builder is None:
                    await self._wait_to_go_on()
                    continue
                self._builders[index] = builder
                rest = self._fill(builder, rest)
                if rest:
                    subpartition.seal_open()
            self._torn = False
            self._records_out += 1
        self._ask_for_flush(index)
        if subpartition.released or self._turn.is_over(self.buffers_opened, len(data)):
            await yield_to_loop()

    async def _append_broadcast(self, data: bytes) -> None:
        """Write a record that does not fit the open broadcast builder."""
        self._check_size(data)
        async with self._slow_path:
            self._check_writable()
            if len(data) > self._broadcast_builder.remaining:
                await self._wait_to_begin()
            rest = self._fill_up(self._broadcast_builder, data)
            if not rest:
                self._records_out += 1
                return
            self._seal_all()
            while rest:
                self._check_consumers()
                builder = self.partition.request_broadcast_builder()
                if builder is None:
                    await self._wait_to_go_on()
                    continue
                self._broadcast_builder = builder
                rest = self._fill(builder, rest)
                if rest:
                    self._seal_all()
            self._torn = False
            self._records_out += 1
        for index in range(len(self._builders)):
            self._ask_for_flush(index)
        if self._turn.is_over(self.buffers_opened, len(data)):
            await yield_to_loop()

    def _fill_up(self, builder: BufferBuilder, data: bytes) -> memoryview:
        """Use what is left of an open builder, for a record that may be cut; return the rest."""
        rest = memoryview(data)
        size = len(data)
        if builder.sealed or builder.remaining < size <= builder.capacity // _UNCUT_SHARE:
            return rest
        rest = rest[builder.append(rest) :]
        self._torn = 0 < len(rest) < size
        return rest

    def _fill(self, builder: BufferBuilder, rest: memoryview) -> memoryview:
        """Write to a new builder and return what did not fit."""
        self.buffers_opened += 1
        if len(rest) > builder.remaining:
            builder.expand(len(rest))
        rest = rest[builder.append(rest, continues=self._torn) :]
        self._torn = bool(rest)
        return rest

    async def _wait_to_begin(self) -> None:
        """Hold a record back until the pool is available and a buffer certain: a record no longer
        than that is then written without another wait, whole or not at all."""
        self._check_consumers()
        while not self.partition.availability.available:
            await self._wait(self.partition.availability, WaitReason.SOFT_BACKPRESSURE)
            self._check_consumers()

    async def _wait_to_go_on(self) -> None:
        """Wait in the middle of a record, for any buffer."""
        await self._wait(self.partition.availability, WaitReason.HARD_BACKPRESSURE)

    def _check_size(self, data: bytes) -> None:
        if len(data) > self._record_bytes_max:
            raise SerializationError(
                f"a record has {len(data)} bytes when serialised; the limit is "
                f"{self._record_bytes_max} "
                f"(record_bytes_max)"
            )
        if len(data) > self._record_elements_max:
            try:
                check_elements(data, self._record_elements_max)
            except ValueError as cause:
                raise SerializationError(
                    f"a record cannot be written: {cause} (record_elements_max)"
                ) from cause

    def _check_writable(self) -> None:
        if self._finished:
            raise LocalProtocolError(
                f"a record was emitted to partition {self.partition.partition_id} after its "
                f"end: after finish, fail or close"
            )
        if self._torn:
            raise LocalProtocolError(
                f"the last record of partition {self.partition.partition_id} was cut off by a "
                f"cancellation: nothing can follow it"
            )

    def _check_consumers(self) -> None:
        partition = self.partition
        if partition.closed:
            raise ClosedResourceError(f"partition {partition.partition_id} has been closed")
        if partition.failure is not None:
            raise partition.failure
        if partition.lost is not None:
            raise partition.lost
        if partition.released:
            raise ClosedResourceError(f"partition {partition.partition_id} has been closed")
        if partition.cancelled:
            raise ConsumerCancelledError(
                f"every consumer of partition {partition.partition_id} has gone away before its end"
            )

    def _raise_if_unserializable(self, record: Any, cause: Exception) -> None:
        """Tell the packer's refusal from an error of the iterable or of the partitioner."""
        try:
            self._pack(record)
        except PACK_ERRORS:
            raise explain_unserializable(record, cause) from cause

    def _seal_all(self) -> None:
        for subpartition in self.partition.subpartitions:
            subpartition.seal_open()

    # -- flushing ---------------------------------------------------------------------------------

    def _ask_for_flush(self, index: int) -> None:
        if self.buffer_timeout_ms == 0:
            self.partition.flush(index)
            return
        if not self._unflushed and self.buffer_timeout_ms != -1:
            self._flusher.request_flush(self)
        self._unflushed.add(index)

    def flush(self) -> None:
        """Let the consumers have everything written so far, full buffer or not."""
        unflushed, self._unflushed = self._unflushed, set()
        for index in unflushed:
            self.partition.flush(index)

    # -- the end ----------------------------------------------------------------------------------

    @property
    def records_out(self) -> int:
        """Records emitted; a broadcast one counts once."""
        return self._records_out

    @property
    def progress(self) -> int:
        """A number that changes whenever the writer gets on; the adaptive flusher watches it."""
        return self._records_out + self.buffers_opened

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
        self._check_consumers()
        if not self._finished:
            self._check_writable()
            self._finished = True
        partition.notify_end_of_data()
        while not partition.all_data_processed.available:
            await self._wait(partition.all_data_processed, WaitReason.IDLE)
        if not partition.finished:
            self._check_consumers()
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
