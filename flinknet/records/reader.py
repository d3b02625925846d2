"""Record reader of a consuming task (Flink's StreamTaskNetworkInput).

Theory of operation. The reader polls its gate for one buffer at a time, feeds the buffer to the
channel's deserializer, and returns the records. The buffer, and with it the channel's credit, is
returned only when more records are requested: the task has then processed the whole buffer. An
iteration may unpack the records of a buffer one by one, so it may have returned some records before
it finds invalid bytes. The deserializers hold the unfinished records that span buffers. They drop
them when the gate is released, by the reader or by another component.

*Events* are passed to the task's handler at their position, between two batches: all earlier
records of their channel have been processed. Only a priority event can arrive inside a record; the
record's bytes so far are then ``unconsumed``.

The reader has a single iterator over records, so that an interrupted iteration can continue: the
remaining records of its batch come next, as records or as a batch. An asynchronous generator would
cost the consumer a sixth more per record, and lose the rest of the batch.

One task reads at a time. Cancelling a waiting read loses nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from functools import partial
from operator import length_hint
from typing import Any, NoReturn, Protocol

from flinknet.buffer.availability import Wait, WaitReason
from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.segment import ARRAY_HEADER_BYTES
from flinknet.consumer.gate import Gate
from flinknet.errors import RemoteProtocolError, SerializationError
from flinknet.records.cooperative_budget import CooperativeBudget, yield_to_loop
from flinknet.records.record_iterator import ArrivedRecords, RecordIterator
from flinknet.records.serialization.serializer import (
    UNPACK_ERRORS,
    RecordDeserializer,
    RecordUnpacker,
)
from flinknet.records.serialization.spanning_record import ReassemblyMemory
from flinknet.wire.events import Event

__all__ = ["EventHandler", "RecordBatch", "RecordReader"]

_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_END_OF_DATA = DataType.END_OF_DATA
_IDLE = WaitReason.IDLE
_MANY_RECORDS = 64
"""A buffer of so many records takes longer to process than a round trip to the producer."""


class RecordBatch:
    """The records of one buffer, in order; process them before requesting the next batch.

    ``channel`` is the index of the channel they came from, ``size_bytes`` their serialised size.
    """

    __slots__ = ("channel", "records", "size_bytes")

    def __init__(self, records: tuple[Any, ...], channel: int, size_bytes: int) -> None:
        self.records = records
        self.channel = channel
        self.size_bytes = size_bytes

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


class OtherBatch:
    """Batch that a reader has begun beside the current one; its records are in ``arrived``."""

    __slots__ = ("_buffer", "_iterator", "arrived", "channel")

    def __init__(self, channel: int, iterator: RecordIterator, buffer: Buffer) -> None:
        self.channel = channel
        self.arrived = ArrivedRecords(iterator)
        self._iterator = iterator
        self._buffer = buffer

    def end(self) -> None:
        """Drop the remaining records, and return the buffer."""
        self._iterator.drop()
        self._buffer.recycle()


class EventHandler(Protocol):
    """Handler of the events of a task's inputs (Flink's CheckpointedInputGate)."""

    def on_event(self, channel: int, event: Event) -> bool | None:
        """Handle an event of a channel, including the end of its data.

        Return True if the task must run before the reader continues; it then receives an empty
        batch. An error of the handler is raised by the read.

        After a blocking event, the handler must resume the channel, at once or later, with
        ``resume_consumption`` of ``reader.gate.channels[channel]``.
        """


class RecordReader:
    """Reader of the records of a gate's channels, each channel in order.

    ``arrived`` holds the records of the latest batch that have not been taken. ``channel`` is the
    index of the channel of that batch.

    Args:
        gate: The input gate; ``close`` releases it.
        wait: Suspends until an Availability is available; provided by the shell.
        unpacker: Unpacks the records of all channels.
        memory: Memory in which records that span buffers are reassembled.
        event_handler: Receives the events. Without a handler, an event that blocks its channel is
            refused, because no component would resume the channel; other events are skipped.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        wait: Wait,
        unpacker: RecordUnpacker,
        memory: ReassemblyMemory,
        event_handler: EventHandler | None = None,
    ) -> None:
        self.gate = gate
        self.bytes_in = 0
        self.records_in = 0
        self._wait = wait
        self._deserializers = [RecordDeserializer(unpacker, memory) for _ in gate.channels]
        self._unpacker = unpacker
        self._event_handler = event_handler
        self.channel = 0
        self._current: Buffer | None = None
        self._polled: tuple[int, Buffer] | None = None
        """The next buffer and its channel, if they were polled ahead."""
        self._records = RecordIterator(self._next_of_another_buffer)
        self.arrived = ArrivedRecords(self._records)
        self._others: list[OtherBatch] = []
        """Batches that were begun together with the current one."""
        self.fail_gate: Callable[[Exception], object] = gate.fail
        """Called if records cannot be unpacked, in the thread that requests them."""
        self._budget = CooperativeBudget()
        self._budget_is_spent = False
        self._is_slow = False
        gate.when_released(lambda _: self._drop_unfinished_records())

    async def next_batch(self) -> RecordBatch | None:
        """Return the next batch; None at the end of all channels.

        After an iteration over records, return the rest of its batch, with the size of the whole
        batch. A batch is empty if the event handler has requested that the task runs. See
        ``begin_batch``.
        """
        if await self.begin_batch() is None:
            return None
        size = 0 if self._current is None else self._current.size
        return RecordBatch(self.arrived.take_all(), self.channel, size)

    async def begin_batch(self) -> int | None:
        """Begin the next batch, or continue the last one if it has records left.

        Return the number of records, to be taken from ``arrived``; None at the end of all channels.
        ``channel`` is then the index of their channel.

        The buffer of the last batch is returned: its records count as processed. Raises the first
        error of a channel (ProducerFailedError, RemoteTransportError, ...), SerializationError for
        invalid bytes, which may also be raised where records are taken, and ClosedResourceError
        after ``close``.
        """
        if left := length_hint(self.arrived):
            return left
        self._records.drop()  # so that the next records can reuse their memory
        if self._current is not None:
            self._return_buffers()
            if self._budget_is_spent:
                await yield_to_loop()
        gate = self.gate
        while True:
            polled, self._polled = self._polled, None
            if polled is None:
                polled = gate.poll()
            if polled is None:
                if gate.finished:
                    return None
                await self._wait(gate.availability, _IDLE)
                continue
            self.channel, buffer = polled
            data_type = buffer.data_type
            if data_type is _DATA_WITH_CLEAR_END or data_type is _DATA:
                return self._begin_buffer(buffer)
            if self._on_event(self.channel, buffer):
                return 0

    def begin_another_batch(self) -> OtherBatch | None:
        """Begin the next batch beside the current one, if it has arrived and no event precedes it.

        Return None otherwise. A task calls this to process several batches together; their buffers
        are returned together. Raises the same errors as ``begin_batch`` for a buffer.
        """
        if self._polled is None:
            self._polled = self.gate.poll()
        if self._polled is None or self._polled[1].data_type.is_event:
            return None
        (channel, buffer), self._polled = self._polled, None
        iterator = RecordIterator(self._next_of_another_buffer)
        other = OtherBatch(channel, iterator, buffer)
        # Before the records begin: if they are invalid, ``close`` returns the buffer.
        self._others.append(other)
        self._begin_records(channel, buffer, iterator)
        return other

    async def batches(self) -> AsyncIterator[RecordBatch]:
        """Iterate over batches until the end of all channels."""
        while (batch := await self.next_batch()) is not None:
            yield batch

    def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over records until the end of all channels, continuing an earlier iteration."""
        return self._records

    def __anext__(self) -> Coroutine[Any, Any, Any]:
        """Return the next record; see ``next_batch``."""
        return self._records.__anext__()

    async def _next_of_another_buffer(self) -> Any:
        while (records := await self.begin_batch()) is not None:
            if records:
                return next(self.arrived)
        raise StopAsyncIteration

    def take_priority_events(self) -> None:
        """Pass the pending priority events to the handler, in the middle of a batch.

        A task may call this where it can be interrupted, so that the events need not wait for the
        next batch. Raises the same errors as ``next_batch`` for them.
        """
        gate = self.gate
        while gate.priority_availability.available and (polled := gate.poll()) is not None:
            index, buffer = polled
            assert buffer.data_type.has_priority, "priority events of a gate come first"
            self._on_event(index, buffer)

    def unconsumed(self, channel: int) -> Iterator[bytes]:
        """Return the bytes so far of an incomplete record, as the state of an overtaken channel.

        Iterate over them before requesting the next batch. Raises SerializationError if the disk
        fails.
        """
        return self._deserializers[channel].unconsumed()

    def restore(self, channel: int, pieces: Iterable[bytes]) -> None:
        """Restore a channel from the pieces of ``unconsumed``, before anything was read from it.

        Raises LocalProtocolError inside a record, ValueError if the pieces are too long for a
        record, and SerializationError if the disk fails.
        """
        self._deserializers[channel].restore(pieces)

    def close(self) -> None:
        """Drop all unread records and return every buffer; idempotent."""
        self._records.drop()
        self._return_buffers()
        if self._polled is not None:
            self._polled[1].recycle()
            self._polled = None
        self.gate.release()

    def _begin_buffer(self, buffer: Buffer) -> int:
        self._current = buffer
        return self._begin_records(self.channel, buffer, self._records)

    def _begin_records(self, channel: int, buffer: Buffer, iterator: RecordIterator) -> int:
        self.bytes_in += buffer.size
        view = buffer.view_with_room()
        deserializer = self._deserializers[channel]
        clear_end = buffer.data_type is _DATA_WITH_CLEAR_END
        try:
            spanning = deserializer.spanning_record(
                view, buffer.continued, buffer.unfinished, clear_end
            )
        except Exception as error:
            view.release()
            self._fail_for(error, channel)
        iterator.have(
            view,
            ARRAY_HEADER_BYTES + buffer.continued,
            len(view) - buffer.unfinished,
            buffer.records,
            unpacked=spanning,
            length_max=self._unpacker.length_max,
            unpack=partial(self._unpack_whole, channel),
        )
        records = len(spanning) + buffer.records
        self._count(records)
        return records

    def _unpack_whole(
        self, channel: int, content: memoryview, start: int, end: int, number: int
    ) -> tuple[Any, ...]:
        try:
            return self._unpacker.whole_records(content, start, end, number)
        except Exception as error:
            self._fail_for(error, channel)

    def _fail_for(self, error: Exception, channel: int) -> NoReturn:
        """Fail the gate and raise the error: the records of a channel are lost."""
        if isinstance(error, UNPACK_ERRORS):
            failure = SerializationError(
                f"the bytes on {self.gate.channels[channel]} are not a record within the "
                f"limits (record_bytes_max, record_elements_max): {type(error).__name__}: {error}"
            )
            self.fail_gate(failure)
            raise failure from error
        self.fail_gate(error)
        raise error

    def _count(self, records: int) -> None:
        self.records_in += records
        self._budget_is_spent = self._budget.spend(1, records)
        if self._is_slow != (records >= _MANY_RECORDS):
            self._say_whether_slow()

    def _say_whether_slow(self) -> None:
        self._is_slow = not self._is_slow
        for gate in self.gate.gates:
            gate.reader_is_slow = self._is_slow

    def _return_buffers(self) -> None:
        buffer, self._current = self._current, None
        if buffer is not None:
            buffer.recycle()
        others, self._others = self._others, []
        for other in others:
            other.end()

    def _drop_unfinished_records(self) -> None:
        for deserializer in self._deserializers:
            deserializer.release()

    def _on_event(self, index: int, buffer: Buffer) -> bool | None:
        channel, data_type = self.gate.channels[index], buffer.data_type
        body = bytes(buffer.view())
        buffer.recycle()
        handler, inside_record = self._event_handler, self._deserializers[index].inside_record
        if data_type is _END_OF_DATA:
            if inside_record:
                self._refuse(f"{channel} ended inside a record")
        elif handler is None:
            if data_type.is_blocking_upstream:
                self._refuse(
                    f"{channel} delivered {data_type.name}, which this reader would never resume"
                )
        elif inside_record and not data_type.has_priority:
            # Only a priority event overtakes data, and may arrive between two pieces of a record.
            self._refuse(f"{channel} delivered {data_type.name} inside a record")
        has_work = None
        if handler is not None:
            has_work = handler.on_event(index, Event(data_type, body))
        if data_type is _END_OF_DATA:
            # More records were requested, so the task has processed all data of the channel.
            self.gate.acknowledge(index)
        return has_work

    def _refuse(self, reason: str) -> NoReturn:
        error = RemoteProtocolError(reason)
        self.gate.fail(error)
        raise error
