"""The record reader: what a consuming task reads records with.

Theory of operation (Flink's StreamTaskNetworkInput). The reader polls its gate for one buffer at a
time, feeds it to the channel's deserializer and hands out the records; the buffer, and with it the
channel's credit, goes back only when the next batch is asked for, that is, when the task has
processed everything in it. The end of data of a channel is acknowledged at the same moment.

One task reads at a time. Cancelling a waiting read loses nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgpack

from flinknet.buffer.availability import Availability
from flinknet.buffer.buffer import Buffer, DataType
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import RemoteProtocolError, SerializationError
from flinknet.records.serializer import RecordDeserializer, UnpackerPool
from flinknet.records.writer import yield_to_loop

__all__ = ["RecordBatch", "RecordReader"]


class RecordBatch:
    """The records of one buffer; iterate it once, before the next batch is asked for.

    ``channel`` is the index of the location it came from, ``size_bytes`` the serialised size.
    """

    __slots__ = ("_records", "channel", "size_bytes")

    def __init__(self, records: Iterator[Any], channel: int, size_bytes: int) -> None:
        self._records = records
        self.channel = channel
        self.size_bytes = size_bytes

    def __iter__(self) -> Iterator[Any]:
        return self._records


class RecordReader:
    """Reads the records of a gate's channels, each channel in order.

    Args:
        gate: the input gate; released by ``close``.
        wait: suspends until an Availability is available; made by the shell.
        unpackers: shared by the gate's channels.
    """

    def __init__(
        self, gate: InputGate, *, wait: Callable[[Availability], Any], unpackers: UnpackerPool
    ) -> None:
        self.gate = gate
        self.bytes_in = 0
        self._wait = wait
        self._deserializers = [RecordDeserializer(unpackers) for _ in gate.channels]
        self._current: tuple[int, Buffer, Iterator[Any]] | None = None

    async def next_batch(self) -> RecordBatch | None:
        """Return the next batch, None at the end of all channels.

        What is left of the batch before is skipped, its buffer is returned. Raises the first error
        of a channel (ProducerFailedError, RemoteTransportError, ...), SerializationError for bytes
        that are no record, ClosedResourceError after ``close``.
        """
        if self._current is not None:
            self._finish_batch()
            await yield_to_loop()
        gate = self.gate
        while True:
            polled = gate.poll()
            if polled is None:
                if gate.finished:
                    return None
                await self._wait(gate.availability)
                continue
            index, buffer = polled
            if buffer.data_type.is_buffer:
                return self._begin_batch(index, buffer)
            self._on_event(index, buffer)

    async def batches(self) -> AsyncIterator[RecordBatch]:
        """Iterate over batches until the end of all channels."""
        while (batch := await self.next_batch()) is not None:
            yield batch

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over records until the end of all channels."""
        while (batch := await self.next_batch()) is not None:
            for record in batch:
                yield record

    def close(self) -> None:
        """Cancel what is not read yet and give every buffer back; idempotent."""
        if self._current is not None:
            _, buffer, _ = self._current
            self._current = None
            buffer.recycle()
        self.gate.release()

    def _begin_batch(self, index: int, buffer: Buffer) -> RecordBatch:
        view = buffer.view()
        try:
            records = self._deserializers[index].feed(view)
        except msgpack.BufferFull:
            buffer.recycle()
            raise SerializationError(
                f"a record on channel {index} ({self.gate.channels[index].location}) is longer "
                f"than "
                f"record_bytes_max"
            ) from None
        finally:
            if isinstance(view, memoryview):
                view.release()
        self._current = (index, buffer, records)
        self.bytes_in += buffer.size
        return RecordBatch(self._checked(records, index), index, buffer.size)

    def _checked(self, records: Iterator[Any], index: int) -> Iterator[Any]:
        """Name the channel in the error that the unpacker raises."""
        try:
            yield from records
        except (ValueError, msgpack.UnpackException) as cause:
            raise SerializationError(
                f"the bytes on channel {index} ({self.gate.channels[index].location}) are not a "
                f"record "
                f"within the limits: {type(cause).__name__}: {cause}"
            ) from cause

    def _finish_batch(self) -> None:
        assert self._current is not None
        index, buffer, records = self._current
        self._current = None
        clear_end = buffer.data_type is DataType.DATA_BUFFER_WITH_CLEAR_END
        try:
            for _ in records:
                pass
            self._deserializers[index].end_buffer(clear_end=clear_end)
        finally:
            buffer.recycle()

    def _on_event(self, index: int, buffer: Buffer) -> None:
        data_type = buffer.data_type
        buffer.recycle()
        if data_type is DataType.END_OF_DATA:
            if self._deserializers[index].inside_record:
                raise RemoteProtocolError(
                    f"channel {index} ({self.gate.channels[index].location}) ended inside a record"
                )
            self.gate.acknowledge(index)
