"""The subpartition reader: the producer's end of one channel of a connection.

This is Flink's CreditBasedSequenceNumberingViewReader. A reader exists from the partition request
until the consumer's cancel, which always comes::

    WAITING       GRANT -> READING, FAIL -> DONE, RELEASE -> RELEASED
    READING       BLOCK -> BLOCKED, END -> DONE, FAIL -> DONE, RELEASE -> RELEASED
    BLOCKED       RESUME -> READING, FAIL -> DONE_BLOCKED, RELEASE -> RELEASED
    DONE_BLOCKED  RESUME -> DONE, RELEASE -> RELEASED
    DONE          RELEASE -> RELEASED
    RELEASED      RELEASE -> RELEASED

*Credit* is the number of data buffers that the reader may send: the request's initial credit, plus
added credit, minus one per data buffer. *Event credit* is the number of unread events that the
consumer may hold, minus one per event, plus one for each event it reports as taken. The reader is
*available* iff it can pay for the next buffer or event. The connection then queues it, at most
once.

The consumer answers two events: a blocking event with a resume, and the end of data with an
acknowledgement. An answer without its event, or a second answer, breaks the protocol. The end of
the partition follows the acknowledgement (``buffer/channel_end.py``). The subpartition yields
everything in order, and nothing between a barrier and its resume.

Invariants: ``credit >= 0``, ``0 <= event_credit <= events_max``.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import NamedTuple, Protocol

from flinknet.buffer.buffer import DataType
from flinknet.buffer.channel_end import ChannelEnd, ChannelStep
from flinknet.buffer.view import BufferAndBacklog, SubpartitionView
from flinknet.errors import RemoteProtocolError
from flinknet.transitions import Transitions

__all__ = [
    "TRANSITIONS",
    "ReaderEvent",
    "ReaderOwner",
    "ReaderState",
    "SubpartitionReader",
    "SubpartitionReaderStatistics",
]

log = logging.getLogger("flinknet.connection")

_NONE = DataType.NONE
_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END

# A part of the event credit is reserved for priority events, which must overtake other events when
# the consumer is blocked.
_RESERVED_SHARE = 10
"""One event in this many is reserved for priority events."""


class ReaderState(Enum):
    """Progress of a reader."""

    WAITING = "the partition has not been granted"
    READING = "data of the view is sent"
    BLOCKED = "a barrier was sent: nothing is sent until the consumer resumes"
    DONE_BLOCKED = "an error was sent while blocked"
    DONE = "the end of the partition or an error was sent"
    RELEASED = "the consumer has cancelled, or is lost"


class ReaderEvent(Enum):
    """Event in the life of a reader."""

    GRANT = "the partition is granted"
    BLOCK = "an event was sent that stops the producer"
    RESUME = "the consumer has processed that event"
    END = "the end of the partition was sent"
    FAIL = "an error was sent"
    RELEASE = "the consumer has cancelled, or is lost"


_S, _E = ReaderState, ReaderEvent

TRANSITIONS: Transitions[ReaderState, ReaderEvent] = Transitions(
    {
        (_S.WAITING, _E.GRANT): _S.READING,
        (_S.WAITING, _E.FAIL): _S.DONE,
        (_S.WAITING, _E.RELEASE): _S.RELEASED,
        (_S.READING, _E.BLOCK): _S.BLOCKED,
        (_S.READING, _E.END): _S.DONE,
        (_S.READING, _E.FAIL): _S.DONE,
        (_S.READING, _E.RELEASE): _S.RELEASED,
        (_S.BLOCKED, _E.RESUME): _S.READING,
        (_S.BLOCKED, _E.FAIL): _S.DONE_BLOCKED,  # the resume may be on its way already
        (_S.BLOCKED, _E.RELEASE): _S.RELEASED,
        (_S.DONE_BLOCKED, _E.RESUME): _S.DONE,
        (_S.DONE_BLOCKED, _E.RELEASE): _S.RELEASED,
        (_S.DONE, _E.RELEASE): _S.RELEASED,
        (_S.RELEASED, _E.RELEASE): _S.RELEASED,
    }
)

_READING = ReaderState.READING
_BLOCKED = ReaderState.BLOCKED
_LIVE = frozenset((_S.WAITING, _S.READING, _S.BLOCKED))


class SubpartitionReaderStatistics(NamedTuple):
    """Current state of one reader."""

    channel: int
    credit: int
    backlog: int
    queued: bool
    done: bool


class ReaderOwner(Protocol):
    """Connection of a reader."""

    peer: str

    def on_reader_available(self, reader: SubpartitionReader) -> None:
        """Queue the reader, which has a buffer that it may send."""

    def on_channel_failed(self, channel: int, cause: BaseException) -> None:
        """Tell the consumer that its channel failed."""

    def announce_backlog(self, reader: SubpartitionReader, backlog: int) -> None:
        """Tell the consumer that data waits for credit."""


class SubpartitionReader:
    """Polls one view against credit; the requester that the partition registry answers."""

    __slots__ = (
        "_buffer_bytes",
        "_end",
        "_event_reserve",
        "_events_max",
        "_owner",
        "_view",
        "allowance_bytes",
        "channel",
        "credit",
        "credit_max",
        "event_credit",
        "initial",
        "needs_credit",
        "queued",
        "state",
        "used",
    )

    def __init__(
        self,
        owner: ReaderOwner,
        channel: int,
        credit: int,
        credit_max: int,
        *,
        events_max: int,
        needs_credit: bool = True,
    ) -> None:
        """Create a WAITING reader.

        ``events_max`` is the number of events that the consumer may hold before its task takes
        them.
        """
        self._owner = owner
        self._view: SubpartitionView | None = None
        self._end = ChannelEnd.DATA
        self.channel = channel
        self.initial = credit
        self.credit = credit
        self.credit_max = credit_max
        self.event_credit = events_max
        self._events_max = events_max
        self._event_reserve = events_max // _RESERVED_SHARE
        # Without credit-based flow control, the reader needs no credit and has none.
        self.needs_credit = needs_credit
        # The outbox keeps the bytes left of its current round here.
        self.allowance_bytes = 0
        self._buffer_bytes = 0
        """Buffer size that the consumer has requested, 0 if none."""
        self.queued = False
        self.state = ReaderState.WAITING
        self.used = False
        """Whether anything was sent."""

    def __str__(self) -> str:
        return f"channel {self.channel} of {self._owner.peer}"

    @property
    def done(self) -> bool:
        """Whether nothing more will be sent."""
        return self.state not in _LIVE

    def on_view_created(self, view: SubpartitionView) -> None:
        """Take the view of the partition."""
        self._become(_E.GRANT)
        self._view = view
        if self._buffer_bytes:
            view.notify_new_buffer_size(self._buffer_bytes)
        self.notify_data_available()

    def on_request_failed(self, cause: BaseException) -> None:
        """Send the error of a partition that cannot be read."""
        self._fail(cause)

    def notify_data_available(self) -> None:
        """Handle that the view has data, or the producer failed."""
        view = self._view
        if view is None or (self.state is not _READING and self.state is not _BLOCKED):
            return
        data_type = view.next_data_type()
        if self.may_send(data_type):
            self._owner.on_reader_available(self)
            return
        cause = view.failure_cause()
        if cause is not None:
            self._fail(cause)
        # A consumer without exclusive buffers starts with no credit, so the reader speaks first.
        elif self.initial == 0 and self.credit == 0 and self.needs_credit:
            backlog = view.backlog()
            if backlog:
                self._owner.announce_backlog(self, backlog)

    def notify_barrier_queued(self) -> None:
        """Do nothing: the consumer announces the barrier when it arrives there."""

    def available(self) -> bool:
        """Whether ``poll`` may be called now."""
        return self._view is not None and self.may_send(self._view.next_data_type())

    def may_send(self, data_type: DataType) -> bool:
        """Whether a next buffer of this type may be sent, and can be paid for."""
        if data_type is _NONE or (self.state is not _READING and self.state is not _BLOCKED):
            return False
        if data_type is _DATA_WITH_CLEAR_END or data_type is _DATA:
            return self.credit > 0 or not self.needs_credit
        return self.event_credit > (0 if data_type.has_priority else self._event_reserve)

    def poll(self) -> BufferAndBacklog | None:
        """Take the next buffer and pay for it; None if none may be sent."""
        view = self._view
        # With both kinds of credit, any next buffer can be paid for: its type is not asked for.
        can_pay = self.credit > 0 and self.event_credit > self._event_reserve
        if view is None or not (can_pay or self.available()):
            return None
        polled = view.poll()
        if polled is None:
            return None
        self.used = True
        data_type = polled.buffer.data_type
        if data_type.is_buffer:
            if self.needs_credit:
                assert self.credit > 0, "data was polled without credit"
                self.credit -= 1
            return polled
        assert self.event_credit > 0, "an event was polled without event credit"
        self.event_credit -= 1
        self._end = self._end.after(ChannelStep.of(data_type), AssertionError, self)
        if data_type.is_blocking_upstream:
            self._become(_E.BLOCK)
        elif data_type is DataType.END_OF_PARTITION:
            self._become(_E.END)
            view.release()
        return polled

    def add_credit(self, credit: int) -> None:
        """Add credit for the consumer's free buffers.

        Raises:
            RemoteProtocolError: If the number is 0 or exceeds the limit.
        """
        if credit == 0 or self.credit + credit > self.credit_max:
            raise RemoteProtocolError(
                f"the peer added a credit of {credit} to channel {self.channel}, which has "
                f"{self.credit}: it must add at least 1, up to {self.credit_max} in all "
                f"(credit_per_channel_max)"
            )
        had_none = self.credit == 0
        self.credit += credit
        # A reader with credit left does not wait for more.
        if had_none:
            self.notify_data_available()

    def add_event_credit(self, events: int) -> None:
        """Add event credit for events that the consumer has taken.

        Raises:
            RemoteProtocolError: If the number is 0, or exceeds the events sent.
        """
        if events == 0 or self.event_credit + events > self._events_max:
            raise RemoteProtocolError(
                f"the peer acknowledged {events} events of channel {self.channel}, but the number "
                f"sent and not yet acknowledged is {self._events_max - self.event_credit}"
            )
        was_out = self.event_credit <= self._event_reserve
        self.event_credit += events
        if was_out:
            self.notify_data_available()

    def resume_consumption(self) -> None:
        """Resume after a barrier that the consumer has passed.

        Without exclusive buffers, credit starts from 0 again.
        """
        if self.state not in (_BLOCKED, _S.DONE_BLOCKED):
            raise RemoteProtocolError(
                f"the peer resumed channel {self.channel}, which is not blocked"
            )
        self._become(_E.RESUME)
        if self._view is None or self.state is not _READING:
            return
        if self.initial == 0:
            self.credit = 0
        self._view.resume_consumption()
        self.notify_data_available()

    def acknowledge_all_data_processed(self) -> None:
        """Pass on that the consumer has processed all records before the end of data."""
        owner = f"the peer's channel {self.channel}"
        self._end = self._end.after(ChannelStep.ACKNOWLEDGEMENT, RemoteProtocolError, owner)
        assert self._view is not None, "the end of data was sent, so there is a view"
        self._view.acknowledge_all_data_processed()

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Fill buffers up to this size; a waiting reader keeps the last size for its view."""
        self._buffer_bytes = size_bytes
        if self._view is not None:
            self._view.notify_new_buffer_size(size_bytes)

    def release(self, cause: BaseException | None = None) -> None:
        """Release the view of a consumer that has cancelled, or was lost because of ``cause``."""
        self._become(_E.RELEASE)
        view, self._view = self._view, None
        if view is not None:
            view.release(cause)

    def refuse(self) -> None:
        """Become DONE without a view; only the consumer's cancel is awaited."""
        self._become(_E.FAIL)

    def _fail(self, cause: BaseException) -> None:
        if self.state in _LIVE:
            self._become(_E.FAIL)
            self._owner.on_channel_failed(self.channel, cause)

    def _become(self, event: ReaderEvent) -> None:
        before, self.state = self.state, TRANSITIONS[self.state, event]
        log.debug("%s: reader %s -> %s", self, before.name, self.state.name)

    def backlog(self) -> int:
        """Return the number of data buffers that wait to be sent."""
        return self._view.backlog() if self._view is not None else 0

    def statistics(self) -> SubpartitionReaderStatistics:
        """Return the credit and the backlog."""
        return SubpartitionReaderStatistics(
            channel=self.channel,
            credit=self.credit,
            backlog=self.backlog(),
            queued=self.queued,
            done=self.done,
        )
