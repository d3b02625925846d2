"""The transport: one socket between two workers, from handshake to loss.

Theory of operation. A protocol starts with a ``Handshake``, for which it carries bytes and keeps
the deadline, and knows nothing of what is said. Once both sides have agreed it carries a
``Connection`` and does nothing but move bytes: what the socket has is given to the connection at
once and always; what the connection has to send is written once per loop turn, as one
``writelines``. Only what is flushed by a timeout is written ahead of that, inside
the call that flushes it: the first such thing of a turn, unless the turn before had several.

The write buffer limits are 0, so that "paused" means exactly "the socket has not taken everything
yet". While paused nothing more is asked of the connection: what the transport holds is bounded by
``outbox_bytes_max``. Only a connection that has failed is not waited for.

Turns. What one peer sends must not keep the event loop from all others. So a connection that has
had its turn (``turn_messages_max``, ``turn_bytes_max``) *rests*: its socket is not read until the
loop has turned, and TCP holds the peer back meanwhile. This is a pause for fairness, over within a
turn whatever the consumers do, and no flow control: credit alone decides how much data may come.

The end. A side that refuses in the handshake says so, ends its half of the stream and discards what
still comes until the peer closes, or the deadline does. A side that leaves sends what it has, with
a CloseRequest as its last message, ends its half of the stream and goes on reading: closing a
socket that has unread bytes resets it, and a reset can cost the peer what it has not read yet. The
peer closes when it sees the end of the stream. A peer that broke the protocol gets the reason if
its socket takes it at once, and is cut off.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol, cast

from flinknet.config import NetworkConfig
from flinknet.connection.connection import Connection
from flinknet.connection.handshake import Handshake, HandshakeState
from flinknet.errors import HandshakeError, RemoteProtocolError, RemoteTransportError
from flinknet.net.address import is_loopback, join_address
from flinknet.net.busy_poll import BusyPoll
from flinknet.wire.handshake import Verdict

__all__ = ["PeerProtocol", "PeerRegistrar"]

_HANDSHAKE_READ_BYTES = 64

_LARGE_READ_BYTES = 64 * 1024
"""Only after reads of this size an event loop may read the same socket again in the same turn."""


class PeerRegistrar(Protocol):
    """What a protocol asks the directory of peers."""

    sends_at_once: bool
    """Whether something is being flushed that cannot wait for the end of the loop turn."""
    busy_poll: BusyPoll | None
    """What keeps the event loop awake after something has come or gone, if anything does."""

    def begin_handshake(self, protocol: PeerProtocol) -> Handshake:
        """There is a socket: make its handshake."""

    def on_connected(self, protocol: PeerProtocol) -> None:
        """Count a socket, or refuse it."""

    def on_agreed(self, protocol: PeerProtocol, handshake: Handshake) -> None:
        """Both sides agree: have a connection carried."""

    def on_refused(self, protocol: PeerProtocol) -> None:
        """Accepting side: the peer was refused, and its socket closes when it has heard it."""

    def on_lost(self, protocol: PeerProtocol) -> None:
        """The socket is gone."""


class PeerProtocol(asyncio.BufferedProtocol):
    """Carries one connection over one socket.

    ``established`` has the connection once both sides agree, ``closed`` is done when the socket is
    gone, ``handshake`` is there as soon as there is a socket, and ``source``, the peer's host.
    """

    def __init__(
        self,
        registrar: PeerRegistrar,
        config: NetworkConfig,
        loop: asyncio.AbstractEventLoop,
        *,
        dialled: bool = False,
    ) -> None:
        self.dialled = dialled
        self.connection: Connection | None = None
        self.handshake: Handshake | None = None
        self.peer = "an unknown peer"
        self.source = ""
        self.is_loopback = False
        self.established: asyncio.Future[Connection] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._registrar = registrar
        self._config = config
        self._loop = loop
        self._may_stall = config.flow_control == "off"
        self._busy_poll = registrar.busy_poll
        self._transport: asyncio.Transport | None = None
        self._handshake_memory = bytearray(_HANDSHAKE_READ_BYTES)
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._turn_ends = False
        self._has_output = False
        self._is_quiet = True
        self._hurried = 0
        self._paused = False
        self._turn = 0.0
        self._turn_bytes = 0
        self._rests = False
        self._reading_paused = False
        self._leaving = False
        self._said_goodbye = False
        self._violation: RemoteProtocolError | None = None

    @property
    def in_handshake(self) -> bool:
        """Whether the peer has not said who it is."""
        return self.handshake is not None and self.handshake.state.is_open

    @property
    def is_silent(self) -> bool:
        """Whether the peer has said nothing at all."""
        return self.handshake is not None and self.handshake.is_silent

    # -- life -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        peername = transport.get_extra_info("peername")
        if peername:
            self.source = peername[0]
            self.peer = join_address(peername[0], peername[1])
            self.is_loopback = is_loopback(peername[0])
        self.handshake = self._registrar.begin_handshake(self)
        self._handshake_timer = self._loop.call_at(
            self.handshake.deadline, self._handshake_timed_out
        )
        self._registrar.on_connected(self)
        if not self._transport.is_closing():
            self._transport.write(self.handshake.start())

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who depends on this socket."""
        self._stop_timers()
        connection = self.connection
        if connection is not None:
            clean = (connection.peer_closing or connection.closing) and not connection.in_use
            cause = self._violation or connection.failure or _loss(self.peer, exc, clean)
            connection.lost(cause)
        if self.handshake is not None:
            self.handshake.lost()
        self._end_handshake()
        if not self.closed.done():
            self.closed.set_result(None)
        self._registrar.on_lost(self)

    def carry(self, connection: Connection, peer: str) -> None:
        """Become the socket of a connection: the handshake is over."""
        self._stop_timers()
        self.connection = connection
        self.peer = peer
        if self._transport is not None:
            self.get_buffer = connection.get_buffer  # type: ignore[method-assign]
            self._transport.set_protocol(self)  # some loops look it up only here
        self._arm_heartbeat()
        if not self.established.done():
            self.established.set_result(connection)
        self.schedule_write()

    def close(self) -> None:
        """Send what is queued, say goodbye and let the peer close; ``closed`` is done then."""
        self._leaving = True
        if self.connection is not None and self._transport is not None:
            self.connection.close()
            self.schedule_write()
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once, whatever is queued."""
        if self._transport is not None:
            self._transport.abort()

    # -- bytes in ---------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview | bytearray:
        """Return where the socket should put what it has; later that is the connection's."""
        return self._handshake_memory

    def buffer_updated(self, nbytes: int) -> None:
        """Handle what the socket had."""
        if self._violation is not None:
            return
        if self._busy_poll is not None:
            self._busy_poll.extend()
        connection = self.connection
        try:
            if connection is None:
                self._shake_hands(bytes(self._handshake_memory[:nbytes]))
                connection = self.connection
            else:
                connection.received(nbytes, self._loop.time())
        except RemoteProtocolError as violation:
            self._reject(violation)
        if connection is None:
            return
        if connection.has_more or nbytes >= _LARGE_READ_BYTES:
            self._rest_if_due(connection, nbytes)
        if self._may_stall:
            self._pause_or_resume_reading()

    def _rest_if_due(self, connection: Connection, nbytes: int) -> None:
        """Rest if the connection has had its turn, which may consist of several reads."""
        now = self._loop.time()
        if now != self._turn:
            self._turn, self._turn_bytes = now, 0
        self._turn_bytes += nbytes
        if connection.has_more or self._turn_bytes >= self._config.turn_bytes_max:
            self._rest()

    def _rest(self) -> None:
        """Let the loop turn before this connection goes on."""
        if not self._rests:
            self._rests = True
            self._loop.call_soon(self._end_rest)
            self._pause_or_resume_reading()

    def _end_rest(self) -> None:
        """Go on with what has been read, and then, if that was not more than a turn, the socket."""
        self._rests = False
        self._turn_bytes = 0
        connection, transport = self.connection, self._transport
        if connection is None or transport is None or transport.is_closing():
            return
        if connection.has_more:
            try:
                connection.received(0, self._loop.time())
            except RemoteProtocolError as violation:
                self._reject(violation)
                return
            if connection.has_more:
                self._rest()
        self._pause_or_resume_reading()

    def _resume(self, connection: Connection) -> None:
        """Go on reading what a stalled connection has already got, and then the socket."""
        try:
            connection.resume(self._loop.time())
        except RemoteProtocolError as violation:
            self._reject(violation)
        if connection.has_more:
            self._rest()
        self._pause_or_resume_reading()

    def _pause_or_resume_reading(self) -> None:
        """A connection that rests, or is stalled (never with credit), reads nothing more."""
        pause = self._rests or (self.connection is not None and self.connection.stalled)
        transport = self._transport
        if pause == self._reading_paused or transport is None or transport.is_closing():
            return
        self._reading_paused = pause
        if pause:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def eof_received(self) -> bool:
        """Close: a peer that has stopped sending cannot be part of flow control."""
        self.abort()
        return False

    def _shake_hands(self, data: bytes) -> None:
        handshake, transport = self.handshake, self._transport
        assert handshake is not None
        assert transport is not None
        if not self.in_handshake:
            return  # a refusal was said, and the peer has not closed yet
        transport.write(handshake.received(data))
        if handshake.agreed:
            self._registrar.on_agreed(self, handshake)
            connection, rest = self.connection, handshake.rest
            if connection is not None and rest:
                connection.get_buffer()[: len(rest)] = rest
                connection.received(len(rest), self._loop.time())
        elif not handshake.state.is_open:
            self._end_handshake()
            self._leave_handshake(handshake.state)

    def refuse(self, verdict: Verdict, reason: str) -> None:
        """Accepting side: turn somebody away who has proved nothing yet."""
        handshake, transport = self.handshake, self._transport
        assert handshake is not None
        assert transport is not None
        transport.write(handshake.refuse(verdict, reason))
        self._end_handshake()
        self._leave_handshake(handshake.state)

    def _leave_handshake(self, state: HandshakeState) -> None:
        """Close; a side that has refused lets the peer do so, until the deadline."""
        assert self._transport is not None
        if state is HandshakeState.REFUSED and not self.dialled:
            self._end_stream(self._transport)
            self._registrar.on_refused(self)
        else:
            self.abort()

    def _reject(self, violation: RemoteProtocolError) -> None:
        """Tell the peer why, then close this connection; everything else is untouched."""
        self._violation = violation
        connection, transport = self.connection, self._transport
        assert connection is not None
        assert transport is not None
        if not (self._paused or self._said_goodbye or transport.is_closing()):
            transport.write(connection.farewell(violation))
        connection.failure = violation
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    # -- bytes out --------------------------------------------------------------------------------

    def schedule_write(self) -> None:
        """Write at the end of this loop turn, once. What cannot wait for that is written now,
        unless more than one did not want to wait in the turn before."""
        if not self._turn_ends:
            self._turn_ends = True
            self._loop.call_soon(self._end_turn)
        if self._registrar.sends_at_once:
            self._hurried += 1
            if self._is_quiet:
                self._is_quiet = False
                self._write()
                return
        self._has_output = True

    def _end_turn(self) -> None:
        self._turn_ends = False
        self._is_quiet, self._hurried = self._hurried <= 1, 0
        if self._has_output:
            self._has_output = False
            self._write()

    def _write(self) -> None:
        connection, transport = self.connection, self._transport
        if connection is None or transport is None or transport.is_closing():
            return
        if connection.can_resume:
            self._resume(connection)
        if self._said_goodbye or transport.is_closing():
            return
        if connection.failure is not None:
            transport.abort()
            return
        if self._paused:
            return
        frames = connection.next_frames(self._config.outbox_bytes_max)
        if frames:
            transport.writelines(frames)
            del frames
            if self._busy_poll is not None:
                self._busy_poll.extend()
            if transport.get_write_buffer_size():
                # This pauses where writelines forgot to (Python up to 3.12.8 and 3.13.1).
                transport.set_write_buffer_limits(high=0)
                return
            connection.frames_written()
        if self._leaving and not (connection.has_output or transport.is_closing()):
            self._said_goodbye = True
            self._end_stream(transport)

    @staticmethod
    def _end_stream(transport: asyncio.Transport) -> None:
        """End this side's half of the stream."""
        with suppress(OSError):  # the peer has closed first, as connection_lost will say
            transport.write_eof()

    def pause_writing(self) -> None:
        """The socket has not taken everything."""
        self._paused = True

    def resume_writing(self) -> None:
        """The socket has taken everything: its buffers are free, and there is room for more."""
        self._paused = False
        if self.connection is not None:
            self.connection.frames_written()
        self.schedule_write()

    # -- handshake --------------------------------------------------------------------------------

    def _handshake_timed_out(self) -> None:
        if self.handshake is not None and self.handshake.state.is_open:
            self.handshake.expire()
        self._end_handshake()
        self.abort()

    def _end_handshake(self) -> None:
        """Tell whoever waits for the connection that there will be none."""
        if not self.established.done():
            error = self.handshake.error if self.handshake is not None else None
            self.established.set_exception(error or HandshakeError(f"{self.peer} is gone"))
            self.established.exception()  # accepted connections have nobody who awaits it

    def _stop_timers(self) -> None:
        for timer in (self._handshake_timer, self._heartbeat_timer):
            if timer is not None:
                timer.cancel()
        self._handshake_timer = self._heartbeat_timer = None

    # -- liveness ---------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Let the connection show a sign of life and look for one of the peer's."""
        connection, transport = self.connection, self._transport
        if connection is None or transport is None:
            return
        connection.tick(self._loop.time(), transport.get_write_buffer_size())
        self._arm_heartbeat()

    def _arm_heartbeat(self) -> None:
        self._heartbeat_timer = self._loop.call_later(
            self._config.heartbeat_interval_ms / 1000, self._tick
        )


def _loss(peer: str, exc: Exception | None, clean: bool) -> RemoteTransportError:
    if clean:
        return RemoteTransportError(f"the connection to {peer} has been closed")
    reason = f"{type(exc).__name__}: {exc}" if exc is not None else "closed by the peer"
    return RemoteTransportError(
        f"the connection to {peer} was lost ({reason}) while channels were in use: the worker "
        f"might be lost, look at its log"
    )
