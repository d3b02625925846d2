"""The session: the requests of two workers to each other, independent of the link.

A session belongs to a pair of workers, and the directory of peers finds it by the peer's name. It
is the *consumer's* end for channels that its worker reads from the peer (``ChannelRegistry``, with
numbers chosen by this side). It is the *producer's* end for subpartitions that the peer reads
(``ReaderRegistry``, with numbers chosen by the peer). The message type decides between the two, so
the sides never coordinate numbers.

Output waits in the ``Outbox``, which decides the order. One ``Link`` at a time is attached to the
session while its socket lives. It takes the output and passes in the peer's messages. The receive
path queues answers and returns; it never waits for the send path. ``on_output`` notifies the link's
owner whenever output is added or the budget holds some back.

States (``failure`` is the first cause of an end)::

    OPEN    END -> ENDED, FAIL -> FAILED, DETACH -> LOST
    ENDED   FAIL -> FAILED, DETACH -> LOST
    FAILED  FAIL -> FAILED, DETACH -> LOST
    LOST    FAIL -> LOST, DETACH -> LOST

An ENDED session has sent its last message, and a FAILED one sends nothing more. The link's owner
closes the socket. A LOST session has failed every channel and released every reader, with its
cause.

Limits: control messages (``control_bytes_max``); events (``events_per_channel_max``); readers
(``channels_per_connection_max``, and ``channels_per_worker_max`` over all sessions); messages
without cost to the peer (``peer_limits.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

from flinknet.config import NetworkConfig
from flinknet.connection.channel_registry import ChannelRegistry
from flinknet.connection.checksummed_outbox import ChecksummedOutbox
from flinknet.connection.outbox import Outbox
from flinknet.connection.peer_limits import ReaderQuota, UnmetRequestPacer
from flinknet.connection.reader_registry import ReaderRegistry
from flinknet.connection.subpartition_reader import SubpartitionReader
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import ErrorCode, RemoteError, UnreadMessagesError, remote_error
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.texts import printable, text_of
from flinknet.transitions import Transitions
from flinknet.wire.codec import encode, encode_error
from flinknet.wire.messages import MessageType

__all__ = ["TRANSITIONS", "Session", "SessionEvent", "SessionState"]

log = logging.getLogger("flinknet.connection")


class SessionState(Enum):
    """Whether a session may still send messages."""

    OPEN = "messages are queued"
    ENDED = "the last message was sent"
    FAILED = "given up: nothing more is queued"
    LOST = "every channel failed, every reader released"


class SessionEvent(Enum):
    """Event in the life of a session."""

    END = "its last message is sent"
    FAIL = "it cannot continue"
    DETACH = "its link is lost"


_S, _E = SessionState, SessionEvent

TRANSITIONS: Transitions[SessionState, SessionEvent] = Transitions(
    {
        (_S.OPEN, _E.END): _S.ENDED,
        (_S.OPEN, _E.FAIL): _S.FAILED,
        (_S.OPEN, _E.DETACH): _S.LOST,  # session repair would change this row: see Session.detach
        (_S.ENDED, _E.FAIL): _S.FAILED,
        (_S.ENDED, _E.DETACH): _S.LOST,
        (_S.FAILED, _E.FAIL): _S.FAILED,
        (_S.FAILED, _E.DETACH): _S.LOST,
        (_S.LOST, _E.FAIL): _S.LOST,
        (_S.LOST, _E.DETACH): _S.LOST,
    }
)

_OPEN = SessionState.OPEN


class Session:
    """Channels, readers and output between this worker and one peer."""

    def __init__(
        self,
        peer: str,
        registry: PartitionRegistry,
        config: NetworkConfig,
        quota: ReaderQuota | None = None,
        unmet_requests: UnmetRequestPacer | None = None,
        *,
        worker_id: str = "",
        checksums: bool = False,
        on_lost: Callable[[Session], None] | None = None,
    ) -> None:
        """Create a session without a link.

        ``quota`` counts the readers of all sessions of the worker, and ``unmet_requests`` their
        unmet requests. The session creates its own if they are omitted. ``on_lost`` is called once,
        when the session is LOST.
        """
        self.peer = peer
        self.state = _OPEN
        self.failure: BaseException | None = None
        self.checksums = checksums
        self.on_output: Callable[[], None] = _no_link
        self.channels = ChannelRegistry(config)
        if quota is None:
            quota = ReaderQuota(config.wire.channels_per_worker_max)
        if unmet_requests is None:
            unmet_requests = UnmetRequestPacer(config.wire.unmet_requests_per_second_max)
        self.readers = ReaderRegistry(self, registry, config, quota, unmet_requests, worker_id)
        outbox = ChecksummedOutbox if checksums else Outbox
        self.outbox = outbox(config.segment_bytes, _no_link)
        self.on_reader_available = self.outbox.add_reader
        self.frames_written = self.outbox.forget_in_flight
        """Called by the link when its transport has taken all frames. A session that ends with its
        link sends no frame twice, so its outbox recycles the buffers. (A session that can be
        repaired would do so when the peer acknowledges, and do nothing here.)"""
        self._limits = config.wire
        self._on_lost = on_lost

    @property
    def in_use(self) -> bool:
        """Whether the session has channels or readers."""
        return len(self.channels) > 0 or len(self.readers) > 0

    # -- the link ---------------------------------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """Whether a link carries the session."""
        return self.on_output is not _no_link

    def attach(self, on_output: Callable[[], None]) -> None:
        """Attach a link; ``on_output`` is called when there is output to send."""
        assert self.state is _OPEN, f"a link for a session that is {self.state.name}"
        assert not self.is_attached, "a second link for a session"
        self.on_output = self.outbox.on_output = on_output

    def detach(self, cause: BaseException) -> None:
        """Detach the link, which is lost because of ``cause``. Idempotent.

        A lost link ends its session. Only the table decides this, in the row of an OPEN session.
        Session repair would change this row to a state without a link. Channels, readers and credit
        would stay. The outbox would keep its queues, and all frames behind the last position that
        the peer has acknowledged (``frames_written`` would recycle nothing). The side that dialled
        would dial again while the other waits, and ``attach`` would make the session OPEN again. A
        deadline, or too many kept bytes, would end it as below. A session that is ENDED or FAILED
        is not repaired.
        """
        self.on_output = self.outbox.on_output = _no_link
        before = self.state
        self._become(_E.DETACH)
        # Only the first time.
        if self.state is _S.LOST is not before:
            self._lose(cause)

    def _lose(self, cause: BaseException) -> None:
        """Fail every channel and release every reader, with the first cause."""
        if self.failure is None:
            self.failure = cause
        self.outbox.clear()
        try:
            self.channels.lost(self.failure)
        finally:  # a channel's listener may raise, and there is no second call
            try:
                self.readers.lost(self.failure)
            finally:
                if self._on_lost is not None:
                    self._on_lost(self)

    # -- input ------------------------------------------------------------------------------------

    def on_message(
        self, message_type: MessageType, fields: tuple[int | bytes, ...], now: float
    ) -> None:
        """Handle a message about a channel or a reader.

        Raises:
            RemoteProtocolError: If the message is invalid.
        """
        about_a_reader = _ABOUT_A_READER.get(message_type)
        if about_a_reader is not None:
            about_a_reader(self.readers, *fields)
        else:
            _BY_TYPE[message_type](self, now, *fields)

    def on_error(self, channel: int, code: int, text: str) -> None:
        """Fail one channel.

        Raises:
            RemoteProtocolError: If the channel was never requested, or has ended already.
        """
        log.debug("%s: channel %d failed at the producer: %s", self.peer, channel, printable(text))
        self.channels.fail(channel, remote_error(code, text))

    def _on_partition_request(
        self, now: float, channel: int, wire_id: bytes, subpartition: int, credit: int
    ) -> None:
        self.readers.request(channel, wire_id, subpartition, credit, now)

    def _on_cancel(self, now: float, channel: int) -> None:
        self.outbox.remove_reader(self.readers.cancel(channel, now))

    def _on_backlog_announcement(self, now: float, channel: int, backlog: int) -> None:
        self.channels.on_backlog(channel, backlog)

    # -- the consumer's requests (PartitionRequestClient) -----------------------------------------

    def request_subpartition(self, channel: RemoteInputChannel) -> None:
        """Give the channel a number and send its request."""
        if self.failure is not None:
            channel.fail(self.failure)
            return
        number = self.channels.add(channel)
        log.debug("%s: channel %d requested for %s", self.peer, number, channel)
        self._send(
            encode(
                MessageType.PARTITION_REQUEST,
                number,
                wire_partition_id(channel.location.partition_id),
                channel.location.subpartition,
                channel.initial_credit,
            )
        )

    def offer_credit(self, channel: RemoteInputChannel) -> None:
        """Send the channel's AddCredit together with any other output."""
        number = self.channels.number_of(channel)
        if number is not None:
            self.outbox.offer_credit(number, channel.credit)

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        """Queue the channel's AddCredit."""
        number = self.channels.number_of(channel)
        if number is not None and self.state is _OPEN:
            self.outbox.add_credit(number, channel.credit)

    def notify_event_taken(self, channel: RemoteInputChannel) -> None:
        """Send AddEventCredit before the producer runs out of event credit.

        It is sent once the reader has taken half of the channel's event limit since the last one.
        """
        if 2 * channel.events_untold >= self._limits.events_per_channel_max:
            self._send_for(channel, MessageType.ADD_EVENT_CREDIT, channel.take_event_credit())

    def resume_reading(self, channel: RemoteInputChannel) -> None:
        """Let the link resume if it is stalled on this channel."""
        if self.channels.stalled_on is channel:
            self.channels.can_resume = True
            self.on_output()

    def resume_consumption(self, channel: RemoteInputChannel) -> None:
        """Send ResumeConsumption."""
        self._send_for(channel, MessageType.RESUME_CONSUMPTION)

    def acknowledge_all_data_processed(self, channel: RemoteInputChannel) -> None:
        """Send AcknowledgeAllRecordsProcessed."""
        self._send_for(channel, MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED)

    def announce_buffer_size(self, channel: RemoteInputChannel, size_bytes: int) -> None:
        """Queue the channel's NewBufferSize; only the last size is sent."""
        number = self.channels.number_of(channel)
        if number is not None and self.state is _OPEN:
            self.outbox.add_buffer_size(number, size_bytes)

    def close_channel(self, channel: RemoteInputChannel) -> None:
        """Remove the channel and cancel its request; frames on their way are skipped on arrival."""
        number = self.channels.number_of(channel)
        if number is not None:
            log.debug("%s: channel %d cancelled, which was %s", self.peer, number, channel)
            self._send(encode(MessageType.CANCEL_PARTITION_REQUEST, number))
            self.channels.remove(channel)
            self.outbox.remove_channel(number)
        # A frame that waits for a buffer of this channel is skipped.
        self.resume_reading(channel)

    def _send_for(
        self, channel: RemoteInputChannel, message_type: MessageType, *fields: int
    ) -> None:
        number = self.channels.number_of(channel)
        if number is not None:
            self._send(encode(message_type, number, *fields))

    # -- the producer's readers (ReaderOwner) -----------------------------------------------------

    def on_channel_failed(self, channel: int, cause: BaseException) -> None:
        """Send the error of one channel."""
        log.debug("%s: channel %d failed: %s", self.peer, channel, text_of(cause))
        code = cause.code if isinstance(cause, RemoteError) else ErrorCode.INTERNAL
        self._send(encode_error(channel, code, str(cause), self._limits))

    def announce_backlog(self, reader: SubpartitionReader, backlog: int) -> None:
        """Send BacklogAnnouncement."""
        self._send(encode(MessageType.BACKLOG_ANNOUNCEMENT, reader.channel, backlog))

    # -- output -----------------------------------------------------------------------------------

    def send_heartbeat(self) -> None:
        """Send a heartbeat."""
        self._send(HEARTBEAT)

    def _send(self, message: bytes) -> None:
        if self.state is not _OPEN:
            return
        outbox, limit = self.outbox, self._limits.control_bytes_max
        outbox.add_message(message)
        # Credit does not limit control messages, so a peer that does not read is cut off.
        if outbox.control_bytes > limit:
            self.fail(
                UnreadMessagesError(
                    f"{self.peer} does not read: {outbox.messages} control messages wait for it, "
                    f"over {limit} bytes (control_bytes_max)"
                )
            )

    # -- life cycle -------------------------------------------------------------------------------

    def end(self) -> None:
        """Handle that the last message was taken."""
        self._become(_E.END)

    def fail(self, cause: BaseException) -> None:
        """Send nothing more, because of ``cause``; the first cause counts."""
        if self.failure is None:
            self.failure = cause
        self._become(_E.FAIL)

    def _become(self, event: SessionEvent) -> None:
        before, self.state = self.state, TRANSITIONS[self.state, event]
        if self.state is not before:
            log.debug("%s: session %s -> %s", self.peer, before.name, self.state.name)

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        self.outbox.check_invariants()
        assert self.outbox.readers == sum(reader.queued for reader in self.readers), (
            "a marked reader is not queued"
        )
        assert all(reader.credit >= 0 for reader in self.readers), "credit is negative"
        assert all(
            0 <= reader.event_credit <= self._limits.events_per_channel_max
            for reader in self.readers
        ), "event credit is out of bounds"
        self.channels.check_invariants()
        assert not (self.is_attached and self.state is _S.LOST), "a lost session has a link"
        assert (self.failure is None) == (self.state in (_S.OPEN, _S.ENDED)), (
            "the state of a session and its cause do not match"
        )


def _no_link() -> None:
    """Do nothing without a link; the queued output waits."""


HEARTBEAT = encode(MessageType.HEARTBEAT)

_BY_TYPE: dict[MessageType, Callable[..., None]] = {
    MessageType.PARTITION_REQUEST: Session._on_partition_request,
    MessageType.CANCEL_PARTITION_REQUEST: Session._on_cancel,
    MessageType.BACKLOG_ANNOUNCEMENT: Session._on_backlog_announcement,
}
_ABOUT_A_READER: dict[MessageType, Callable[..., None]] = {
    MessageType.ADD_EVENT_CREDIT: ReaderRegistry.add_event_credit,
    MessageType.RESUME_CONSUMPTION: ReaderRegistry.resume_consumption,
    MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED: ReaderRegistry.acknowledge_all_data_processed,
    MessageType.NEW_BUFFER_SIZE: ReaderRegistry.notify_new_buffer_size,
}
