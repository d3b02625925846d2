"""The record reader: what a consuming task reads records with.

Theory of operation (Flink's StreamTaskNetworkInput). The reader polls its gate for one buffer at a
time, feeds it to the channel's deserializer and hands out the records; the buffer, and with it the
channel's credit, goes back only when more is asked for, that is, when the task has processed
everything in it. An iteration may unpack a buffer's records one by one: where bytes are no record,
those in front of them may have been handed out. The end of data of a channel is acknowledged at the
same moment. Records that span buffers are in the deserializers meanwhile, which drop
them when the gate is released, whoever does that.

*Events* are handed to the task's handler where they stand, between two batches: everything before
them on their channel has been processed. Only one with priority can come inside a record, whose
bytes so far are ``unconsumed`` then.

There is one iterator over records, so that an iteration that was left can go on: what it has not
handed out of its batch comes next, as records or as a batch. An asynchronous generator would cost
the consumer a sixth more for every record, and lose the rest of the batch.

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
"""A buffer of so many takes longer than a message to the producer and its answer."""


class RecordBatch:
    """The records of one buffer, in order, to be processed before the next batch is asked for.

    ``channel`` is the index of the location it came from, ``size_bytes`` the serialised size.
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
    """A batch that a reader has begun beside the present one, and its records, which are taken as
    those that are ``arrived``."""

    __slots__ = ("_buffer", "_iterator", "arrived", "channel")

    def __init__(self, channel: int, iterator: RecordIterator, buffer: Buffer) -> None:
        self.channel = channel
        self.arrived = ArrivedRecords(iterator)
        self._iterator = iterator
        self._buffer = buffer

    def end(self) -> None:
        """Drop what is left, and return the buffer."""
        self._iterator.drop()
        self._buffer.recycle()


class EventHandler(Protocol):
    """What a task does with the events among its records (Flink's CheckpointedInputGate)."""

    def on_event(self, channel: int, event: Event) -> bool | None:
        """An event came, the ends of a channel included; what it raises, the reading raises.

        True if the task has something to do before more is read: it gets an empty batch then.

        Who handles a blocking event has the channel go on: ``resume_consumption`` of
        ``reader.gate.channels[channel]``, now or later.
        """


class RecordReader:
    """Reads the records of a gate's channels, each channel in order.

    ``arrived`` are those of the batch that was begun last and have not been taken, ``channel`` is
    the index of the location that it came from.

    Args:
        gate: the input gate; released by ``close``.
        wait: suspends until an Availability is available; made by the shell.
        unpacker: unpacks the records of all channels.
        memory: where records that span buffers are put together.
        event_handler: gets the events. Without one, those that block their channel are refused,
            since nobody would resume it, and others are skipped.
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
        """What comes next, if that was looked at."""
        self._records = RecordIterator(self._next_of_another_buffer)
        self.arrived = ArrivedRecords(self._records)
        self._others: list[OtherBatch] = []
        """Batches that were begun together with the present one."""
        self.fail_gate: Callable[[Exception], object] = gate.fail
        """Called where records cannot be unpacked, in the thread that asks for them."""
        self._budget = CooperativeBudget()
        self._budget_is_spent = False
        self._is_slow = False
        gate.when_released(lambda _: self._drop_unfinished_records())

    async def next_batch(self) -> RecordBatch | None:
        """Return the next batch, None at the end of all channels; after an iteration over records
        what that has left of its batch, with the size of all of it. A batch is empty if the event
        handler has asked for the task's turn.

        See ``begin_batch``.
        """
        if await self.begin_batch() is None:
            return None
        size = 0 if self._current is None else self._current.size
        return RecordBatch(self.arrived.take_all(), self.channel, size)

    async def begin_batch(self) -> int | None:
        """Begin the next batch, whose records are then to be taken from ``arrived``; if some are
        left of the last one, go on with that. Return how many there are, None at the end of all
        channels. ``channel`` says where they come from.

        The buffer of the batch before is returned: its records count as processed. Raises the first
        error of a channel (ProducerFailedError, RemoteTransportError, ...), SerializationError for
        bytes that are no record, which may also be raised where they are taken, and
        ClosedResourceError after ``close``.
        """
        if left := length_hint(self.arrived):
            return left
        self._records.drop()  # so that the next ones can take their memory
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
        """Begin the next batch beside the present one, if it has come and no event is in front of
        it; None otherwise. A task calls this to process several batches together. Their buffers are
        returned together.

        Raises what ``begin_batch`` does for a buffer."""
        if self._polled is None:
            self._polled = self.gate.poll()
        if self._polled is None or self._polled[1].data_type.is_event:
            return None
        (channel, buffer), self._polled = self._polled, None
        iterator = RecordIterator(self._next_of_another_buffer)
        other = OtherBatch(channel, iterator, buffer)
        self._others.append(other)
        self._begin_records(channel, buffer, iterator)
        return other

    async def batches(self) -> AsyncIterator[RecordBatch]:
        """Iterate over batches until the end of all channels."""
        while (batch := await self.next_batch()) is not None:
            yield batch

    def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over records until the end of all channels, from where one has left off."""
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
        """Hand the events that have priority to the handler, in the middle of a batch: a task may
        call this where it can be interrupted, and they need not wait for the next batch.

        Raises what ``next_batch`` does for them."""
        gate = self.gate
        while gate.priority_availability.available and (polled := gate.poll()) is not None:
            index, buffer = polled
            assert buffer.data_type.has_priority, "what is in front of a gate has priority"
            self._on_event(index, buffer)

    def unconsumed(self, channel: int) -> Iterator[bytes]:
        """The bytes of a record of which not all has come, as the state of an overtaken channel; to
        be iterated before the next batch is asked for. Raises SerializationError if the disk
        refuses."""
        return self._deserializers[channel].unconsumed()

    def restore(self, channel: int, pieces: Iterable[bytes]) -> None:
        """Begin a channel, before anything was read from it, with what ``unconsumed`` gave.

        Raises LocalProtocolError inside a record, ValueError if it is too long for one, and
        SerializationError if the disk refuses."""
        self._deserializers[channel].restore(pieces)

    def close(self) -> None:
        """Cancel what is not read yet and give every buffer back; idempotent."""
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
        """A channel's bytes have become no records, which are lost: the gate fails."""
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
                    f"{channel} delivered {data_type.name}, which nobody here would resume"
                )
        elif inside_record and not data_type.has_priority:
            self._refuse(f"{channel} delivered {data_type.name} inside a record")
        has_work = None
        if handler is not None:
            has_work = handler.on_event(index, Event(data_type, body))
        if data_type is _END_OF_DATA:
            self.gate.acknowledge(index)
        return has_work

    def _refuse(self, reason: str) -> NoReturn:
        error = RemoteProtocolError(reason)
        self.gate.fail(error)
        raise error
