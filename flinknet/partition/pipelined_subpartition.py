"""The pipelined subpartition: the queue between one writer and the one reader of its data.

Theory of operation (Flink's PipelinedSubpartition). The queue holds sealed buffers and events in
order; behind them may stand one *open* builder that the writer still appends to, and of which the
reader may have *taken* some bytes and records already: it gets what follows them. Priority events
stand in front of everything else, in their own order. What may be written follows the table of
``buffer/channel_end.py``: data, its end, the reader's acknowledgement, the end of the partition,
with which it is *finished*. Independently it is *released* (nobody reads; what is added is dropped,
and no acknowledgement awaited), and *blocked*: once a buffer whose type blocks the upstream was
polled it yields nothing until consumption is resumed.

``end`` is the one lifecycle, and has its table; ``released``, ``_blocked`` and ``_flush_requested``
change independently of it (a release only ends a flush), so that one enumeration would need a state
for each product of them. The other attributes are sums over the queue, or the place up to which the
open builder was taken, and hold in every state.

Owned counters: ``_backlog`` = sealed data buffers in the queue (events never count),
``_sealed_load`` = buffers, events included, and bytes in the queue, as one number (see ``load``),
``sequence`` = number of the next buffer polled.

What can be polled now is everything in the queue; the open builder only once a flush was requested
or the subpartition finished, though a poll takes it along if nothing else is left. The backlog
told to the reader never promises the open builder without a flush.

Notification: the reader is told when the queue goes from nothing pollable to something, and not
again until it has drained it, so a fast writer costs one notice per drain. A flush notifies only
if the open builder is all there is. While blocked nothing is notified; ``resume_consumption`` is
followed by the reader asking for itself.

A barrier that can time out stands like any other event until its reader takes it, of which the
owner hears, or until the owner gives it priority (``prioritize``; see ``timeoutable_barrier.py``).

Events cost no buffer, so their size is bounded here, and their number by the owner, which asks
whether the queue ``is_full_of_events`` and hears when it is not any more. What a newer event says
better is not sent (``superseded_events.py``).

Invariants: backlog and bytes equal those of the buffers queued; priority events form a prefix of
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
"""No queue has as many bytes."""
_BUFFER_LOAD = 1 << _BYTES_BITS
"""What a buffer adds to the load beside its bytes."""

_make_polled = partial(tuple.__new__, BufferAndBacklog)
_NONE = DataType.NONE
_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_EVENT = DataType.EVENT_BUFFER
_PRIORITIZED = DataType.PRIORITIZED_EVENT_BUFFER
_TIMEOUTABLE = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
_OPEN = ChannelEnd.DATA


class PipelinedSubpartition:
    """One ordered stream of buffers; also the view that its only reader polls."""

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
        self.sequence = 0
        self.end = ChannelEnd.DATA
        self.released = False
        self._queue: deque[Buffer] = deque()
        self._open: BufferBuilder | None = None
        self._taken_bytes = 0
        self._taken_records = 0
        self._listener: AvailabilityListener | None = None
        self._backlog = 0
        self._sealed_load = 0
        self._priority = 0
        self._blocked = False
        self._flush_requested = False
        self._buffers_out = 0
        self._bytes_out = 0
        self._bytes_dropped = 0
        self._bytes_superseded = 0

    # -- the writer's side ------------------------------------------------------------------------

    def add_builder(self, builder: BufferBuilder) -> None:
        """Append an open builder; the one before it is sealed first. Dropped if released.

        Raises LocalProtocolError behind the end of the data."""
        if self.end is not _OPEN:
            self.check_open()
        if self.released:
            self._drop(builder.seal())
            return
        if self._open is not None:
            self.seal_open()
        self._open = builder

    def seal_open(self) -> None:
        """Close the open builder, if any: its buffer can be polled, or is recycled if empty."""
        if self._open is None:
            return
        buffer = self._take_last(self._open)
        if buffer.size:
            self._enqueue(buffer)
        else:
            buffer.recycle()

    def _take_last(self, builder: BufferBuilder) -> Buffer:
        """Seal the open builder, and take what is left of it."""
        buffer = builder.seal(self._taken_bytes, self._taken_records)
        self._open = None
        self._taken_bytes = self._taken_records = 0
        return buffer

    def _take(self, builder: BufferBuilder) -> Buffer:
        """Take what the open builder holds; it stays open if there is room."""
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
        """Bytes in the open builder that have not been taken."""
        return 0 if self._open is None else self._open.size - self._taken_bytes

    def add_event(self, buffer: Buffer) -> None:
        """Append an event behind all data so far, or in front of it if the event has priority.

        Raises LocalProtocolError if it must not come now, or is too long."""
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
            if buffer.data_type is _TIMEOUTABLE and self._listener is not None:
                self._listener.notify_barrier_queued()

    def _supersede(self, event: Buffer) -> bool:
        """Whether an event stands in the place of one that waited, or says nothing new."""
        gone = supersede(self._queue, event)
        if not gone:
            return False
        waited = [buffer for buffer in gone if buffer is not event]
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
        if self._priority == 1 and not self._blocked:
            self._notify()

    def overtaken_data(self) -> list[Buffer]:
        """Return what a priority event overtakes that is added now; see ResultSubpartition."""
        data = [buffer.retained() for buffer in self._queue if buffer.data_type.is_buffer]
        if self._open is not None and self._open_bytes:
            data.append(self._open.peek(self._taken_bytes, self._taken_records))
        return data

    def prioritize(self, event: Buffer, body: bytes) -> list[Buffer]:
        """Let a queued event overtake what stands before it; see ResultSubpartition."""
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
        """The state after a step; a reader that has gone acknowledges nothing, nor needs it."""
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
        """Whether as many wait as may; see ResultSubpartition."""
        return self.events_queued >= self._events_max

    def check_event(self, data_type: DataType, size: int) -> None:
        """Raise LocalProtocolError if ``add_event`` would, for an event of so many bytes."""
        self._after(ChannelStep.of(data_type))
        if size > self._event_bytes_max:
            raise LocalProtocolError(
                f"an event of {size} bytes does not fit: {self._event_bytes_max} is the most that "
                f"the consumer of {self} takes (wire.event_bytes_max)"
            )

    def __str__(self) -> str:
        return f"subpartition {self.index} of partition {self._owner.partition_id}"

    def flush(self) -> None:
        """Let the reader have what the open builder holds, without waiting until it is full."""
        if self._flush_requested or not self._open_bytes:
            return
        self._flush_requested = True
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
        """The queue's length as one number to compare: its buffers, and of as many its bytes."""
        builder = self._open
        if builder is None or not (opened := builder.end - builder.remaining - self._taken_bytes):
            return self._sealed_load
        return self._sealed_load + _BUFFER_LOAD + opened

    @property
    def queued_buffers(self) -> int:
        """Buffers and events written and not polled, with the open builder if it holds anything
        that was not taken."""
        return self.load >> _BYTES_BITS

    @property
    def queued_bytes(self) -> int:
        """Bytes written and not polled, with those in the open builder."""
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
        """Attach the one reader. Raises LocalProtocolError if there is one already."""
        if self._listener is not None or self.released:
            raise LocalProtocolError(
                f"{self} already has, or has had, a reader: a pipelined partition is read once"
            )
        self._listener = listener
        return self

    @property
    def has_had_reader(self) -> bool:
        """Whether somebody reads this, or has read it."""
        return self._listener is not None

    def poll(self) -> BufferAndBacklog | None:
        """Take the next buffer; see SubpartitionView."""
        if self._blocked:
            return None
        if self._queue:
            buffer = self._queue.popleft()
            self._sealed_load -= _BUFFER_LOAD + buffer.size
        elif self._open is not None and self._open.size > self._taken_bytes:
            buffer = self._take(self._open)
            self._flush_requested = False
            self._backlog += 1
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
        self.sequence = (sequence + 1) & 0xFFFFFFFF
        self._buffers_out += 1
        self._bytes_out += buffer.size
        following, backlog = _NONE, 0
        if not self._blocked:
            backlog = self._backlog + self._flush_requested
            if self._queue:
                following = self._queue[0].data_type
            elif self._flush_requested:
                following = _DATA
        return _make_polled((buffer, backlog, following, sequence))

    def next_data_type(self) -> DataType:
        """Type of what is available now, NONE for nothing."""
        if self._blocked:
            return _NONE
        if self._queue:
            return self._queue[0].data_type
        return _DATA if self._flush_requested else _NONE

    def backlog(self) -> int:
        """Data buffers available now."""
        return 0 if self._blocked else self._backlog + self._flush_requested

    def resume_consumption(self) -> None:
        """Unblock after a barrier. Raises LocalProtocolError if not blocked."""
        if not self._blocked:
            raise LocalProtocolError(f"consumption of {self} was resumed though it is not blocked")
        self._blocked = False

    def timeoutable_barrier(self) -> bytes | None:
        """Body of the last barrier that is queued and can time out; see SubpartitionView."""
        for buffer in reversed(self._queue):
            if buffer.data_type is _TIMEOUTABLE:
                return bytes(buffer.view())
        return None

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """Let a barrier overtake everything whose time is over; see SubpartitionView."""
        return self._owner.time_out_barrier_of(self, checkpoint_id)

    def acknowledge_all_data_processed(self) -> None:
        """The reader has processed every record before the end of data; not after release.

        Raises LocalProtocolError if that is not written, or has been acknowledged."""
        if not self.released:
            self.end = self.end.after(ChannelStep.ACKNOWLEDGEMENT, LocalProtocolError, self)
            self._owner.on_all_data_processed()

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Fill new builders only up to ``size_bytes``."""
        self.buffer_bytes = size_bytes

    def failure_cause(self) -> BaseException | None:
        """Why the producer failed, None if it did not."""
        return self._owner.failure_cause()

    def release(self, cause: BaseException | None = None) -> None:
        """Stop reading, because of ``cause`` if it is not the reader's own wish; idempotent."""
        if not self.released:
            self._release()
            self._owner.on_released(self, cause)

    # -- life -------------------------------------------------------------------------------------

    @property
    def consumed(self) -> bool:
        """Whether the reader has taken everything, the end of the partition included."""
        return self.finished and not self._queue and not self._bytes_dropped

    def fail(self) -> None:
        """The producer failed: what is queued is recycled, and the reader told to look."""
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
        """Say what is queued, and what has gone out so far."""
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
        """Raise AssertionError if the accounts do not add up."""
        data = sum(buffer.data_type.is_buffer for buffer in self._queue)
        assert self._backlog == data, f"backlog {self._backlog} but {data} data buffers are queued"
        load = sum(_BUFFER_LOAD + buffer.size for buffer in self._queue)
        assert self._sealed_load == load, "the buffers or bytes in the queue are miscounted"
        priorities = [buffer.data_type.has_priority for buffer in self._queue]
        assert sum(priorities) == self._priority, "priority events are miscounted"
        assert all(priorities[: self._priority]), "a priority event stands behind ordinary buffers"
        assert all(buffer.references > 0 for buffer in self._queue), "a recycled buffer is queued"
        assert self._open_bytes >= 0, "more was taken than had been written"
        assert not self._flush_requested or self._open_bytes, "a flush of nothing is pending"
        assert self._open is not None or not (self._taken_bytes or self._taken_records), (
            "something was taken from a builder that is not there"
        )
        assert not (self.released and (self._queue or self._open)), "released but not empty"
        assert self.end is _OPEN or self._open is None, "data is written behind its end"
        ends = [ChannelStep.of(buffer.data_type) for buffer in self._queue]
        ends = [step for step in ends if step is not ChannelStep.EVENT]
        assert ends == sorted(ends, key=list(ChannelStep).index), "data is queued behind its end"
