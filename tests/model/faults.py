"""Bugs to plant: each breaks one rule of the exchange, and the exploration must find it.

A fault replaces one method of one real class. A fault that survives shows that a shape or an
invariant is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinknet.buffer.buffer import Buffer, BufferSlice, DataType
from flinknet.buffer.builder import BufferBuilder
from flinknet.buffer.channel_end import ChannelEnd
from flinknet.connection.outbox import Outbox
from flinknet.connection.session import Session
from flinknet.connection.subpartition_reader import SubpartitionReader
from flinknet.consumer.buffer_manager import BufferManager
from flinknet.consumer.credit import ChannelCredit
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from tests.model.shape import Shape


@dataclass(frozen=True)
class Fault:
    """A planted bug, the shape that must reveal it, and the method that it replaces."""

    name: str
    shape: Shape
    owner: type
    method: str
    replace: Callable[[Callable[..., Any]], Callable[..., Any]]


ONE_CHANNEL = ("dedBdDE",)
TWO_CHANNELS = ("BdDE", "BdDE")
FLOATING_ONLY = Shape(ONE_CHANNEL, exclusive=0, floating=1)
TWO_FLOATING = Shape(ONE_CHANNEL, exclusive=0, floating=2)
PLAIN = Shape(ONE_CHANNEL, exclusive=1, floating=1)
SHARED = Shape(TWO_CHANNELS, exclusive=1, floating=1)
SHARED_FLOATING = Shape(("dBdDE", "BdDE"), exclusive=0, floating=1)
LONGER = Shape(("ddddDE",), exclusive=1, floating=2)
LONGER_FLOATING = Shape(("ddddDE",), exclusive=0, floating=1)
FLUSHED = Shape(("ofdoDE",), exclusive=1, floating=0)
SLICED = Shape(("afafaDE",), exclusive=1, floating=0)
SLICED_AND_OTHERS = Shape(("afaDE", "dDE"), exclusive=1, floating=1)
CANCELLED = Shape(("ddDE", "DE"), exclusive=1, floating=1, cancel=0)
NO_CREDIT = Shape(ONE_CHANNEL, exclusive=0, floating=1, credit=False)
FAILED = Shape(("BdDE", "BDE"), exclusive=1, floating=1, fails=True)

FEW_EVENTS = Shape(("eeeeDE",), exclusive=1, floating=0, events=1)
ENDING = Shape(("deDeE",), exclusive=1, floating=0)
CUT_SHORT = Shape(("dE",), exclusive=1, floating=0, lawless=True)
GOES_ON = Shape(("Dd",), exclusive=1, floating=0, lawless=True)
ENDS_TWICE = Shape(("dDD",), exclusive=1, floating=0, lawless=True)
HASTY = Shape(("dDE",), exclusive=1, floating=0, lawless=True)


def _never_blocks(original: Callable[..., Any]) -> Callable[..., Any]:
    def poll(self: PipelinedSubpartition) -> Any:
        polled = original(self)
        self._blocked = False
        return polled

    return poll


def _keeps_floating(original: Callable[..., Any]) -> Callable[..., Any]:
    def release_floating(self: BufferManager) -> None:
        if self._released:
            original(self)

    return release_floating


def _keeps_credit(original: Callable[..., Any]) -> Callable[..., Any]:
    def resume_consumption(self: SubpartitionReader) -> None:
        initial, self.initial = self.initial, 1
        original(self)
        self.initial = initial

    return resume_consumption


def _says_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    def silent(self: Any, *arguments: Any) -> None:
        """Do nothing."""

    return silent


def _credit_on_receipt(original: Callable[..., Any]) -> Callable[..., Any]:
    def end_buffer(self: RemoteInputChannel) -> None:
        is_data = self._arriving_event is None
        original(self)
        if is_data:
            self._on_buffers_available(1)

    return end_buffer


def _recycles_twice(original: Callable[..., Any]) -> Callable[..., Any]:
    def forget_in_flight(self: Outbox) -> None:
        buffers = [buffer for buffer, _ in self._in_flight]
        original(self)
        for buffer in buffers:
            buffer.recycle()

    return forget_in_flight


def _gives_the_segment_back(original: Callable[..., Any]) -> Callable[..., Any]:
    def recycle_sent(self: BufferSlice) -> None:
        original(self)
        shared = self._shared
        if shared._segment is not None and shared._recycler is not None:
            shared._recycler.recycle(shared._segment)

    return recycle_sent


def _takes_no_reference(original: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: PipelinedSubpartition, builder: BufferBuilder) -> Buffer:
        buffer: Buffer = original(self, builder)
        if not builder.sealed and isinstance(buffer, BufferSlice):
            buffer._shared.references -= 1
        return buffer

    return take


def _takes_from_the_beginning(original: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: PipelinedSubpartition, builder: BufferBuilder) -> Any:
        self._taken_bytes = self._taken_records = 0
        return original(self, builder)

    return take


def _announces_twice(original: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: ChannelCredit) -> int:
        return int(original(self)) * 2

    return take


def _one_less(original: Callable[..., Any]) -> Callable[..., Any]:
    def backlog(self: PipelinedSubpartition) -> int:
        return max(0, int(original(self)) - 1)

    return backlog


def _one_more(original: Callable[..., Any]) -> Callable[..., Any]:
    def backlog(self: PipelinedSubpartition) -> int:
        return int(original(self)) + 1

    return backlog


def _keeps_cancelled(original: Callable[..., Any]) -> Callable[..., Any]:
    def close_channel(self: Session, channel: RemoteInputChannel) -> None:
        registry = self.channels
        number = registry.number_of(channel)
        original(self, channel)
        if number is not None:
            registry._channels[number] = channel
            registry._numbers[channel] = number

    return close_channel


def _floating_back_and_credit(original: Callable[..., Any]) -> Callable[..., Any]:
    def recycle(self: BufferManager, segment: Any) -> None:
        had_floating = bool(self._floating)
        original(self, segment)
        if had_floating and not self._floating:
            self._on_available(1)

    return recycle


def _forgets_one(original: Callable[..., Any]) -> Callable[..., Any]:
    def notify_channel_non_empty(self: InputGate, channel: Any, priority: bool = False) -> None:
        if not any(other.queued_in_gate for other in self.channels):
            original(self, channel, priority)

    return notify_channel_non_empty


def _waits_for_ever(original: Callable[..., Any]) -> Callable[..., Any]:
    def notify_buffer_available(self: BufferManager, segment: Any) -> bool:
        taken = bool(original(self, segment))
        self.waiting = True
        return taken

    return notify_buffer_available


def _resumes_in_silence(original: Callable[..., Any]) -> Callable[..., Any]:
    def resume_consumption(self: SubpartitionReader) -> None:
        view, self._view = self._view, None
        original(self)
        self._view = view
        if view is not None and not self.done:
            view.resume_consumption()
            self.credit = self.credit if self.initial else 0

    return resume_consumption


def _keeps_unannounced(original: Callable[..., Any]) -> Callable[..., Any]:
    def resume_consumption(self: RemoteInputChannel) -> None:
        unannounced = self.credit.unannounced
        original(self)
        self.credit.unannounced = unannounced

    return resume_consumption


def _sends_for_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    def poll(self: SubpartitionReader) -> Any:
        credit = self.credit
        polled = original(self)
        self.credit = credit
        return polled

    return poll


def _events_cost_credit(original: Callable[..., Any]) -> Callable[..., Any]:
    def available(self: SubpartitionReader) -> bool:
        return self.credit > 0 and bool(original(self))

    return available


def _queues_twice(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_reader(self: Outbox, reader: SubpartitionReader) -> None:
        reader.queued = False
        original(self, reader)

    return add_reader


def _loses_queue_of_channel(original: Callable[..., Any]) -> Callable[..., Any]:
    def release(self: RemoteInputChannel) -> None:
        self._queue.clear()
        original(self)

    return release


def _loses_queue_of_subpartition(original: Callable[..., Any]) -> Callable[..., Any]:
    def fail(self: PipelinedSubpartition) -> None:
        self._queue.clear()
        original(self)

    return fail


def _sends_events_for_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    def poll(self: SubpartitionReader) -> Any:
        before = self.event_credit
        polled = original(self)
        self.event_credit = before
        return polled

    return poll


def _tells_of_no_event(original: Callable[..., Any]) -> Callable[..., Any]:
    def notify_event_taken(self: Session, channel: RemoteInputChannel) -> None:
        channel.events_untold = 0

    return notify_event_taken


def _does_not_go_on_with_event_credit(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_event_credit(self: SubpartitionReader, events: int) -> None:
        self.event_credit += events

    return add_event_credit


def _skips_the_end_of_data(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_event(self: PipelinedSubpartition, buffer: Buffer) -> None:
        if buffer.data_type is DataType.END_OF_DATA:
            self.end = ChannelEnd.END_OF_DATA
            self.acknowledge_all_data_processed()
        else:
            original(self, buffer)

    return add_event


def _ends_before_the_last_buffer(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_event(self: PipelinedSubpartition, buffer: Buffer) -> None:
        original(self, buffer)
        if buffer.data_type is DataType.END_OF_DATA:
            self._queue.rotate(1)

    return add_event


def _ends_twice(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_event(self: PipelinedSubpartition, buffer: Buffer) -> None:
        original(self, buffer)
        if buffer.data_type is DataType.END_OF_DATA and not self.released:
            self._enqueue(Buffer.event(buffer.data_type, bytes(buffer.view())))

    return add_event


def _acknowledges_itself(original: Callable[..., Any]) -> Callable[..., Any]:
    def poll(self: SubpartitionReader) -> Any:
        polled = original(self)
        if polled is not None and polled.buffer.data_type is DataType.END_OF_DATA:
            self.acknowledge_all_data_processed()
        return polled

    return poll


def _lets(state: ChannelEnd, *data_types: DataType) -> Callable[..., Callable[..., Any]]:
    """Return a replacement that accepts types of buffers in a state that forbids them."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def after(self: RemoteInputChannel, data_type: DataType) -> Any:
            if self._arrived is not state or data_type not in data_types:
                return original(self, data_type)
            is_end = data_type is DataType.END_OF_PARTITION
            return ChannelEnd.END_OF_PARTITION if is_end else state

        return after

    return replace


DATA_TYPES = (DataType.DATA_BUFFER, DataType.DATA_BUFFER_WITH_CLEAR_END)

FAULTS = (
    # Events, of which a consumer holds only a limited number.
    Fault(
        "events are sent without event credit",
        FEW_EVENTS,
        SubpartitionReader,
        "poll",
        _sends_events_for_nothing,
    ),
    Fault(
        "the producer is not told that events were taken",
        FEW_EVENTS,
        Session,
        "notify_event_taken",
        _tells_of_no_event,
    ),
    Fault(
        "a reader that gets event credit does not go on",
        FEW_EVENTS,
        SubpartitionReader,
        "add_event_credit",
        _does_not_go_on_with_event_credit,
    ),
    # The end of a channel: the producer's rules.
    Fault(
        "a partition ends without the end of its data",
        ENDING,
        PipelinedSubpartition,
        "add_event",
        _skips_the_end_of_data,
    ),
    Fault(
        "data is sent behind its end",
        ENDING,
        PipelinedSubpartition,
        "add_event",
        _ends_before_the_last_buffer,
    ),
    Fault("the data ends twice", ENDING, PipelinedSubpartition, "add_event", _ends_twice),
    Fault(
        "a partition ends before its data is acknowledged",
        ENDING,
        SubpartitionReader,
        "poll",
        _acknowledges_itself,
    ),
    # The end of a channel: the consumer's checks.
    Fault(
        "a consumer takes a partition for whole whose data has not ended",
        CUT_SHORT,
        RemoteInputChannel,
        "_after",
        _lets(ChannelEnd.DATA, DataType.END_OF_PARTITION),
    ),
    Fault(
        "a consumer takes data behind its end",
        GOES_ON,
        RemoteInputChannel,
        "_after",
        _lets(ChannelEnd.END_OF_DATA, *DATA_TYPES),
    ),
    Fault(
        "a consumer takes data that it has acknowledged to have ended",
        GOES_ON,
        RemoteInputChannel,
        "_after",
        _lets(ChannelEnd.ACKNOWLEDGED, *DATA_TYPES),
    ),
    Fault(
        "a consumer takes a second end of the data",
        ENDS_TWICE,
        RemoteInputChannel,
        "_after",
        _lets(ChannelEnd.END_OF_DATA, DataType.END_OF_DATA),
    ),
    Fault(
        "a consumer takes a second end of the data that it has acknowledged",
        ENDS_TWICE,
        RemoteInputChannel,
        "_after",
        _lets(ChannelEnd.ACKNOWLEDGED, DataType.END_OF_DATA),
    ),
    Fault(
        "a consumer takes the end of a partition before it has acknowledged",
        HASTY,
        RemoteInputChannel,
        "_after",
        _lets(ChannelEnd.END_OF_DATA, DataType.END_OF_PARTITION),
    ),
    # Channels without exclusive buffers.
    Fault(
        "the backlog is not announced at zero credit",
        FLOATING_ONLY,
        Session,
        "announce_backlog",
        _says_nothing,
    ),
    Fault(
        "a blocked channel without exclusive buffers keeps its floating ones",
        SHARED_FLOATING,
        BufferManager,
        "release_floating",
        _keeps_floating,
    ),
    Fault(
        "resuming a channel without exclusive buffers keeps the producer's credit",
        SHARED_FLOATING,
        SubpartitionReader,
        "resume_consumption",
        _keeps_credit,
    ),
    Fault(
        "resuming a channel without exclusive buffers keeps the consumer's unannounced credit",
        TWO_FLOATING,
        RemoteInputChannel,
        "resume_consumption",
        _keeps_unannounced,
    ),
    # Alignment.
    Fault(
        "the producer does not stop behind an aligned barrier",
        SHARED,
        PipelinedSubpartition,
        "poll",
        _never_blocks,
    ),
    Fault(
        "a resumed reader does not look for data",
        PLAIN,
        SubpartitionReader,
        "resume_consumption",
        _resumes_in_silence,
    ),
    # Credit.
    Fault(
        "credit is given on receipt", PLAIN, RemoteInputChannel, "end_buffer", _credit_on_receipt
    ),
    Fault(
        "an announcement of credit is lost",
        LONGER,
        Session,
        "notify_credit_available",
        _says_nothing,
    ),
    Fault(
        "an announcement of credit is doubled",
        PLAIN,
        ChannelCredit,
        "take",
        _announces_twice,
    ),
    Fault("data costs no credit", PLAIN, SubpartitionReader, "poll", _sends_for_nothing),
    Fault(
        "events cost credit", FLOATING_ONLY, SubpartitionReader, "available", _events_cost_credit
    ),
    # Backlog.
    Fault("the backlog is one too low", PLAIN, PipelinedSubpartition, "backlog", _one_less),
    Fault("the backlog is one too high", PLAIN, PipelinedSubpartition, "backlog", _one_more),
    Fault("a flush is not notified", FLUSHED, PipelinedSubpartition, "flush", _says_nothing),
    # Buffers.
    Fault("a buffer is recycled twice", PLAIN, Outbox, "forget_in_flight", _recycles_twice),
    Fault(
        "a segment goes back with a slice, and two writers write to it",
        SLICED_AND_OTHERS,
        BufferSlice,
        "recycle_sent",
        _gives_the_segment_back,
    ),
    Fault("a slice has no reference", SLICED, PipelinedSubpartition, "_take", _takes_no_reference),
    Fault("slices overlap", SLICED, PipelinedSubpartition, "_take", _takes_from_the_beginning),
    Fault(
        "a floating buffer goes back and makes credit as well",
        LONGER,
        BufferManager,
        "recycle",
        _floating_back_and_credit,
    ),
    Fault(
        "a channel that got its floating buffer still counts as waiting",
        LONGER_FLOATING,
        BufferManager,
        "notify_buffer_available",
        _waits_for_ever,
    ),
    # Queues of readers and channels.
    Fault("a reader is queued twice", SHARED, Outbox, "add_reader", _queues_twice),
    Fault(
        "the gate forgets a channel while another is queued",
        SHARED,
        InputGate,
        "notify_channel_non_empty",
        _forgets_one,
    ),
    # Without credit.
    Fault(
        "a connection that stopped reading is not told that its buffer has come",
        NO_CREDIT,
        Session,
        "resume_reading",
        _says_nothing,
    ),
    # Cancellation and failure.
    Fault(
        "a late frame of a cancelled channel is accepted",
        CANCELLED,
        Session,
        "close_channel",
        _keeps_cancelled,
    ),
    Fault(
        "a cancelled channel loses what it has queued",
        CANCELLED,
        RemoteInputChannel,
        "release",
        _loses_queue_of_channel,
    ),
    Fault(
        "a failed producer loses what it has queued",
        FAILED,
        PipelinedSubpartition,
        "fail",
        _loses_queue_of_subpartition,
    ),
    Fault(
        "a failure is not told to the consumer",
        FAILED,
        Session,
        "on_channel_failed",
        _says_nothing,
    ),
)
