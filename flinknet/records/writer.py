# cython: binding=False
"""The record writer: what a producing task emits records with.

Theory of operation (Flink's RecordWriter over BufferWritingResultPartition). For every
subpartition the writer knows the builder it last opened (``output.py``). Emitting serialises the
record, chooses the subpartition and appends, which is all as long as the bytes fit: that is the
writer's *route* (``route.py``). When they do not (the builder is full, or a reader has taken from
it meanwhile) the appender goes on or opens a new one (``appender.py``), and that is where
everything per buffer happens.

*Backpressure*: a record is begun only while the partition's pool is available (soft), so that a
subpartition over its quota stops the writer between records; in the middle of a record any buffer
will do (hard). Waiting is all that ``emit`` ever does besides, so ``await emit()`` *is* the
backpressure.

*Cancellation*: a cancelled ``emit`` has written the record entirely or not at all, except for a
record longer than a buffer, which may be cut: the writer then refuses further records (they would
continue a torn one).

*Events* stand between records: one that is written while a record is in progress waits for its end,
like another record. It ends the open buffers, so that it, and all before it, can be read at once.

*Flushing*: with timeout -1 nothing is asked for; otherwise the flusher is told when something
stands in a new builder, or behind what a reader has taken, and nothing did before. With timeout 0
it flushes at once.
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
from flinknet.records.direct_route import DirectRouteToChosen, DirectRouteToOne
from flinknet.records.output import BroadcastOutput, SubpartitionOutput
from flinknet.records.partitioner import ForwardPartitioner, Partitioner
from flinknet.records.route import CutRoute, RecordRoute, Write
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import CheckedRecordPacker, RecordPacker
from flinknet.records.serialization.record_types import Registered
from flinknet.wire.events import Event, is_announcement

__all__ = ["OutputFlusher", "RecordWriter"]


_ENDS = (DataType.END_OF_DATA, DataType.END_OF_PARTITION)


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
        remembered_keys_bytes: what the keys whose channel the partitioner remembers may take.
        types: the classes whose objects may be in records.
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
                f"partition {partition.partition_id} has {channels}: make one for each writer"
            )
        self.partitioner.observe(partition.subpartitions)
        self.partitioner.remember_at_most(remembered_keys_bytes)
        self.buffer_timeout_ms = buffer_timeout_ms
        self._wait = wait
        self._flusher = flusher
        limits = RecordLimits(record_bytes_max, record_elements_max, record_keys_max)
        fits_unchecked = partition.subpartitions[0].buffer_bytes <= COUNTED_FROM_BYTES
        packer = RecordPacker(types) if fits_unchecked else CheckedRecordPacker(types, limits)
        broadcast = BroadcastOutput(partition)
        self._appender = appender = RecordAppender(
            partition, broadcast, wait, limits, self._request_flush
        )
        broadcast_route = DirectRouteToOne(packer, appender, limits, broadcast)
        outputs = [SubpartitionOutput(partition, index) for index in range(channels)]
        route: RecordRoute
        if self.partitioner.is_broadcast:
            route = broadcast_route
        elif self.partitioner.cuts_records:
            route = CutRoute(packer, appender, limits, outputs, self.partitioner)
        elif self.partitioner.selects_first:
            route = DirectRouteToOne(packer, appender, limits, outputs[0])
        else:
            route = DirectRouteToChosen(packer, appender, limits, outputs, self.partitioner)
        self._route, self._broadcast_route = route, broadcast_route
        if not COMPILED:
            # A method that calls the route's would be a call more; compiled, it is the quickest to
            # look up, and calls the route in C.
            self.emit = route.emit  # type: ignore[method-assign]
            self.broadcast_emit = broadcast_route.emit  # type: ignore[method-assign]

    # -- emitting ---------------------------------------------------------------------------------

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """``await emit(record)`` writes one record, waiting for memory if there is none. The record
        is serialised by the call, and mostly written by it, whenever what it returns is awaited.
        That gives the event loop no turn while there is room in the open buffers, which with many
        channels is much: a task that awaits nothing else does so itself (``await
        asyncio.sleep(0)``) every few thousand records, or no buffer timeout is kept meanwhile.

        Raises SerializationError (nothing was written), ConsumerCancelledError or the cause with
        which the consumers were lost, LocalProtocolError after ``finish``.

        If the partitioner cuts a record, its parts are records of their own: ``records_out`` counts
        them, and a cancellation leaves some of them written and some not, each like any record.
        Nothing of it is written before what ``emit`` returns is awaited.
        """
        return self._route.emit(record)

    def broadcast_emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """The same as ``emit`` for every subpartition; the record is serialised once, into shared
        buffers."""
        return self._broadcast_route.emit(record)

    def emit_many(self, records: Iterable[Any]) -> Coroutine[Any, Any, None]:
        """Write many records: the same as ``emit`` for each, at a fraction of the cost.

        Nothing is written before what this returns is awaited. The order within a subpartition is
        that of the records. After an error or a cancellation some of them are written and some are
        not. A list must not be changed meanwhile.
        """
        return self._route.emit_many(records)

    def pack(self, records: Iterable[Any]) -> Iterable[Write]:
        """Serialise many records, and choose their subpartitions, for the event loop to write them:
        ``for packed in pack(records): await packed.write()`` is ``emit_many``.

        Any thread may iterate over this, while no other call is under way. Raises
        SerializationError, or the partitioner's own error; the records before may be written.
        """
        return self._route.pack(records)

    # -- events -----------------------------------------------------------------------------------

    async def broadcast_event(self, event: Event) -> None:
        """Write an event behind everything that is written, in every subpartition; one with
        priority in front of what is not read yet (Flink's RecordWriter.broadcastEvent).

        It waits for a record in progress, and while a reader leaves as many events unread as may be
        (``wire.events_per_channel_max``), but not for memory. Of watermarks, statuses and cancel
        markers that wait to be read, one that the new one says better is not sent. Raises
        ConsumerCancelledError or the cause with which the consumers were lost; LocalProtocolError
        after a torn record, after the end of the partition, for the ends themselves, which
        ``finish`` writes, for an announcement, which the receiver makes, and for an event that is
        too long. A cancelled call has written nothing.
        """
        await self._until_event_can_be_written(event)
        self.partition.broadcast_event(*event)

    async def emit_event(self, event: Event, index: int) -> None:
        """The same in one subpartition."""
        await self._until_event_can_be_written(event, index)
        self._appender.seal_broadcast()
        self.partition.emit_event(*event, index)

    async def _until_event_can_be_written(self, event: Event, index: int | None = None) -> None:
        if not event.data_type.is_event or event.data_type in _ENDS:
            raise LocalProtocolError(
                f"{event.data_type.name} is no event to write: the records are data, and finish "
                f"writes their end"
            )
        if is_announcement(event):
            raise LocalProtocolError(
                "an announcement never travels: write the barrier itself, and the receiver "
                "announces it"
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
        """Let the consumers have everything written so far, full buffer or not."""
        appender = self._appender
        unflushed, appender.unflushed = appender.unflushed, set()
        for output in unflushed:
            output.flush()

    # -- the end ----------------------------------------------------------------------------------

    @property
    def records_out(self) -> int:
        """Records emitted; a broadcast one counts once, a cut one with each of its parts."""
        records = self._appender.records_out + self._route.records_out
        if self._broadcast_route is not self._route:
            records += self._broadcast_route.records_out
        return records

    @property
    def progress(self) -> int:
        """A number that changes whenever the writer gets on; the adaptive flusher watches it."""
        return self.records_out + self.buffers_opened

    @property
    def buffers_opened(self) -> int:
        """Buffers that records were begun or continued in, each part that a reader has taken before
        it was full counting as one."""
        return self._appender.builders_opened + self._appender.builders_resumed

    @property
    def bytes_out(self) -> int:
        """Bytes that readers have taken, over all subpartitions."""
        return sum(part.bytes_out for part in self.partition.subpartitions)

    async def finish(self) -> None:
        """End the data and the partition; returns when every consumer has processed and read all
        of it.

        Raises what ``emit`` raises if the consumers are gone before that, LocalProtocolError after
        a torn record. Idempotent; one that was cancelled can be taken up again.
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
        """The producing task failed: every consumer gets the cause as ProducerFailedError."""
        self._appender.ended = True
        self.partition.fail(cause)

    def close(self) -> None:
        """Release the partition unless it is finished and still being read; idempotent."""
        self._appender.ended = True
        self.partition.close()
