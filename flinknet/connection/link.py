"""The link: one socket's worth of a session, without the socket.

Input: ``get_buffer`` and ``received``. A violation raises RemoteProtocolError, and the owner then
calls ``reject``: a violation ends the whole link, never only a channel. Messages about channels go
to the ``Session``; heartbeats and CloseRequests belong to the link. One call handles at most
``turn_messages_max`` messages. If there are more, the link ``has_more``: the owner lets the event
loop turn and calls again before it reads. Without credit (``flow_control`` is "off"), a frame may
find no buffer. The link is then *stalled*, and the owner stops reading until ``can_resume``.

Output: ``next_frames`` takes the session's output. The frames refer to the buffers' own memory. The
owner calls ``frames_written`` when the socket has taken all of them, and the session then decides
which buffers to recycle. The owner also calls ``tick`` once per heartbeat interval.

Either side ends the link with a CloseRequest, its last message, behind all queued output. The other
side answers with its own, and both may begin at the same time. The owner closes the socket when
both have been sent (CLOSED)::

    OPEN            CLOSE -> CLOSING, RECEIVE_CLOSE -> CLOSE_RECEIVED
    OPEN            REJECT -> REJECTED, LOSE -> LOST
    CLOSING         CLOSE -> CLOSING, SEND_CLOSE -> CLOSE_SENT, RECEIVE_CLOSE -> CLOSE_RECEIVED
    CLOSING         REJECT -> REJECTED, LOSE -> LOST
    CLOSE_SENT      CLOSE -> CLOSE_SENT, RECEIVE_CLOSE -> CLOSED, REJECT -> REJECTED, LOSE -> LOST
    CLOSE_RECEIVED  CLOSE -> CLOSE_RECEIVED, SEND_CLOSE -> CLOSED
    CLOSE_RECEIVED  REJECT -> REJECTED, LOSE -> LOST
    CLOSED          CLOSE -> CLOSED, REJECT -> REJECTED, LOSE -> LOST
    REJECTED        CLOSE -> REJECTED, LOSE -> LOST
    LOST            CLOSE -> LOST, LOSE -> LOST

The session keeps the ``failure``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, NoReturn

from flinknet.config import NetworkConfig
from flinknet.connection.liveness import Liveness
from flinknet.connection.peer_limits import RateLimit
from flinknet.connection.session import HEARTBEAT, Session
from flinknet.connection.subpartition_reader import SubpartitionReaderStatistics
from flinknet.errors import (
    CorruptedDataError,
    ErrorCode,
    RemoteProtocolError,
    RemoteTransportError,
)
from flinknet.texts import text_of
from flinknet.transitions import Transitions
from flinknet.wire.buffer_header import BufferHeader
from flinknet.wire.checksum import seal
from flinknet.wire.checksummed_decoder import ChecksummedFrameDecoder
from flinknet.wire.codec import BufferReceiver, FrameDecoder, encode, encode_error
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType

__all__ = ["TRANSITIONS", "ConnectionStatistics", "Link", "LinkEvent", "LinkState"]

log = logging.getLogger("flinknet.connection")


class LinkState(Enum):
    """Which sides may still send messages."""

    OPEN = "both sides may send messages"
    CLOSING = "this side sends its queued output, then CloseRequest"
    CLOSE_SENT = "this side has sent CloseRequest"
    CLOSE_RECEIVED = "the peer has sent CloseRequest: this side sends its output, then its own"
    CLOSED = "both sides have sent CloseRequest: the socket can be closed"
    REJECTED = "the peer broke the protocol: nothing more is received or sent"
    LOST = "the socket is gone"


class LinkEvent(Enum):
    """Event in the life of a link."""

    CLOSE = "this side closes the link"
    SEND_CLOSE = "this side sends CloseRequest"
    RECEIVE_CLOSE = "CloseRequest arrives from the peer"
    REJECT = "the peer broke the protocol"
    LOSE = "the socket is gone"


_S, _E = LinkState, LinkEvent

TRANSITIONS: Transitions[LinkState, LinkEvent] = Transitions(
    {
        (_S.OPEN, _E.CLOSE): _S.CLOSING,
        (_S.OPEN, _E.RECEIVE_CLOSE): _S.CLOSE_RECEIVED,
        (_S.OPEN, _E.REJECT): _S.REJECTED,
        (_S.OPEN, _E.LOSE): _S.LOST,
        (_S.CLOSING, _E.CLOSE): _S.CLOSING,
        (_S.CLOSING, _E.SEND_CLOSE): _S.CLOSE_SENT,
        (_S.CLOSING, _E.RECEIVE_CLOSE): _S.CLOSE_RECEIVED,
        (_S.CLOSING, _E.REJECT): _S.REJECTED,
        (_S.CLOSING, _E.LOSE): _S.LOST,
        (_S.CLOSE_SENT, _E.CLOSE): _S.CLOSE_SENT,
        (_S.CLOSE_SENT, _E.RECEIVE_CLOSE): _S.CLOSED,
        (_S.CLOSE_SENT, _E.REJECT): _S.REJECTED,
        (_S.CLOSE_SENT, _E.LOSE): _S.LOST,
        (_S.CLOSE_RECEIVED, _E.CLOSE): _S.CLOSE_RECEIVED,
        (_S.CLOSE_RECEIVED, _E.SEND_CLOSE): _S.CLOSED,
        (_S.CLOSE_RECEIVED, _E.REJECT): _S.REJECTED,
        (_S.CLOSE_RECEIVED, _E.LOSE): _S.LOST,
        (_S.CLOSED, _E.CLOSE): _S.CLOSED,
        (_S.CLOSED, _E.REJECT): _S.REJECTED,
        (_S.CLOSED, _E.LOSE): _S.LOST,
        (_S.REJECTED, _E.CLOSE): _S.REJECTED,
        (_S.REJECTED, _E.LOSE): _S.LOST,
        (_S.LOST, _E.CLOSE): _S.LOST,
        (_S.LOST, _E.LOSE): _S.LOST,
    }
)

_OPEN = LinkState.OPEN
_MUST_SEND_CLOSE = frozenset((_S.CLOSING, _S.CLOSE_RECEIVED))
_AGREED = frozenset((_S.CLOSING, _S.CLOSE_SENT, _S.CLOSE_RECEIVED, _S.CLOSED))
_CAN_SEND_REASON = frozenset((_S.OPEN, _S.CLOSING))


class ConnectionStatistics(NamedTuple):
    """Current state of a connection; buffers, bytes and drops are totals since its start."""

    peer: str
    channels: int
    readers: tuple[SubpartitionReaderStatistics, ...]
    """Empty unless requested."""
    readers_available: int
    control_messages_queued: int
    control_bytes_queued: int
    buffers_in_flight: int
    buffers_out: int
    bytes_out: int
    buffers_in: int
    bytes_in: int
    buffers_dropped: int
    messages_dropped: int
    """Errors and backlogs that came for a channel already cancelled, like the dropped buffers."""
    credit_messages_out: int
    stalled: bool

    @property
    def credit(self) -> int:
        """Free buffers at the peer for the readers' data."""
        return sum(reader.credit for reader in self.readers)

    @property
    def backlog(self) -> int:
        """Buffers that the readers have to send."""
        return sum(reader.backlog for reader in self.readers)


class Link:
    """One end of the only connection between two workers.

    ``on_output`` is called when the session has output to send.
    """

    def __init__(
        self, session: Session, config: NetworkConfig, on_output: Callable[[], None]
    ) -> None:
        session.attach(on_output)
        self.session = session
        self.state = _OPEN
        self._config = config
        decoder = ChecksummedFrameDecoder if session.checksums else FrameDecoder
        self._decoder = decoder(
            self,
            session.channels,
            config.wire,
            segment_bytes=config.segment_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
            turn_messages_max=config.turn_messages_max,
        )
        # Called for every read, credit or write, so without a method in between.
        self.get_buffer = self._decoder.get_buffer
        self.on_credit = session.readers.add_credit
        self.frames_written = session.frames_written
        self._take_frames = session.outbox.next_frames
        self._sealed = seal if session.checksums else bytes
        """Converts a message to its form on the wire."""
        self._heartbeats = RateLimit(config.wire.heartbeats_per_minute_max)
        self._liveness = Liveness(
            config.heartbeat_interval_ms / 1000, config.heartbeat_timeout_ms / 1000
        )
        self._now = 0.0
        self._bytes_in = 0

    # -- bytes in ---------------------------------------------------------------------------------

    def received(self, size: int, now: float) -> None:
        """Handle ``size`` bytes read into ``get_buffer()``.

        With checksums, bytes that only continue a body are no sign of life. The damage may be in
        the body's length, so that all later bytes go into it, including heartbeats.

        Raises:
            RemoteProtocolError: If the peer breaks the protocol.
        """
        self._now = now
        self._bytes_in += size
        if size >= self._decoder.body_missing or not self.session.checksums:
            self._liveness.heard_at = now
        self._decoder.received(size)

    @property
    def has_more(self) -> bool:
        """Whether more messages have been read than one turn of the event loop may handle.

        The next turn calls ``received(0, now)`` before it reads more. The pause lets others be
        served; it is not flow control.
        """
        return self._decoder.has_more

    @property
    def must_pause(self) -> bool:
        """Whether the peer has requested so many absent partitions that it must wait.

        Such requests end a call of ``received`` early. Nothing more may be read before
        ``take_pause``.
        """
        return self.session.readers.paused_until is not None

    def take_pause(self) -> float:
        """Return the time until which the due pause lasts.

        If it has passed, the pause ends immediately, or in the next turn of the event loop.
        """
        readers = self.session.readers
        until, readers.paused_until = readers.paused_until, None
        return until or 0.0

    @property
    def stalled(self) -> bool:
        """Whether a frame waits for a buffer, so that nothing more may be read."""
        return self.session.channels.stalled_on is not None

    @property
    def can_resume(self) -> bool:
        """Whether the stalled link may go on: its buffer has come, or the channel is gone."""
        return self.session.channels.can_resume

    def resume(self, now: float) -> None:
        """Continue with the bytes read before the stall; the link may stall again."""
        self.session.channels.resume()
        self._now = now
        self._decoder.received(0)

    def on_message(self, message_type: MessageType, fields: tuple[int | bytes, ...]) -> None:
        """Handle a message without a body; see MessageReceiver."""
        if message_type is MessageType.HEARTBEAT:
            self._on_heartbeat()
        elif message_type is MessageType.CLOSE_REQUEST:
            self._receive_close()
            self.session.on_output()
        else:
            self.session.on_message(message_type, fields, self._now)
            if self.session.readers.paused_until is not None:
                self._decoder.end_turn()

    def on_error_response(self, channel: int, code: int, text: str) -> None:
        """Handle an error of one channel or of the connection; see MessageReceiver."""
        if channel != CONNECTION_CHANNEL:
            self.session.on_error(channel, code, text)
            return
        self._receive_close()
        corrupted = code == ErrorCode.CORRUPTED
        error = CorruptedDataError if corrupted else RemoteProtocolError
        raise error(f"the peer closes the connection: {text}", kind="told")

    def _on_heartbeat(self) -> None:
        """Count a heartbeat, which carries no other information."""
        if not self._heartbeats.spend(self._now):
            raise RemoteProtocolError(
                f"the peer sent more than {self._heartbeats.limit} heartbeats in a minute "
                f"(heartbeats_per_minute_max)",
                kind="heartbeats",
            )

    def _receive_close(self) -> None:
        self._become(_E.RECEIVE_CLOSE)
        # A new receiver, so that messages need no check of the state.
        self._decoder.receiver = self._decoder.buffers = _AfterClose()

    # -- bytes out --------------------------------------------------------------------------------

    @property
    def has_output(self) -> bool:
        """Whether there is output that must be sent."""
        if self.state is _OPEN:
            return bool(self.session.outbox)
        return self.state in _MUST_SEND_CLOSE

    def next_frames(self, budget_bytes: int) -> list[bytes | memoryview]:
        """Return frames of about ``budget_bytes`` for one ``writelines`` call.

        When this side is closing, CloseRequest follows the last output, and later calls return
        nothing.
        """
        if self.state is _OPEN:
            return self._take_frames(budget_bytes)
        if self.session.failure is not None or not self.has_output:
            return []
        frames = self._take_frames(budget_bytes)
        if not self.session.outbox:
            self._become(_E.SEND_CLOSE)
            self.session.end()
            frames.append(self._sealed(encode(MessageType.CLOSE_REQUEST)))
        return frames

    def tick(self, now: float, unsent_bytes: int) -> None:
        """Send a heartbeat if nothing else was sent; become LOST if the peer shows no sign of life.

        To be called once per ``heartbeat_interval_ms``. ``unsent_bytes`` is the number of bytes
        given to the transport that the socket has not taken yet. The owner closes the socket of a
        lost link.
        """
        session = self.session
        bytes_out = session.outbox.bytes_out
        reason = self._liveness.tick(
            now,
            bytes_out=bytes_out,
            unsent_bytes=unsent_bytes,
            judges=self._config.flow_control == "credit",
        )
        if reason is not None and session.failure is None:
            self.lost(
                RemoteTransportError(
                    f"{session.peer} {reason} (heartbeat_timeout_ms): its process is stopped, its "
                    f"event loop is blocked, or the network is cut"
                )
            )
        elif self._liveness.heartbeat_due(bytes_out, len(self._sealed(HEARTBEAT))):
            session.send_heartbeat()

    # -- life cycle -------------------------------------------------------------------------------

    @property
    def ends_in_agreement(self) -> bool:
        """Whether this side or the peer closes the link on purpose."""
        return self.state in _AGREED

    def close(self) -> None:
        """Send CloseRequest after all output; the peer answers, knowing the end is intended."""
        self._become(_E.CLOSE)
        self.session.on_output()

    def reject(self, violation: RemoteProtocolError) -> bytes:
        """Return the last message to a peer that broke the protocol.

        It is empty after a CloseRequest of either side.
        """
        can_send_reason = self.state in _CAN_SEND_REASON
        log.debug("%s broke the protocol: %s", self.session.peer, text_of(violation))
        self._become(_E.REJECT)
        self.session.fail(violation)
        # CloseRequest is the last message of either side.
        if not can_send_reason:
            return b""
        text = str(violation)
        return self._sealed(
            encode_error(CONNECTION_CHANNEL, violation.code, text, self._config.wire)
        )

    def lost(self, cause: BaseException) -> None:
        """Detach the session, which decides whether it ends with the lost socket. Idempotent."""
        if self.session.in_use and self.state not in (_S.REJECTED, _S.LOST):
            log.info("%s: lost while channels were in use: %s", self.session.peer, text_of(cause))
        self._become(_E.LOSE)
        self._decoder.release()
        self.session.detach(cause)

    def _become(self, event: LinkEvent) -> None:
        before, self.state = self.state, TRANSITIONS[self.state, event]
        if self.state is not before:
            log.debug("%s: link %s -> %s", self.session.peer, before.name, self.state.name)

    def statistics(self, *, with_readers: bool = True) -> ConnectionStatistics:
        """Return the current counts of the link and its session.

        This takes milliseconds for thousands of readers.
        """
        session, outbox, channels = self.session, self.session.outbox, self.session.channels
        readers = session.readers if with_readers else ()
        return ConnectionStatistics(
            peer=session.peer,
            channels=len(channels),
            readers=tuple(reader.statistics() for reader in readers),
            readers_available=outbox.readers,
            control_messages_queued=outbox.messages,
            control_bytes_queued=outbox.control_bytes,
            buffers_in_flight=outbox.in_flight,
            buffers_out=outbox.buffers_out,
            bytes_out=outbox.bytes_out,
            buffers_in=channels.buffers_in,
            bytes_in=self._bytes_in,
            buffers_dropped=channels.buffers_dropped,
            messages_dropped=channels.messages_dropped,
            credit_messages_out=outbox.credit_messages_out,
            stalled=self.stalled,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        self.session.check_invariants()


class _AfterClose(BufferReceiver):
    """Refuses all messages of a peer after its CloseRequest."""

    def _refuse(self, *message: object, **fields: object) -> NoReturn:
        raise RemoteProtocolError("the peer sent a message after its CLOSE_REQUEST")

    def begin_buffer(self, header: BufferHeader) -> NoReturn:
        self._refuse()

    on_credit = on_message = on_error_response = _refuse
