"""The remote input channel: receives one subpartition over a connection, against credit.

This is Flink's RemoteInputChannel. The channel is attached when it gets its client, the connection,
which sends the request with the initial credit. A frame arrives in two steps. ``begin_buffer``
checks its sequence number and takes a free buffer that the channel owns; ``end_buffer`` queues it.
A data frame without a free buffer breaks the protocol, because the producer sent it without credit.
A buffer becomes free when the operator recycles it, never on receipt. Each free buffer adds one to
the ``ChannelCredit``, which decides when to announce it.

A priority event is polled before everything else that has arrived, although its sequence number is
higher. A barrier that can time out is *announced* on arrival, by a priority event that this side
creates, and keeps its place. If its time is over before it is polled, it also gets priority
(``convert_to_priority_event``). An unaligned checkpoint stores the data in front of the barrier
(``channel_state_persister.py``).

Invariant: credit at the producer + credit on its way + data frames on their way + unannounced
credit == free buffers here. The exception is the time from a blocking buffer to its resume if there
are no exclusive buffers.
"""

from __future__ import annotations

from typing import Protocol

from flinknet.buffer.buffer import Buffer, BufferRecycler, DataType, make_pooled_buffer
from flinknet.buffer.channel_end import ChannelEnd, ChannelStep
from flinknet.buffer.local_pool import LocalBufferPool
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.segment import MemorySegment
from flinknet.config import FlowControl
from flinknet.consumer.buffer_manager import BufferManager
from flinknet.consumer.channel_buffers import ChannelBuffers
from flinknet.consumer.channel_state_persister import BARRIERS, Persist
from flinknet.consumer.credit import ChannelCredit, CreditState
from flinknet.consumer.input_channel import (
    ChannelEvent,
    ChannelListener,
    ChannelState,
    InputChannel,
    InputChannelStatistics,
    PartitionLocation,
)
from flinknet.consumer.prioritized_deque import PrioritizedDeque
from flinknet.consumer.shared_buffers import SharedBuffers
from flinknet.errors import BufferReorderingError, RemoteProtocolError
from flinknet.wire.buffer_header import BufferHeader
from flinknet.wire.codec import Stall
from flinknet.wire.events import Event, announcement_of, barrier_in, check_received

__all__ = ["PartitionRequestClient", "RemoteInputChannel"]


class PartitionRequestClient(Protocol):
    """The connection, as seen by a channel (Flink's PartitionRequestClient)."""

    def request_subpartition(self, channel: RemoteInputChannel) -> None:
        """Send the request, and route the answers to the channel."""

    def offer_credit(self, channel: RemoteInputChannel) -> None:
        """Offer credit that the producer does not need yet; it is sent with other output."""

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        """Send the channel's due credit at the next opportunity."""

    def resume_reading(self, channel: RemoteInputChannel) -> None:
        """Continue a frame that waited, without credit, for a buffer of the channel."""

    def notify_event_taken(self, channel: RemoteInputChannel) -> None:
        """Tell the producer that the reader has taken an event, now or later."""

    def resume_consumption(self, channel: RemoteInputChannel) -> None:
        """Send ResumeConsumption."""

    def acknowledge_all_data_processed(self, channel: RemoteInputChannel) -> None:
        """Send AcknowledgeAllRecordsProcessed."""

    def announce_buffer_size(self, channel: RemoteInputChannel, size_bytes: int) -> None:
        """Send NewBufferSize."""

    def close_channel(self, channel: RemoteInputChannel) -> None:
        """Send CancelPartitionRequest and remove the channel."""


Received = tuple[Buffer, int]
"""A received buffer and its sequence number."""

_NONE = DataType.NONE
_SEQUENCE_MAX = 0xFFFFFFFF
_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_PRIORITIZED = DataType.PRIORITIZED_EVENT_BUFFER
"""The only type with priority."""
_TIMEOUTABLE = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
_MADE_HERE = -1
"""Sequence number of an announcement, which has not travelled."""
_OPEN = ChannelEnd.DATA
_COMPLETE = ChannelEnd.END_OF_PARTITION
_RELEASED = ChannelState.RELEASED
_NO_CREDIT = CreditState.NONE
_HELD = CreditState.HELD
_DUE = CreditState.DUE
_OVER = frozenset((ChannelState.FAILED, ChannelState.RELEASED))


class RemoteInputChannel(InputChannel):
    """A subpartition that another worker produces."""

    location: PartitionLocation

    def __init__(
        self,
        listener: ChannelListener,
        index: int,
        location: PartitionLocation,
        network_pool: NetworkBufferPool,
        floating_pool: LocalBufferPool,
        flow_control: FlowControl = "credit",
    ) -> None:
        super().__init__(listener, index, location)
        self.manager: ChannelBuffers = (
            BufferManager(network_pool, floating_pool, self._on_buffers_available)
            if flow_control == "credit"
            else SharedBuffers(floating_pool, self._on_buffer_for_frame)
        )
        self.credit = ChannelCredit()
        self.sender_backlog = 0
        self.blocked = False
        """Whether an event that blocks the channel has arrived and is not resumed yet. The producer
        cannot know of the resume sooner, so no frame may arrive before it."""
        self.events_queued = 0
        """Events that have arrived and are not polled; announcements do not count."""
        self.events_untold = 0
        """Polled events that the producer has not been told of. They count against its limit of
        events that are on their way or here."""
        # The end of the received buffers, where this side gives the acknowledgement. A producer
        # that skips a step breaks the protocol. Otherwise a stream that was cut short would look
        # complete.
        self._arrived = ChannelEnd.DATA
        self._client: PartitionRequestClient | None = None
        self._expected_sequence = 0
        self._queue: PrioritizedDeque[Received] = PrioritizedDeque()
        self._arriving_header: BufferHeader | None = None
        self._arriving_segment: MemorySegment | None = None
        self._arriving_recycler: BufferRecycler | None = None
        self._arriving_event: bytearray | None = None

    @property
    def initial_credit(self) -> int:
        """Exclusive buffers, announced with the request."""
        return self.manager.exclusive_total

    def request(self, client: PartitionRequestClient) -> None:
        """Request the subpartition from the producer over ``client``, once."""
        if self.state in _OVER:
            return
        self._become(ChannelEvent.ATTACH)
        self._client = client
        client.request_subpartition(self)

    # -- frames -----------------------------------------------------------------------------------

    def begin_buffer(self, header: BufferHeader) -> memoryview | Stall:
        """Provide memory for a frame.

        Without credit, a frame may have to wait. The client is told when it can continue.

        Raises:
            RemoteProtocolError: If the frame is out of order, not allowed, or without credit.
        """
        if header.sequence != self._expected_sequence:
            raise BufferReorderingError(
                f"{self} received buffer {header.sequence}, expected {self._expected_sequence}"
            )
        data_type = header.data_type
        if self.blocked:
            raise RemoteProtocolError(
                f"the peer sent {data_type.name} on {self}, behind an event that blocks it until "
                f"it is resumed"
            )
        is_data = data_type is _DATA_WITH_CLEAR_END or data_type is _DATA
        if not is_data or self._arrived is not _OPEN:
            self._after(data_type)
        if is_data:
            credit = self.credit
            if credit.unannounced and credit.unannounced >= self.manager.available():
                raise self._unpaid()  # the free buffers are all unknown to the producer
            taken = self.manager.take()
            if taken is None:
                return self._without_buffer()
            segment, self._arriving_recycler = taken
            self._arriving_segment = segment
            body = segment.view(header.size)
            # The producer has used one credit, so the unannounced credit may be due now.
            if credit.unannounced and credit.state is not _DUE:
                self._settle_credit(0)
        else:
            # Events need no network buffer, only a few bytes of ordinary memory.
            self._arriving_event = bytearray(header.size)
            body = memoryview(self._arriving_event)
        # Only now, because a frame that waits for a buffer is tried again.
        self._expected_sequence = (header.sequence + 1) & _SEQUENCE_MAX
        self._arriving_header = header
        return body

    def _after(self, data_type: DataType) -> ChannelEnd:
        """Return the state after a buffer of this type arrives, if it may."""
        return self._arrived.after(ChannelStep.of(data_type), RemoteProtocolError, self)

    @property
    def complete(self) -> bool:
        """Whether the end of the partition has arrived, so that nothing more can be lost."""
        return self._arrived is _COMPLETE

    def _without_buffer(self) -> Stall:
        if isinstance(self.manager, SharedBuffers):
            return Stall.FOR_MEMORY
        raise self._unpaid()

    def _unpaid(self) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"no buffer available for data on {self}: the producer sent without credit"
        )

    def end_buffer(self) -> None:
        """Queue the complete frame, and request buffers for the backlog behind it."""
        header = self._arriving_header
        assert header is not None, "a frame ended before it began"
        self._arriving_header = None
        data_type = header.data_type
        segment, recycler = self._arriving_segment, self._arriving_recycler
        is_data = segment is not None
        if segment is not None and recycler is not None:
            self._arriving_segment = self._arriving_recycler = None
            buffer = make_pooled_buffer(
                data_type,
                segment,
                recycler,
                header.size,
                header.continued,
                header.unfinished,
                header.records,
            )
        else:
            buffer = self._end_event(header)
        # The channel was released after the frame began.
        if self.state is _RELEASED:
            buffer.recycle()
            return
        manager = self.manager
        # Without exclusive buffers, a blocked channel returns its floating buffers. On resume, both
        # sides start again with no credit.
        if not is_data and data_type.is_blocking_upstream and manager.exclusive_total == 0:
            manager.release_floating()
        else:
            self.sender_backlog = header.backlog
            manager.require(header.backlog + manager.exclusive_total)
        received = (buffer, header.sequence)
        if not is_data:
            self._add_event(received)
            return
        persist = self._persister.persist
        if persist is not None and buffer.size:
            persist(buffer.retained())
        queue = self._queue
        queue.append(received)
        if len(queue) == 1:
            self._listener.notify_channel_non_empty(self)

    def _end_event(self, header: BufferHeader) -> Buffer:
        """Check a complete event, and make its buffer."""
        assert self._arriving_event is not None
        payload, self._arriving_event = bytes(self._arriving_event), None
        self._check_body(header.data_type, payload)
        self._arrived = self._after(header.data_type)
        self.blocked = header.data_type.is_blocking_upstream
        return Buffer.event(header.data_type, payload)

    def _check_body(self, data_type: DataType, body: bytes) -> None:
        try:
            check_received(data_type, body)
        except RemoteProtocolError as error:
            raise error.of_channel(str(self)) from error

    def _add_event(self, received: Received) -> None:
        """Queue an event in its place, and announce a barrier that can time out."""
        buffer, sequence = received
        data_type = buffer.data_type
        self.events_queued += 1
        event = Event(data_type, bytes(buffer.view()))
        if data_type in BARRIERS:
            self._persister.on_event(event, sequence)
        if data_type is _PRIORITIZED:
            self._add_prioritized(received)
            return
        queue = self._queue
        queue.append(received)
        if len(queue) == 1:
            self._listener.notify_channel_non_empty(self)
        # The barrier keeps its place, and only the announcement overtakes the queue.
        if data_type is _TIMEOUTABLE:
            announcement = Buffer.event(*announcement_of(event.body))
            self._add_prioritized((announcement, _MADE_HERE))

    def _add_prioritized(self, received: Received) -> None:
        self._queue.append_prioritized(received)
        if self._queue.prioritized == 1:
            self._listener.notify_channel_non_empty(self, True)

    def abort_buffer(self) -> None:
        """Return the buffer of an incomplete frame after the connection is lost."""
        segment, recycler = self._arriving_segment, self._arriving_recycler
        self._arriving_segment = self._arriving_recycler = None
        self._arriving_header = self._arriving_event = None
        if segment is not None and recycler is not None:
            recycler.recycle(segment)

    def fail(self, cause: BaseException) -> None:
        """End the channel with an error unless everything has arrived; see InputChannel."""
        if not self.complete:
            InputChannel.fail(self, cause)

    def on_backlog(self, backlog: int) -> None:
        """Request floating buffers for the producer's backlog."""
        self.sender_backlog = backlog
        self.manager.require(backlog + self.initial_credit)

    # -- the gate's side --------------------------------------------------------------------------

    def poll(self) -> tuple[Buffer, DataType] | None:
        """Take the next buffer; see InputChannel."""
        if self.error is not None:
            raise self.error
        queue = self._queue
        if not queue:
            return None
        received = queue.pop_prioritized() if queue.prioritized else queue.popleft()
        buffer = received[0]
        self.buffers_in += 1
        self.bytes_in += buffer.size
        data_type = buffer.data_type
        if data_type is not _DATA_WITH_CLEAR_END and data_type is not _DATA:
            if received[1] == _MADE_HERE:
                # Only buffers of the producer count.
                self.buffers_in -= 1
                self.bytes_in -= buffer.size
            else:
                self._count_taken_event()
            self._take_step(buffer)
        return buffer, queue[0][0].data_type if queue else _NONE

    def _count_taken_event(self) -> None:
        assert self._client is not None, "an event arrived before the partition was requested"
        self.events_queued -= 1
        self.events_untold += 1
        self._client.notify_event_taken(self)

    def take_event_credit(self) -> int:
        """Return the number of untold events, and count them as told."""
        events, self.events_untold = self.events_untold, 0
        return events

    @property
    def buffers_in_use(self) -> int:
        """Received buffers plus the producer's last backlog."""
        return len(self._queue) + self.sender_backlog if not self.released else 0

    def start_persisting(self, checkpoint_id: int, persist: Persist) -> bool:
        """Pass on the buffers in front of the barrier, now and on arrival; see InputChannel."""
        if not self._persister.start(checkpoint_id, persist):
            return False
        barrier = self._persister.place_of_barrier()
        for buffer, sequence in self._queue:
            if not buffer.data_type.is_buffer or not buffer.size:
                continue
            # Without an arrived barrier, the whole queue is in front of it.
            if barrier is None or _is_before(sequence, barrier):
                persist(buffer.retained())
        return True

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """Move the queued barrier to the front as unaligned, and resume; see InputChannel."""
        if self.state in _OVER:
            return False
        for received in self._queue:
            buffer, sequence = received
            if buffer.data_type is _TIMEOUTABLE:
                barrier = barrier_in(Event(_TIMEOUTABLE, bytes(buffer.view())))
                if barrier is not None and barrier.checkpoint_id == checkpoint_id:
                    self._queue.remove(received)
                    unaligned = Buffer.event(*barrier.to_unaligned().event())
                    self._add_prioritized((unaligned, sequence))
                    # An unaligned barrier does not block its channel.
                    self.resume_consumption()
                    return True
        return False

    def announce_buffer_size(self, size_bytes: int) -> None:
        """Send the size if the partition has been requested."""
        assert not self.released, "a buffer size was announced by a released channel"
        if self._client is not None:
            self._client.announce_buffer_size(self, size_bytes)

    def resume_consumption(self) -> None:
        """Send the resume; without exclusive buffers, both sides start again with no credit."""
        self._check_not_released("resumed")
        assert self._client is not None, (
            "consumption was resumed before the partition was requested"
        )
        if self.initial_credit == 0:
            self.credit.drop()
        self.blocked = False
        self._client.resume_consumption(self)

    def acknowledge_all_data_processed(self) -> None:
        """Send the acknowledgement; see InputChannel."""
        self._take_acknowledgement()
        self._arrived = self._arrived.after(ChannelStep.ACKNOWLEDGEMENT, AssertionError, self)
        assert self._client is not None
        self._client.acknowledge_all_data_processed(self)

    def release(self) -> None:
        """Return all buffers and cancel the request; idempotent."""
        if self.released:
            return
        self._become(ChannelEvent.RELEASE)
        self.credit.drop()
        queue, self._queue = self._queue, PrioritizedDeque()
        self.events_queued = 0
        for buffer, _ in queue:
            buffer.recycle()
        self.manager.release()
        if self._client is not None:
            self._client.close_channel(self)

    def _on_buffer_for_frame(self, number: int) -> None:
        assert self._client is not None, "a frame arrived before the partition was requested"
        self._client.resume_reading(self)

    def _on_buffers_available(self, number: int) -> None:
        if self.state is _RELEASED or self.end is _COMPLETE or self._client is None:
            return
        if self.credit.state is _DUE:
            # The connection takes the sum when it writes.
            self.credit.add(number)
        else:
            self._settle_credit(number)

    def _settle_credit(self, number: int) -> None:
        """Add ``number`` free buffers, and tell the client or the gate if the credit is to be sent.

        ``number`` is 0 if the producer has used credit, or if the queue is shorter.
        """
        credit, client, is_busy = self.credit, self._client, self._listener.is_busy()
        assert client is not None
        before = credit.state
        state = credit.settle(
            number,
            self.manager.available(),
            len(self._queue),
            self.sender_backlog,
            is_busy,
        )
        if state is _DUE:
            client.notify_credit_available(self)
            if is_busy:
                self._listener.announce_held_credit()
            return
        if is_busy:
            self._listener.hold_credit(self)
        if before is _NO_CREDIT:
            client.offer_credit(self)

    def announce_credit(self) -> None:
        """Announce credit that is not due yet, if any; see InputChannel."""
        if self._client is not None and self.credit.announce():
            self._client.notify_credit_available(self)

    def settle_held_credit(self) -> None:
        """Check whether held credit is due; see InputChannel."""
        if self.credit.state is _HELD:
            self._settle_credit(0)

    def statistics(self) -> InputChannelStatistics:
        """Return the queue's length, the totals so far, and the producer's credit.

        Held credit does not count, because the producer is not told of it while the gate is busy.
        """
        manager = self.manager.statistics()
        held = self.credit.unannounced if self.credit.state is _HELD else 0
        free = manager.exclusive_free + manager.floating_free - held
        if isinstance(self.manager, BufferManager):
            is_short = self.sender_backlog > free and bool(held or self._queue)
        else:
            is_short = manager.waiting
        return InputChannelStatistics(
            channel=self.index,
            kind="remote",
            location=self.location,
            queued_buffers=len(self._queue),
            queued_bytes=sum(buffer.size for buffer, _ in self._queue),
            buffers_in=self.buffers_in,
            bytes_in=self.bytes_in,
            backlog=self.sender_backlog,
            unannounced_credit=self.credit.unannounced,
            held_credit=held,
            exclusive_total=0 if self.released else manager.exclusive_total,
            exclusive_free=manager.exclusive_free,
            floating_free=manager.floating_free,
            required=manager.required,
            is_short=is_short,
            released=self.released,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        self.manager.check_invariants()
        free = self.manager.available()
        assert self.credit.unannounced <= free or self.initial_credit == 0, (
            "unannounced credit exceeds the free buffers"
        )
        assert not (self.released and self._queue), "a released channel still has buffers queued"
        self.credit.check_invariants(free, is_busy=self._listener.is_busy())
        events = sum(
            buffer.data_type.is_event and sequence != _MADE_HERE for buffer, sequence in self._queue
        )
        assert self.events_queued == events, "waiting events are miscounted"
        priorities = [buffer.data_type.has_priority for buffer, _ in self._queue]
        assert priorities == sorted(priorities, reverse=True), "an event has not overtaken data"
        assert sum(priorities) == self._queue.prioritized, "priority events are miscounted"


def _is_before(sequence: int, other: int) -> bool:
    """Whether one sequence number is before another; either may have wrapped at 2**32."""
    return (sequence - other) & 0xFFFFFFFF >= 0x80000000
