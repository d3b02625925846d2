"""The pipelined subpartition: the queue between one writer and its one reader.

This is Flink's PipelinedSubpartition. The queue holds sealed buffers and events in order. Priority
events are in front of all other buffers, in their own order. Behind the queue there may be one
*open* builder that the writer appends to. The reader may have *taken* part of it already, and then
gets the bytes that follow. The reader polls the queue at any time, but it is told about the open
builder only after a flush.

``end`` is the lifecycle and follows the table in ``buffer/channel_end.py``: data, end of data,
acknowledgement by the reader, end of the partition. In the last state the subpartition is
*finished*. ``released``, ``_blocked`` and ``_flush_requested`` are independent of it, so one
enumeration would need a state per combination.

The reader is notified when an empty queue gets data to poll, and again only after it has drained
the queue. A fast writer therefore sends one notification per drain. A blocked subpartition notifies
nothing; the reader itself polls again after ``resume_consumption``.

Invariants: backlog and bytes equal those of the queued buffers; priority events form a prefix of
the queue; a released subpartition is empty; nothing is queued behind the end of the partition.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.builder import BufferBuilder
from flinknet.buffer.channel_end import ChannelEnd, ChannelStep
from flinknet.buffer.view import AvailabilityListener, BufferAndBacklog
from flinknet.config import WireLimits
from flinknet.errors import LocalProtocolError
from flinknet.partition.subpartition import SubpartitionOwner, SubpartitionStatistics
from flinknet.partition.superseded_events import supersede

__all__ = ["PipelinedSubpartition"]

_BYTES_BITS = 48
"""Bits of the load that hold the bytes; no queue reaches 2^48 bytes."""
_BUFFER_LOAD = 1 << _BYTES_BITS
"""Load of one buffer, to which its bytes are added."""

# Called for every buffer. A NamedTuple's own constructor is a slower Python function.
_make_polled = partial(tuple.__new__, BufferAndBacklog)
_NONE = DataType.NONE
_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_EVENT = DataType.EVENT_BUFFER
_PRIORITIZED = DataType.PRIORITIZED_EVENT_BUFFER
_TIMEOUTABLE = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
_OPEN = ChannelEnd.DATA


class PipelinedSubpartition:
    """One ordered stream of buffers, and the view that its only reader polls."""

    __slots__ = (
        "_backlog",
        "_blocked",
        "_buffers_out",
        "_bytes_dropped",
        "_bytes_out",
        "_bytes_superseded",
        "_event_bytes_max",
        "_events_max",
        "_flush_requested",
        "_listener",
        "_open",
        "_owner",
        "_priority",
        "_queue",
        "_sealed_load",
        "_taken_bytes",
        "_taken_records",
        "buffer_bytes",
        "end",
        "index",
        "released",
        "sequence",
    )

    released_on_consumption = True

    def __init__(
        self, owner: SubpartitionOwner, index: int, buffer_bytes: int, limits: WireLimits
    ) -> None:
        self._owner = owner
        self._events_max = limits.events_per_channel_max
        self._event_bytes_max = limits.event_bytes_max
        self.index = index
        self.buffer_bytes = buffer_bytes
        # Number of the next polled buffer.
        self.sequence = 0
        self.end = ChannelEnd.DATA
        # The reader is gone: added buffers are dropped, and no acknowledgement is awaited.
        self.released = False
        self._queue: deque[Buffer] = deque()
        self._open: BufferBuilder | None = None
        self._taken_bytes = 0
        self._taken_records = 0
        self._listener: AvailabilityListener | None = None
        # Sealed data buffers in the queue; events never count.
        self._backlog = 0
        # Buffers in the queue, events included, and their bytes; see ``load``.
        self._sealed_load = 0
        self._priority = 0
        # A polled buffer blocks the upstream: nothing can be polled until consumption is resumed.
        self._blocked = False
        # The reader may poll the open builder; its poll, an added buffer and a release end this.
        self._flush_requested = False
        self._buffers_out = 0
        self._bytes_out = 0
        self._bytes_dropped = 0
        self._bytes_superseded = 0

    # -- the writer's side ------------------------------------------------------------------------

    def add_builder(self, builder: BufferBuilder) -> None:
        """Append an open builder, and seal the previous one; drop the builder if released.

        Raises:
            LocalProtocolError: If the data has ended.
        """
        if self.end is not _OPEN:
            self.check_open()
        if self.released:
            self._drop(builder.seal())
            return
        if self._open is not None:
            self.seal_open()
        self._open = builder

    def seal_open(self) -> None:
        """Seal the open builder, if any; queue its buffer, or recycle it if empty."""
        if self._open is None:
            return
        buffer = self._take_last(self._open)
        if buffer.size:
            self._enqueue(buffer)
        else:
            buffer.recycle()

    def _take_last(self, builder: BufferBuilder) -> Buffer:
        """Seal the open builder and return its last bytes."""
        buffer = builder.seal(self._taken_bytes, self._taken_records)
        self._open = None
        self._taken_bytes = self._taken_records = 0
        return buffer

    def _take(self, builder: BufferBuilder) -> Buffer:
        """Take the bytes of the open builder, which stays open if it has enough room left."""
        buffer = builder.take(self._taken_bytes, self._taken_records)
        if builder.sealed:
            self._open = None
            self._taken_bytes = self._taken_records = 0
        else:
            self._taken_bytes += buffer.size
            self._taken_records += buffer.records
        return buffer

    @property
    def _open_bytes(self) -> int:
        """Bytes in the open builder that the reader has not taken."""
        return 0 if self._open is None else self._open.size - self._taken_bytes

    def add_event(self, buffer: Buffer) -> None:
        """Append an event, or insert it in front of the data if it has priority.

        Raises:
            LocalProtocolError: If the event is not allowed in this state, or is too long.
        """
        self.check_event(buffer.data_type, buffer.size)
        self.end = self._after(ChannelStep.of(buffer.data_type))
        if self.released:
            self._drop(buffer)
        elif buffer.data_type.has_priority:
            self._add_prioritized(buffer)
        else:
            self.seal_open()
            if buffer.data_type is _EVENT and self._supersede(buffer):
                return
            self._enqueue(buffer)
            # Until the reader takes it or the owner prioritizes it, the barrier is like any other
            # event.
            if buffer.data_type is _TIMEOUTABLE and self._listener is not None:
                self._listener.notify_barrier_queued()

    def _supersede(self, event: Buffer) -> bool:
        """Merge an event with the waiting events; return False if it must still be queued."""
        gone = supersede(self._queue, event)
        if not gone:
            return False
        waited = [buffer for buffer in gone if buffer is not event]
        # If the event is not superfluous itself, it stands in the place of an older one.
        if len(waited) == len(gone):
            self._sealed_load += _BUFFER_LOAD + event.size
        for buffer in waited:
            self._sealed_load -= _BUFFER_LOAD + buffer.size
        for buffer in gone:
            self._bytes_superseded += buffer.size
            buffer.recycle()
        return True

    def _add_prioritized(self, buffer: Buffer) -> None:
        self._queue.insert(self._priority, buffer)
        self._sealed_load += _BUFFER_LOAD + buffer.size
        self._priority += 1
        # The reader is notified even if data waits already. It may lack credit for the data, or
        # must now put the channel in front of others.
        if self._priority == 1 and not self._blocked:
            self._notify()

    def overtaken_data(self) -> list[Buffer]:
        """Return the data that a priority event added now overtakes; see ResultSubpartition."""
        data = [buffer.retained() for buffer in self._queue if buffer.data_type.is_buffer]
        if self._open is not None and self._open_bytes:
            data.append(self._open.peek(self._taken_bytes, self._taken_records))
        return data

    def prioritize(self, event: Buffer, body: bytes) -> list[Buffer]:
        """Move a queued event in front of the data and return the data; see ResultSubpartition."""
        position = next(place for place, buffer in enumerate(self._queue) if buffer is event)
        overtaken = [
            buffer.retained()
            for buffer in islice(self._queue, position)
            if buffer.data_type.is_buffer
        ]
        del self._queue[position]
        self._sealed_load -= _BUFFER_LOAD + event.size
        event.recycle()
        self._add_prioritized(Buffer.event(_PRIORITIZED, body))
        return overtaken

    def check_open(self) -> None:
        """Raise LocalProtocolError if the data has ended."""
        self._after(ChannelStep.DATA)

    def _after(self, step: ChannelStep) -> ChannelEnd:
        """Return the state after a step.

        The reader of a released subpartition is gone, so its acknowledgement is not required.
        """
        end = self.end
        if self.released and end is ChannelEnd.END_OF_DATA:
            end = ChannelEnd.ACKNOWLEDGED
        return end.after(step, LocalProtocolError, self)

    @property
    def acknowledged(self) -> bool:
        """Whether the reader has processed all data."""
        return self.end in (ChannelEnd.ACKNOWLEDGED, ChannelEnd.END_OF_PARTITION)

    @property
    def finished(self) -> bool:
        """Whether the end of the partition has been written."""
        return self.end is ChannelEnd.END_OF_PARTITION

    @property
    def events_queued(self) -> int:
        """Events that the reader has not taken."""
        return len(self._queue) - self._backlog

    @property
    def is_full_of_events(self) -> bool:
        """Whether the event limit is reached; see ResultSubpartition."""
        return self.events_queued >= self._events_max

    def check_event(self, data_type: DataType, size: int) -> None:
        """Raise LocalProtocolError if ``add_event`` would, for an event of ``size`` bytes."""
        self._after(ChannelStep.of(data_type))
        # Events use no network memory, so their size is limited here, and their number by the
        # owner.
        if size > self._event_bytes_max:
            raise LocalProtocolError(
                f"an event of {size} bytes does not fit: the consumer of {self} accepts at most "
                f"{self._event_bytes_max} (wire.event_bytes_max)"
            )

    def __str__(self) -> str:
        return f"subpartition {self.index} of partition {self._owner.partition_id}"

    def flush(self) -> None:
        """Let the reader take the bytes of the open builder before it is full."""
        if self._flush_requested or not self._open_bytes:
            return
        self._flush_requested = True
        # With buffers in the queue, the reader has been notified already.
        if not self._queue and not self._blocked and self._listener is not None:
            self._listener.notify_data_available()

    def _enqueue(self, buffer: Buffer) -> None:
        was_available = bool(self._queue) or self._flush_requested
        self._flush_requested = False
        self._queue.append(buffer)
        self._sealed_load += _BUFFER_LOAD + buffer.size
        data_type = buffer.data_type
        if data_type is _DATA_WITH_CLEAR_END or data_type is _DATA:
            self._backlog += 1
        if not was_available and not self._blocked:
            self._notify()

    @property
    def load(self) -> int:
        """Length of the queue as one number, which compares by buffers and then by bytes."""
        builder = self._open
        if builder is None or not (opened := builder.end - builder.remaining - self._taken_bytes):
            return self._sealed_load
        return self._sealed_load + _BUFFER_LOAD + opened

    @property
    def queued_buffers(self) -> int:
        """Buffers and events written and not polled, plus an open builder with bytes to take."""
        return self.load >> _BYTES_BITS

    @property
    def queued_bytes(self) -> int:
        """Bytes written and not polled, including those in the open builder."""
        return self.load % _BUFFER_LOAD

    @property
    def bytes_out(self) -> int:
        """Bytes that the reader has taken."""
        return self._bytes_out

    def _drop(self, buffer: Buffer) -> None:
        self._bytes_dropped += buffer.size
        buffer.recycle()

    def _notify(self) -> None:
        if self._listener is not None:
            self._listener.notify_data_available()

    # -- the reader's side: the view --------------------------------------------------------------

    def create_view(self, listener: AvailabilityListener) -> PipelinedSubpartition:
        """Attach the only reader.

        Raises:
            LocalProtocolError: If a reader was attached before, or the subpartition is released.
        """
        if self._listener is not None or self.released:
            raise LocalProtocolError(
                f"{self} already has, or has had, a reader: a pipelined partition is read once"
            )
        self._listener = listener
        return self

    @property
    def has_had_reader(self) -> bool:
        """Whether a reader is or was attached."""
        return self._listener is not None

    def poll(self) -> BufferAndBacklog | None:
        """Take the next buffer; see SubpartitionView."""
        if self._blocked:
            return None
        if self._queue:
            buffer = self._queue.popleft()
            self._sealed_load -= _BUFFER_LOAD + buffer.size
        # A poll of an empty queue takes the bytes of the open builder even without a flush.
        elif self._open is not None and self._open.size > self._taken_bytes:
            buffer = self._take(self._open)
            self._flush_requested = False
            self._backlog += 1  # subtracted again below
        else:
            return None
        data_type = buffer.data_type
        if data_type is _DATA_WITH_CLEAR_END or data_type is _DATA:
            self._backlog -= 1
        else:
            if self.events_queued == self._events_max - 1:
                self._owner.on_room_for_events()
            self._priority -= data_type.has_priority
            self._blocked = data_type.is_blocking_upstream
            if data_type is _TIMEOUTABLE:
                self._owner.on_barrier_taken(self, buffer)
        sequence = self.sequence
        self.sequence = (sequence + 1) & 0xFFFFFFFF  # 32 bits on the wire
        self._buffers_out += 1
        self._bytes_out += buffer.size
        following, backlog = _NONE, 0
        if not self._blocked:
            # Without a flush, the backlog must not promise the open builder.
            backlog = self._backlog + self._flush_requested
            if self._queue:
                following = self._queue[0].data_type
            elif self._flush_requested:
                following = _DATA
        return _make_polled((buffer, backlog, following, sequence))

    def next_data_type(self) -> DataType:
        """Return the type of the next available buffer, or NONE."""
        if self._blocked:
            return _NONE
        if self._queue:
            return self._queue[0].data_type
        return _DATA if self._flush_requested else _NONE

    def backlog(self) -> int:
        """Return the number of data buffers available now."""
        return 0 if self._blocked else self._backlog + self._flush_requested

    def resume_consumption(self) -> None:
        """Unblock after a barrier.

        Raises:
            LocalProtocolError: If the subpartition is not blocked.
        """
        if not self._blocked:
            raise LocalProtocolError(f"consumption of {self} was resumed though it is not blocked")
        self._blocked = False

    def timeoutable_barrier(self) -> bytes | None:
        """Return the body of the last queued barrier that can time out; see SubpartitionView."""
        for buffer in reversed(self._queue):
            if buffer.data_type is _TIMEOUTABLE:
                return bytes(buffer.view())
        return None

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """Let a timed-out barrier overtake all data; see SubpartitionView."""
        return self._owner.time_out_barrier_of(self, checkpoint_id)

    def acknowledge_all_data_processed(self) -> None:
        """Record that the reader has processed all records before the end of data.

        Does nothing after release.

        Raises:
            LocalProtocolError: If the end of data is not written, or is already acknowledged.
        """
        if not self.released:
            self.end = self.end.after(ChannelStep.ACKNOWLEDGEMENT, LocalProtocolError, self)
            self._owner.on_all_data_processed()

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Fill new builders only up to ``size_bytes``."""
        self.buffer_bytes = size_bytes

    def failure_cause(self) -> BaseException | None:
        """Return the error with which the producer failed, or None."""
        return self._owner.failure_cause()

    def release(self, cause: BaseException | None = None) -> None:
        """Stop reading; ``cause`` is the error if the reader was lost. Idempotent."""
        if not self.released:
            self._release()
            self._owner.on_released(self, cause)

    # -- life cycle -------------------------------------------------------------------------------

    @property
    def consumed(self) -> bool:
        """Whether the reader has taken everything, including the end of the partition."""
        # A release before the end has dropped bytes.
        return self.finished and not self._queue and not self._bytes_dropped

    def fail(self) -> None:
        """Recycle a failed producer's queue, and notify the reader, which then reads the cause."""
        if not self.released:
            self._release()
            self._notify()

    def _release(self) -> None:
        self.released = True
        if self._open is not None:
            self._drop(self._take_last(self._open))
        queue, self._queue = self._queue, deque()
        for buffer in queue:
            self._drop(buffer)
        self._backlog = self._sealed_load = self._priority = 0
        self._flush_requested = False

    def statistics(self) -> SubpartitionStatistics:
        """Return the queue's length and the totals so far."""
        return SubpartitionStatistics(
            subpartition=self.index,
            queued_buffers=self.queued_buffers,
            queued_bytes=self.queued_bytes,
            backlog=self.backlog(),
            buffers_out=self._buffers_out,
            bytes_out=self._bytes_out,
            bytes_dropped=self._bytes_dropped + self._bytes_superseded,
            blocked=self._blocked,
            finished=self.finished,
            released=self.released,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        data = sum(buffer.data_type.is_buffer for buffer in self._queue)
        assert self._backlog == data, f"backlog {self._backlog} but {data} data buffers are queued"
        load = sum(_BUFFER_LOAD + buffer.size for buffer in self._queue)
        assert self._sealed_load == load, "the buffers or bytes in the queue are miscounted"
        priorities = [buffer.data_type.has_priority for buffer in self._queue]
        assert sum(priorities) == self._priority, "priority events are miscounted"
        assert all(priorities[: self._priority]), "a priority event stands behind ordinary buffers"
        assert all(buffer.references > 0 for buffer in self._queue), "a recycled buffer is queued"
        assert self._open_bytes >= 0, "more bytes were taken than written"
        assert not self._flush_requested or self._open_bytes, "a flush is pending without data"
        assert self._open is not None or not (self._taken_bytes or self._taken_records), (
            "bytes were taken from a missing builder"
        )
        assert not (self.released and (self._queue or self._open)), "released but not empty"
        assert self.end is _OPEN or self._open is None, "data is written behind its end"
        ends = [ChannelStep.of(buffer.data_type) for buffer in self._queue]
        ends = [step for step in ends if step is not ChannelStep.EVENT]
        assert ends == sorted(ends, key=list(ChannelStep).index), "data is queued behind its end"
