# cython: binding=False
"""Record writer: emits the records of a producing task.

Theory of operation (Flink's RecordWriter over BufferWritingResultPartition). The writer knows the
latest builder of every subpartition (``output.py``). Emitting serialises the record, chooses the
subpartition and appends the bytes. While the bytes fit, the writer's *route* does all of this
(``route.py``). If they do not fit, because the builder is full or a reader has taken from it, the
appender resumes the builder or opens a new one (``appender.py``), and does all work per buffer.

*Backpressure*: a record begins only while the partition's pool is available (soft), so a
subpartition over its quota stops the writer between records. In the middle of a record any buffer
will do (hard). ``emit`` waits for nothing else, so ``await emit()`` *is* the backpressure.

*Cancellation*: a cancelled ``emit`` has written the record entirely or not at all. The exception is
a record longer than a buffer, which may be cut. The writer then refuses further records, because
they would continue the torn one.

*Events* are written between records: an event waits for the end of a record in progress, as another
record does. It ends the open buffers, so that the event and all data before it can be read at once.

*Flushing*: with timeout -1, no flush is requested. Otherwise the flusher is notified when data
appears in a new builder, or after data that a reader has taken, while no other data is unflushed.
With timeout 0 the flusher flushes at once.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from flinknet.buffer.availability import Wait, WaitReason
from flinknet.buffer.buffer import DataType
from flinknet.compiled_modules import COMPILED
from flinknet.config import RECORD_KEYS_MAX, REMEMBERED_KEYS_BYTES, BufferTimeout
from flinknet.errors import LocalProtocolError
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.appender import RecordAppender
from flinknet.records.direct_route import DirectPartitionedRoute, DirectSingleOutputRoute
from flinknet.records.output import BroadcastOutput, SubpartitionOutput
from flinknet.records.partitioner import ForwardPartitioner, Partitioner
from flinknet.records.route import RecordRoute, SplittingRoute, Write
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import CheckedRecordPacker, RecordPacker
from flinknet.records.serialization.record_types import Registered
from flinknet.wire.events import Event, is_announcement

__all__ = ["OutputFlusher", "RecordWriter"]


_ENDS = (DataType.END_OF_DATA, DataType.END_OF_PARTITION)


class OutputFlusher(Protocol):
    """Caller of ``flush`` after the buffer timeout; the shell owns the clock."""

    def request_flush(self, writer: RecordWriter) -> None:
        """Schedule a flush: the writer has unflushed data, and had none before."""


class RecordWriter:
    """Writer of records to a result partition; one writer per partition.

    Args:
        partition: The destination of the records.
        partitioner: Chooses the subpartition; ForwardPartitioner for a single one by default.
        wait: Suspends until an Availability is available; provided by the shell.
        flusher: Called for a positive or adaptive buffer timeout.
        buffer_timeout_ms: -1, 0, a positive number or "adaptive".
        record_bytes_max: Larger records are refused.
        record_elements_max: Records with more elements are refused, as by the reader.
        record_keys_max: Records with more keys that could collide are refused, as by the reader.
        remembered_keys_bytes: Memory for the keys with channels that the partitioner remembers.
        types: The registered classes of the objects in records.
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
        remembered_keys_bytes: int = REMEMBERED_KEYS_BYTES,
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
                f"partition {partition.partition_id} has {channels}: create one for each writer"
            )
        self.partitioner.observe(partition.subpartitions)
        self.partitioner.remember_at_most(remembered_keys_bytes)
        self.buffer_timeout_ms = buffer_timeout_ms
        self._wait = wait
        self._flusher = flusher
        limits = RecordLimits(record_bytes_max, record_elements_max, record_keys_max)
        # The keys of a record that fits such a buffer are not counted. The appender checks the
        # records that do not fit.
        fits_unchecked = partition.subpartitions[0].buffer_bytes <= COUNTED_FROM_BYTES
        packer = RecordPacker(types) if fits_unchecked else CheckedRecordPacker(types, limits)
        broadcast = BroadcastOutput(partition)
        self._appender = appender = RecordAppender(
            partition, broadcast, wait, limits, self._request_flush
        )
        broadcast_route = DirectSingleOutputRoute(packer, appender, limits, broadcast)
        outputs = [SubpartitionOutput(partition, index) for index in range(channels)]
        route: RecordRoute
        if self.partitioner.is_broadcast:
            route = broadcast_route
        elif self.partitioner.cuts_records:
            route = SplittingRoute(packer, appender, limits, outputs, self.partitioner)
        elif self.partitioner.selects_first:
            route = DirectSingleOutputRoute(packer, appender, limits, outputs[0])
        else:
            route = DirectPartitionedRoute(packer, appender, limits, outputs, self.partitioner)
        self._route, self._broadcast_route = route, broadcast_route
        if not COMPILED:
            # A method that calls the route would add a call. The compiled method is the fastest to
            # look up, and calls the route in C.
            self.emit = route.emit  # type: ignore[method-assign]
            self.broadcast_emit = broadcast_route.emit  # type: ignore[method-assign]

    # -- emitting ---------------------------------------------------------------------------------

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write a record, waiting for memory if there is none.

        The call itself serialises the record and mostly also writes it; the result must be awaited.
        While the open buffers have room, the event loop gets no turn, and no buffer timeout is
        kept. A task that awaits nothing else must therefore yield itself (``await
        asyncio.sleep(0)``) every few thousand records. A writer that chooses among channels also
        yields after 4,096 records, or after 512 per channel if these are more.

        Raises SerializationError (nothing was written), ConsumerCancelledError or the cause of the
        loss of the consumers, and LocalProtocolError after ``finish``.

        If the partitioner splits a record, its parts are records of their own. ``records_out``
        counts the parts. A cancellation leaves some of them written and some not, each like any
        record. No part is written before the result of ``emit`` is awaited.
        """
        return self._route.emit(record)

    def broadcast_emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write a record to every subpartition, as ``emit`` does.

        The record is serialised once, into shared buffers.
        """
        return self._broadcast_route.emit(record)

    def emit_many(self, records: Iterable[Any]) -> Coroutine[Any, Any, None]:
        """Write many records, as ``emit`` would, in a fraction of the time.

        Nothing is written before the result is awaited. Each subpartition receives its records in
        order. After an error or a cancellation, some records are written and some are not. A list
        must not be changed meanwhile.
        """
        return self._route.emit_many(records)

    def pack(self, records: Iterable[Any]) -> Iterable[Write]:
        """Serialise many records and choose their subpartitions; the event loop writes them later.

        ``for packed in pack(records): await packed.write()`` equals ``emit_many``. Any thread may
        iterate over the result, while no other call is under way. Raises SerializationError, or an
        error of the partitioner; the records before the failing one may be written.
        """
        return self._route.pack(records)

    # -- events -----------------------------------------------------------------------------------

    async def broadcast_event(self, event: Event) -> None:
        """Write an event to every subpartition (Flink's RecordWriter.broadcastEvent).

        The event comes after all written data; a priority event comes before all unread data. The
        call waits for a record in progress, and while a reader leaves the maximum number of events
        unread (``wire.events_per_channel_max``), but not for memory. An unread watermark, status or
        cancel marker is dropped if the new event supersedes it.

        Raises ConsumerCancelledError or the cause of the loss of the consumers. Raises
        LocalProtocolError after a torn record and after the end of the partition. The same error
        refuses the end events, which ``finish`` writes, an announcement, which the receiver
        creates, and an event that is too long. A cancelled call has written nothing.
        """
        await self._until_event_can_be_written(event)
        self.partition.broadcast_event(*event)

    async def emit_event(self, event: Event, index: int) -> None:
        """Write an event to one subpartition, as ``broadcast_event`` does."""
        await self._until_event_can_be_written(event, index)
        self._appender.seal_broadcast()
        self.partition.emit_event(*event, index)

    async def _until_event_can_be_written(self, event: Event, index: int | None = None) -> None:
        if not event.data_type.is_event or event.data_type in _ENDS:
            raise LocalProtocolError(
                f"{event.data_type.name} cannot be written as an event: emit records as data, and "
                "call finish for their end"
            )
        if is_announcement(event):
            raise LocalProtocolError(
                "an announcement is never sent: write the barrier, and the receiver announces it"
            )
        partition = self.partition
        await self._appender.until_between_records()
        while not partition.has_room_for_event(index):
            partition.room_for_events.set(False)
            await self._wait(partition.room_for_events, WaitReason.SOFT_BACKPRESSURE)
            await self._appender.until_between_records()

    # -- flushing ---------------------------------------------------------------------------------

    def _request_flush(self) -> None:
        if self.buffer_timeout_ms != -1:
            self._flusher.request_flush(self)

    def flush(self) -> None:
        """Make all written data available to the consumers, also in partly filled buffers."""
        appender = self._appender
        unflushed, appender.unflushed = appender.unflushed, set()
        for output in unflushed:
            output.flush()

    # -- the end ----------------------------------------------------------------------------------

    @property
    def records_out(self) -> int:
        """Number of emitted records; a broadcast record counts once, a split one per part."""
        records = self._appender.records_out + self._route.records_out
        if self._broadcast_route is not self._route:
            records += self._broadcast_route.records_out
        return records

    @property
    def progress(self) -> int:
        """A number that changes with every progress; the adaptive flusher watches it."""
        return self.records_out + self.buffers_opened

    @property
    def buffers_opened(self) -> int:
        """Number of buffers that records were begun or continued in.

        A builder that was resumed after a reader had taken from it counts again.
        """
        return self._appender.builders_opened + self._appender.builders_resumed

    @property
    def bytes_out(self) -> int:
        """Number of bytes that readers have taken, over all subpartitions."""
        return sum(part.bytes_out for part in self.partition.subpartitions)

    async def finish(self) -> None:
        """End the data and the partition; return when every consumer has processed all data.

        Raises the errors of ``emit`` if the consumers are lost before that, and LocalProtocolError
        after a torn record. Idempotent; a cancelled call can be repeated.
        """
        partition = self.partition
        if self._appender.ended and partition.released:
            return
        partition.check_writable()
        if not self._appender.ended:
            self._appender.check_open()
            self._appender.ended = True
        partition.notify_end_of_data()
        while not partition.all_data_processed.available:
            await self._wait(partition.all_data_processed, WaitReason.IDLE)
        if not partition.finished:
            partition.check_writable()
            partition.finish()
        while not partition.all_consumed.available:
            await self._wait(partition.all_consumed, WaitReason.IDLE)
        if partition.lost is not None:
            raise partition.lost

    def fail(self, cause: BaseException) -> None:
        """Fail the partition: every consumer receives the cause as ProducerFailedError."""
        self._appender.ended = True
        self.partition.fail(cause)

    def close(self) -> None:
        """Release the partition unless it is finished and still being read; idempotent."""
        self._appender.ended = True
        self.partition.close()
