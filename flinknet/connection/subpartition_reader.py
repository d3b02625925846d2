"""The subpartition reader: the producer's end of one channel of a connection.

Theory of operation (Flink's CreditBasedSequenceNumberingViewReader). A reader exists from the
partition request until the consumer's cancel, which always comes; it *waits* for its view until
the partition is registered, then *reads*, and is *done* when it has sent the end of the partition
or an error. Credit is the number of data buffers it may send: the initial credit of the request,
plus what is added, minus one per data buffer. Events cost nothing. It is *available* iff the next
buffer is an event, or data and credit is left; the connection queues it then, at most once.

Without flow control by credit a reader needs none, and has none.

A consumer without exclusive buffers starts with no credit: the reader has to speak first and
announces its backlog whenever it has data and no credit.

The consumer answers two events: a blocking one with a resume, the end of the data with an
acknowledgement. An answer to what was not sent, or a second one, breaks the protocol. The end of
the partition is sent behind the acknowledgement (``buffer/channel_end.py``); the subpartition sees
to it that what it yields is in order.

Owned counters: ``credit``; ``allowance_bytes``, which the outbox keeps here for its rounds.
Invariant: ``credit >= 0``."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from flinknet.buffer.buffer import DataType
from flinknet.buffer.channel_end import ChannelEnd, ChannelStep
from flinknet.buffer.view import BufferAndBacklog, SubpartitionView
from flinknet.errors import RemoteProtocolError

__all__ = ["ReaderOwner", "SubpartitionReader", "SubpartitionReaderStatistics"]

_NONE = DataType.NONE


class SubpartitionReaderStatistics(NamedTuple):
    """Present state of one reader."""

    channel: int
    credit: int
    backlog: int
    queued: bool
    done: bool


class ReaderOwner(Protocol):
    """What a reader tells its connection."""

    peer: str

    def on_reader_available(self, reader: SubpartitionReader) -> None:
        """Queue the reader: it has something that it may send."""

    def on_channel_failed(self, channel: int, cause: BaseException) -> None:
        """Tell the consumer that its channel failed."""

    def announce_backlog(self, reader: SubpartitionReader, backlog: int) -> None:
        """Tell the consumer that data waits for credit."""


class SubpartitionReader:
    """Polls one view against credit; the requester that the partition registry answers."""

    __slots__ = (
        "_awaits_resume",
        "_end",
        "_owner",
        "_view",
        "allowance_bytes",
        "channel",
        "credit",
        "credit_max",
        "done",
        "initial",
        "needs_credit",
        "queued",
        "used",
    )

    def __init__(
        self,
        owner: ReaderOwner,
        channel: int,
        credit: int,
        credit_max: int,
        *,
        needs_credit: bool = True,
    ) -> None:
        self._owner = owner
        self._view: SubpartitionView | None = None
        self._awaits_resume = False
        self._end = ChannelEnd.DATA
        self.channel = channel
        self.initial = credit
        self.credit = credit
        self.credit_max = credit_max
        self.needs_credit = needs_credit
        self.allowance_bytes = 0
        self.queued = False
        self.done = False
        self.used = False
        """Whether anything was sent."""

    def __str__(self) -> str:
        return f"channel {self.channel} of {self._owner.peer}"

    def on_view_created(self, view: SubpartitionView) -> None:
        """The partition is there."""
        self._view = view
        self.notify_data_available()

    def on_request_failed(self, cause: BaseException) -> None:
        """The partition cannot be read."""
        self._fail(cause)

    def notify_data_available(self) -> None:
        """The view has something, or the producer failed."""
        view = self._view
        if view is None or self.done:
            return
        data_type = view.next_data_type()
        if data_type is not _NONE and (self.credit or self.may_send(data_type)):
            self._owner.on_reader_available(self)
            return
        cause = view.failure_cause()
        if cause is not None:
            self._fail(cause)
        elif self.initial == 0 and self.credit == 0 and self.needs_credit:
            backlog = view.backlog()
            if backlog:
                self._owner.announce_backlog(self, backlog)

    def available(self) -> bool:
        """Whether ``poll`` may be called now."""
        if self._view is None or self.done:
            return False
        return self.may_send(self._view.next_data_type())

    def may_send(self, data_type: DataType) -> bool:
        """Whether what comes next, of that type, may be sent: only data has its price."""
        if data_type is _NONE or self.done:
            return False
        return self.credit > 0 or data_type.is_event or not self.needs_credit

    def poll(self) -> BufferAndBacklog | None:
        """Take the next buffer and pay for it; None if there is nothing that may be sent."""
        view = self._view
        if view is None or not (self.credit or self.available()):
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
        self._end = self._end.after(ChannelStep.of(data_type), AssertionError, self)
        if data_type.is_blocking_upstream:
            self._awaits_resume = True
        elif data_type is DataType.END_OF_PARTITION:
            self.done = True
            view.release()
        return polled

    def add_credit(self, credit: int) -> None:
        """The consumer has more free buffers. Raises RemoteProtocolError if the number is
        absurd."""
        if credit == 0 or self.credit + credit > self.credit_max:
            raise RemoteProtocolError(
                f"the peer added a credit of {credit} to channel {self.channel}, which has "
                f"{self.credit}: it must add at least 1, up to {self.credit_max} in all "
                f"(credit_per_channel_max)"
            )
        had_none = self.credit == 0
        self.credit += credit
        if had_none:
            self.notify_data_available()

    def resume_consumption(self) -> None:
        """The consumer is past the barrier; without exclusive buffers credit starts from 0
        again."""
        if not self._awaits_resume:
            raise RemoteProtocolError(
                f"the peer resumed channel {self.channel}, which is not blocked"
            )
        self._awaits_resume = False
        if self.done or self._view is None:
            return
        if self.initial == 0:
            self.credit = 0
        self._view.resume_consumption()
        self.notify_data_available()

    def acknowledge_all_data_processed(self) -> None:
        """The consumer has processed every record before the end of data."""
        owner = f"the peer's channel {self.channel}"
        self._end = self._end.after(ChannelStep.ACKNOWLEDGEMENT, RemoteProtocolError, owner)
        if self._view is not None:
            self._view.acknowledge_all_data_processed()

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Fill buffers up to this size; before the view exists it is ignored, as in Flink."""
        if self._view is not None:
            self._view.notify_new_buffer_size(size_bytes)

    def release(self, cause: BaseException | None = None) -> None:
        """The consumer has cancelled, or was lost because of ``cause``."""
        self.done = True
        view, self._view = self._view, None
        if view is not None:
            view.release(cause)

    def _fail(self, cause: BaseException) -> None:
        if not self.done:
            self.done = True
            self._owner.on_channel_failed(self.channel, cause)

    def statistics(self) -> SubpartitionReaderStatistics:
        """Say what credit the reader has, and what waits for it."""
        return SubpartitionReaderStatistics(
            channel=self.channel,
            credit=self.credit,
            backlog=self._view.backlog() if self._view is not None else 0,
            queued=self.queued,
            done=self.done,
        )
