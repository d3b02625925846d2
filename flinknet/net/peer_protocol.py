"""The peer's protocol: one socket to another worker, from the first byte of the handshake on.

It carries the bytes of a ``Handshake`` and keeps its deadline, without knowledge of the messages.
After the agreement, a ``LinkProtocol`` takes over the transport, and this object represents the
socket in the directory of peers. Its state consists of the handshake's state and the ``session``,
if any.

With TLS, an accepted socket is secured first, within the same deadline, before any handshake
message. A dialled socket comes here when it is secure. The names in the peer's certificate are
passed to the handshake.

A side that refuses sends its refusal. A ``LingeringClose`` until the deadline of the handshake then
lets the peer read it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from flinknet.config import NetworkConfig
from flinknet.connection.handshake import Handshake, HandshakeState
from flinknet.connection.link import Link
from flinknet.connection.session import Session
from flinknet.errors import HandshakeError
from flinknet.net.address import is_loopback, join_address
from flinknet.net.lingering_close import LingeringClose
from flinknet.net.link_protocol import LinkProtocol, LinkSender, write_limit
from flinknet.net.stall_tolerant_timer import StallTolerantTimer
from flinknet.net.tls import Tls, refusal_of
from flinknet.wire.handshake_messages import Verdict

__all__ = ["PeerProtocol", "PeerRegistrar"]

_HANDSHAKE_READ_BYTES = 640
"""Exceeds the default limit of a handshake message. Bytes that a peer sends behind a message,
without waiting for the answer, therefore arrive in the same read and are noticed."""

_ROUND_TRIPS = 5
"""At least this many round trips fit the timeout of a handshake. An accepted connection that has
been open for one round trip is used even if its dialler is silent: a dialler that gave up before
the answer arrived has closed it by then."""


class PeerRegistrar(LinkSender, Protocol):
    """The directory of peers, as seen by a protocol."""

    def begin_handshake(self, protocol: PeerProtocol) -> Handshake:
        """Create the handshake of a new socket."""

    tls: Tls | None
    """TLS configuration of the sockets, or None."""

    def on_connected(self, protocol: PeerProtocol) -> None:
        """Count a socket, or refuse it."""

    def on_given_up(self, protocol: PeerProtocol, reason: str) -> None:
        """Count an accepted socket that is closed without an answer, by ``reason``."""

    def on_agreed(self, protocol: PeerProtocol, handshake: Handshake) -> None:
        """Attach a session after the agreement of both sides."""

    def on_refused(self, protocol: PeerProtocol) -> None:
        """Count a refused accepted socket; it closes when the peer has read the refusal."""

    def on_established(self, protocol: PeerProtocol) -> None:
        """Handle that this side may use the session."""

    def on_lost(self, protocol: PeerProtocol) -> None:
        """Handle that the socket is gone."""


class PeerProtocol(asyncio.BufferedProtocol):
    """Carries the handshake over one socket, and represents the socket until it is gone.

    ``established`` has the session once this side may use it. ``closed`` is done when the socket is
    gone. ``handshake`` and ``source``, the peer's host, are set as soon as there is a socket.
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
        self.handshake: Handshake | None = None
        self.peer = "an unknown peer"
        self.source = ""
        self.is_loopback = False
        self.established: asyncio.Future[Session] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._registrar = registrar
        self._config = config
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._tls = registrar.tls
        self._may_speak = registrar.tls is None or dialled
        self._is_cut_off = False
        self._linked: LinkProtocol | None = None
        self._memory = bytearray(_HANDSHAKE_READ_BYTES)
        self._timer: StallTolerantTimer | None = None
        self._lingering: LingeringClose | None = None

    @property
    def session(self) -> Session | None:
        """The session that the socket carries, after the agreement."""
        return self._linked.session if self._linked is not None else None

    @property
    def link(self) -> Link | None:
        """The link of that session."""
        return self._linked.link if self._linked is not None else None

    @property
    def is_established(self) -> bool:
        """Whether this side may use the session."""
        return self.established.done()

    @property
    def in_handshake(self) -> bool:
        """Whether the peer has not identified itself yet."""
        return self.handshake is not None and self.handshake.state.is_open

    @property
    def is_silent(self) -> bool:
        """Whether nothing has been received from the peer."""
        return self.handshake is not None and self.handshake.is_silent

    # -- life cycle -------------------------------------------------------------------------------

    def accepted(self, transport: asyncio.BaseTransport) -> None:
        """Register the socket, which with TLS is not secure yet."""
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername")
        if peername:
            self.source = peername[0]
            self.peer = join_address(peername[0], peername[1])
            self.is_loopback = is_loopback(peername[0])
        self.handshake = self._registrar.begin_handshake(self)
        self._timer = StallTolerantTimer(self._loop, self.handshake.deadline, self._time_out)
        self._registrar.on_connected(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, unless the peer was turned away already."""
        if self._transport is None:
            self.accepted(transport)
        self._transport = cast(asyncio.Transport, transport)
        self._may_speak = True
        if self.in_handshake and not transport.is_closing():
            self._begin()

    def _begin(self) -> None:
        """Check the peer's certificate, and send this side's first message, if any."""
        handshake, transport = self.handshake, self._transport
        assert handshake is not None
        assert transport is not None
        transport.set_write_buffer_limits(high=write_limit(transport))
        if self._tls is not None:
            try:
                handshake.require_certificate_name(self._tls.names_of_peer(transport))
            except HandshakeError as error:
                self._reject(str(error))
                return
        transport.write(handshake.start())

    def _reject(self, reason: str) -> None:
        """Fail because of the peer's TLS handshake or certificate."""
        assert self.handshake is not None
        if self.handshake.state.is_open:
            self.handshake.reject(HandshakeError(f"{self.peer} was refused: {reason}"))
            if not self.dialled:
                self._registrar.on_given_up(self, "tls")
        self._end_handshake()
        self.abort()

    def carry(self, session: Session) -> None:
        """Attach a link of the session to the socket, after the handshake.

        The accepting side uses the session after its first input, or after a round trip, because
        the dialling side may have given up before the answer arrived.
        """
        transport = self._transport
        assert transport is not None
        self._stop_timer()
        linked = LinkProtocol(
            transport,
            session,
            self._registrar,
            self._config,
            self._loop,
            self._on_gone,
        )
        self._linked = linked
        self.peer = session.peer
        if self.dialled:
            self._establish()
        else:
            round_trip_s = self._config.wire.handshake_timeout_ms / 1000 / _ROUND_TRIPS
            stands_at = self._loop.time() + round_trip_s
            self._timer = StallTolerantTimer(self._loop, stands_at, self._establish)
        session.on_output()

    def _establish(self) -> None:
        """Hand the socket over to the session, which this side may use."""
        linked = self._linked
        assert linked is not None
        assert self._transport is not None
        self._stop_timer()
        self._transport.set_protocol(linked)
        if not self.established.done():
            self.established.set_result(linked.session)
        self._registrar.on_established(self)

    def _pass_on(self, data: bytes | bytearray) -> None:
        """Pass the first input to the session."""
        linked = self._linked
        assert linked is not None
        linked.link.get_buffer()[: len(data)] = data
        linked.buffer_updated(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the loss of the socket before this side uses the session."""
        self._stop_timer()
        refusal = None if exc is None else refusal_of(exc)
        if self.in_handshake and refusal is not None:
            self._reject(refusal)
        elif self.in_handshake and not (self.dialled or self._is_cut_off):
            self._registrar.on_given_up(self, "left")
        if self.handshake is not None:
            self.handshake.lost(self._hint_of_loss())
        self._end_handshake()
        if self._linked is not None:
            self._linked.connection_lost(exc)
        else:
            self._on_gone()

    def _hint_of_loss(self) -> str:
        """Return a likely cause of a peer that hangs up."""
        if not self.dialled:
            return ""
        if self._tls is None:
            return "; if this repeats, it may require TLS, which is not configured here"
        return "; if this repeats, it does not accept this side's certificate: see its log"

    def pause_writing(self) -> None:
        """Pause the session's output."""
        if self._linked is not None:
            self._linked.pause_writing()

    def resume_writing(self) -> None:
        """Resume the session's output."""
        if self._linked is not None:
            self._linked.resume_writing()

    def _on_gone(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        self._registrar.on_lost(self)

    def close(self) -> None:
        """Send queued output and a CloseRequest; ``closed`` is done when the peer has answered."""
        if self._linked is not None:
            self._linked.close()
        else:
            self.abort()

    def abort(self) -> None:
        """Close immediately, and drop queued output."""
        self._is_cut_off = True
        if self._transport is not None:
            self._transport.abort()

    # -- bytes ------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return memory for the socket's input."""
        # asyncio's TLS reads into slices of it, which would be copies of a bytearray.
        return memoryview(self._memory)

    def buffer_updated(self, nbytes: int) -> None:
        """Pass input to the handshake, and complete it if both sides agree."""
        handshake, transport = self.handshake, self._transport
        assert handshake is not None
        assert transport is not None
        if self._lingering is not None:
            self._lingering.discard(nbytes)
            return
        # The first input shows that the dialling side has received the answer.
        if self._linked is not None:
            self._establish()
            self._pass_on(self._memory[:nbytes])
            return
        if not self.in_handshake:
            return  # it is being closed
        transport.write(handshake.received(bytes(self._memory[:nbytes])))
        if handshake.agreed:
            self._registrar.on_agreed(self, handshake)
            if handshake.rest:
                if not self.dialled:
                    self._establish()
                self._pass_on(handshake.rest)
        elif not handshake.state.is_open:
            self._end_handshake()
            self._leave(handshake.state)

    def eof_received(self) -> bool:
        """Close: the peer will send nothing more."""
        assert self._transport is not None
        self._transport.abort()
        return False

    # -- the end of a handshake -------------------------------------------------------------------

    def refuse(self, verdict: Verdict, reason: str) -> None:
        """Refuse a peer that has proved nothing yet, on the accepting side."""
        handshake, transport = self.handshake, self._transport
        assert handshake is not None
        assert transport is not None
        refusal = handshake.refuse(verdict, reason)
        if self._may_speak:
            transport.write(refusal)
        self._end_handshake()
        self._leave(handshake.state)
        if not self._may_speak:
            transport.abort()  # it can read no message yet

    def _leave(self, state: HandshakeState) -> None:
        """Close; a side that has refused waits for the peer to close, until the deadline."""
        assert self._transport is not None
        assert self.handshake is not None
        if state is HandshakeState.REFUSED and not self.dialled:
            self._stop_timer()
            self._lingering = LingeringClose(
                self._transport,
                self._loop,
                bytes_max=self._config.wire.farewell_bytes_max,
                deadline=self.handshake.deadline,
            )
            self._registrar.on_refused(self)
        else:
            if not self.dialled:
                self._registrar.on_given_up(self, "malformed")
            self.abort()

    def _time_out(self) -> None:
        if self.handshake is not None and self.handshake.state.is_open:
            was_silent = self.handshake.is_silent
            self.handshake.expire()
            if not self.dialled:
                self._registrar.on_given_up(self, "silent" if was_silent else "slow")
        self._end_handshake()
        self.abort()

    def _end_handshake(self) -> None:
        """Fail the waiters for the session, because there will be none."""
        if not self.established.done():
            error = self.handshake.error if self.handshake is not None else None
            if error is None:
                error = HandshakeError(f"{self.peer} is gone")
                error.may_pass = True
            self.established.set_exception(error)
            self.established.exception()  # retrieved here, because accepted sockets have no waiter

    def _stop_timer(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
