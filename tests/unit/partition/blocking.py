"""A second kind of subpartition that the protocol allows.

It keeps its data until the data is complete. Then any reader can read it, any number of times.
"""

from __future__ import annotations

from typing import NamedTuple

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.builder import BufferBuilder
from flinknet.buffer.channel_end import ChannelEnd, ChannelStep
from flinknet.buffer.segment import MemorySegment
from flinknet.buffer.view import AvailabilityListener, BufferAndBacklog, SubpartitionView
from flinknet.config import WireLimits
from flinknet.errors import LocalProtocolError
from flinknet.partition.subpartition import SubpartitionOwner, SubpartitionStatistics
from tests.unit.arrangements import Recycler, content_of


class Kept(NamedTuple):
    """A buffer in the store. A real blocking partition would keep it in a file."""

    data_type: DataType
    content: bytes
    continued: int
    unfinished: int
    records: int

    @classmethod
    def of(cls, buffer: Buffer) -> Kept:
        return cls(
            buffer.data_type,
            content_of(buffer),
            buffer.continued,
            buffer.unfinished,
            buffer.records,
        )

    def buffer(self) -> Buffer:
        if self.data_type.is_event:
            return Buffer.event(self.data_type, self.content)
        segment = MemorySegment(len(self.content))
        with segment.view(len(self.content)) as view:
            view[:] = self.content
        return Buffer(
            self.data_type,
            segment,
            Recycler(),
            len(self.content),
            continued=self.continued,
            unfinished=self.unfinished,
            records=self.records,
        )


class BlockingSubpartition:
    """A subpartition that copies every sealed buffer into its store and recycles the memory."""

    released_on_consumption = False

    def __init__(
        self, owner: SubpartitionOwner, index: int, buffer_bytes: int, limits: WireLimits
    ) -> None:
        self._owner = owner
        self.index = index
        self.buffer_bytes = buffer_bytes
        self.end = ChannelEnd.DATA
        self.released = False
        self.has_had_reader = False
        self.kept: list[Kept] = []
        self._open: BufferBuilder | None = None
        self._readers: list[AvailabilityListener] = []
        self._bytes_out = self._bytes_dropped = 0

    def __str__(self) -> str:
        return f"blocking subpartition {self.index} of partition {self._owner.partition_id}"

    @property
    def acknowledged(self) -> bool:
        return self.end in (ChannelEnd.ACKNOWLEDGED, ChannelEnd.END_OF_PARTITION)

    @property
    def consumed(self) -> bool:
        return self.acknowledged

    @property
    def events_queued(self) -> int:
        return 0

    @property
    def bytes_out(self) -> int:
        return self._bytes_out

    @property
    def load(self) -> int:
        return 0

    def add_builder(self, builder: BufferBuilder) -> None:
        self.check_open()
        self.seal_open()
        self._open = builder

    def seal_open(self) -> None:
        builder, self._open = self._open, None
        if builder is not None:
            buffer = builder.seal()
            if buffer.size:
                self.kept.append(Kept.of(buffer))
            buffer.recycle()

    def flush(self) -> None:
        """Do nothing: no reader waits."""

    def check_open(self) -> None:
        self.end.after(ChannelStep.DATA, LocalProtocolError, self)

    @property
    def is_full_of_events(self) -> bool:
        return False

    def check_event(self, data_type: DataType, size: int) -> None:
        self.end.after(ChannelStep.of(data_type), LocalProtocolError, self)

    def add_event(self, buffer: Buffer) -> None:
        self.check_event(buffer.data_type, buffer.size)
        self.end = self.end.after(ChannelStep.of(buffer.data_type), LocalProtocolError, self)
        self.seal_open()
        self.kept.append(Kept.of(buffer))
        buffer.recycle()
        if self.end is ChannelEnd.END_OF_DATA:
            self.end = self.end.after(ChannelStep.ACKNOWLEDGEMENT, LocalProtocolError, self)
            self._owner.on_all_data_processed()

    def overtaken_data(self) -> list[Buffer]:
        raise LocalProtocolError("there are no barriers in what is read when it is complete")

    def prioritize(self, event: Buffer, body: bytes) -> list[Buffer]:
        raise LocalProtocolError("there are no barriers in what is read when it is complete")

    def create_view(self, listener: AvailabilityListener) -> SubpartitionView:
        if self.end is not ChannelEnd.END_OF_PARTITION:
            raise LocalProtocolError(f"{self} cannot be read: {self.end.value}")
        self.has_had_reader = True
        self._readers.append(listener)
        return BlockingView(self._owner, self.kept, listener)

    def fail(self) -> None:
        self.released = True
        self.seal_open()
        self.kept = []
        for reader in self._readers:
            reader.notify_data_available()

    def statistics(self) -> SubpartitionStatistics:
        size = sum(len(kept.content) for kept in self.kept)
        return SubpartitionStatistics(
            subpartition=self.index,
            queued_buffers=len(self.kept),
            queued_bytes=size,
            backlog=0,
            buffers_out=0,
            bytes_out=0,
            bytes_dropped=0,
            blocked=False,
            finished=self.end is ChannelEnd.END_OF_PARTITION,
            released=self.released,
        )

    def check_invariants(self) -> None:
        assert not (self.released and self.kept), "released but not empty"


class BlockingView:
    """One reading of all stored buffers, from the start."""

    def __init__(
        self, owner: SubpartitionOwner, kept: list[Kept], listener: AvailabilityListener
    ) -> None:
        self._owner = owner
        self._kept = kept
        self._listener = listener
        self._position = 0
        self._end = ChannelEnd.DATA

    def poll(self) -> BufferAndBacklog | None:
        if not self.next_data_type():
            return None
        kept = self._kept[self._position]
        self._end = self._end.after(ChannelStep.of(kept.data_type), AssertionError, self)
        sequence = self._position
        self._position += 1
        return BufferAndBacklog(kept.buffer(), self.backlog(), self.next_data_type(), sequence)

    def next_data_type(self) -> DataType:
        if self._end in (ChannelEnd.END_OF_DATA, ChannelEnd.END_OF_PARTITION):
            return DataType.NONE
        return self._kept[self._position].data_type

    def backlog(self) -> int:
        return sum(kept.data_type.is_buffer for kept in self._kept[self._position :])

    @property
    def queued_bytes(self) -> int:
        return sum(len(kept.content) for kept in self._kept[self._position :])

    def resume_consumption(self) -> None:
        raise LocalProtocolError("a view of what is complete is never blocked")

    def acknowledge_all_data_processed(self) -> None:
        self._end = self._end.after(ChannelStep.ACKNOWLEDGEMENT, LocalProtocolError, self)
        self._listener.notify_data_available()

    def timeoutable_barrier(self) -> bytes | None:
        return None

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        return False

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Do nothing: all buffers have been written."""

    def failure_cause(self) -> BaseException | None:
        return self._owner.failure_cause()

    def release(self, cause: BaseException | None = None) -> None:
        self._kept = []
