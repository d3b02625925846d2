"""The link's protocol: moves bytes between one socket and one ``Link``, after the handshake.

Theory of operation. What the socket has is given to the link at once and always; what the link has
to send is written when the ``WriteTurn`` says so, as one ``writelines``.

The write buffer limits are 0, so that "paused" means exactly "the socket has not taken everything
yet". While paused nothing more is asked of the link: what the transport holds is bounded by
``outbox_bytes_max``. Only a session that has failed is not waited for.

Turns. What one peer sends must not keep the event loop from all others. So a link that has had its
turn (``turn_messages_max``, ``turn_bytes_max``) *rests*: its socket is not read until the loop has
turned, and TCP holds the peer back meanwhile. This is a pause for fairness, over within a turn
whatever the consumers do, and no flow control: credit alone decides how much data may come.

The end. A side that leaves sends what it has, with a CloseRequest as its last message, and goes on
reading: closing a socket that has unread bytes resets it, and a reset can cost the peer what it has
not read yet. The peer answers with its own CloseRequest. Each side closes when it has heard the
other's and the socket has taken its own: nothing is left to read then. No side closes half of the
stream, because TLS has no such thing; a peer that does, or that closes without an answer, has
ended the link. A peer that broke the protocol gets the reason if its socket takes it at once; the
session is lost from then on, and the socket stays for a ``Farewell``, so that the peer can read the
reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from flinknet.config import NetworkConfig
from flinknet.connection.link import Link, LinkState
from flinknet.connection.session import Session
from flinknet.errors import RemoteProtocolError, RemoteTransportError
from flinknet.net.acknowledgements import Acknowledgements
from flinknet.net.busy_poll import BusyPoll
from flinknet.net.farewell import Farewell
from flinknet.net.rest_queue import Rest, RestQueue
from flinknet.net.write_turn import Sender, WriteTurn

__all__ = ["LinkProtocol", "write_limit"]

_LARGE_READ_BYTES = 64 * 1024
"""Only after reads of this size an event loop may read the same socket again in the same turn."""

_BOTH_LEFT = LinkState.BOTH_LEFT


class LinkSender(Sender, Protocol):
    """What a link's protocol shares with those of the worker's other links."""

    rests: RestQueue
    """Links that wait, because they have asked for too many partitions that are not here."""

    busy_poll: BusyPoll | None
    """What keeps the event loop awake after something has come or gone, if anything does."""


class LinkProtocol(asyncio.BufferedProtocol):
    """Carries one link over one transport.

    ``on_lost`` is called when the socket is gone.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        session: Session,
        sender: LinkSender,
        config: NetworkConfig,
        loop: asyncio.AbstractEventLoop,
        on_lost: Callable[[], None],
    ) -> None:
        turn = WriteTurn(loop, sender, self._write)
        self.session = session
        self.link = Link(session, config, turn.request)
        self.get_buffer = self.link.get_buffer  # type: ignore[method-assign]
        self._transport = transport
        self._config = config
        self._loop = loop
        self._on_lost = on_lost
        self._farewell: Farewell | None = None
        self._busy_poll = sender.busy_poll
        self._may_stall = config.flow_control == "off"
        self._write_limit = write_limit(transport)
        self._is_secure = self._write_limit > 0
        self._paused = transport.get_write_buffer_size() > 0
        self._turn = 0.0
        self._turn_bytes = 0
        self._rest: asyncio.Handle | Rest | None = None
        self._rests = sender.rests
        self._reading_paused = False
        self._acknowledgements = Acknowledgements()
        self._heartbeat_s = config.heartbeat_interval_ms / 1000
        self._heartbeat_timer = loop.call_later(self._heartbeat_s, self._tick)

    # -- life -------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who depends on this socket."""
        self._heartbeat_timer.cancel()
        if self._rest is not None:
            self._rest.cancel()
        if self._farewell is not None:
            self._farewell.cancel()
        session, link = self.session, self.link
        clean = link.ends_in_agreement and not session.in_use
        link.lost(session.failure or _loss(session.peer, exc, clean))
        self._on_lost()

    def close(self) -> None:
        """Send what is queued and say goodbye; the socket is closed when the peer has answered."""
        self.link.close()

    def _reject(self, violation: RemoteProtocolError) -> None:
        """Tell the peer why, then close this connection; everything else is untouched."""
        transport, link = self._transport, self.link
        has_left = link.state is LinkState.LEFT
        reason = link.reject(violation)
        link.lost(violation)
        if reason and not (self._paused or transport.is_closing()):
            transport.write(reason)
        elif not has_left:
            # A reset can cost the peer nothing: it is told nothing, or it has said its last.
            transport.abort()
            return
        if transport.get_write_buffer_size() or transport.is_closing():
            transport.abort()
            return
        self._heartbeat_timer.cancel()
        config = self._config
        self._farewell = Farewell(
            transport,
            self._loop,
            bytes_max=config.wire.farewell_bytes_max,
            deadline=self._loop.time() + config.close_timeout_ms / 1000,
        )
        if self._reading_paused:
            self._reading_paused = False
            transport.resume_reading()

    def _is_over(self) -> bool:
        """Return whether this side takes nothing more from the peer, and sends it nothing."""
        return self._farewell is not None or self._transport.is_closing()

    def _tick(self) -> None:
        """Let the link show a sign of life and look for one of the peer's."""
        link = self.link
        try:
            self._look_for_machine()
            if link.state is not LinkState.LOST:
                link.tick(self._loop.time(), self._transport.get_write_buffer_size())
        finally:
            if link.state is LinkState.LOST:
                self._transport.abort()
        if link.state is not LinkState.LOST:
            self._heartbeat_timer = self._loop.call_later(self._heartbeat_s, self._tick)

    def _look_for_machine(self) -> None:
        """Lose the session if the machine of the peer cannot be reached."""
        timeout_s = self._config.unreachable_timeout_ms / 1000
        connection = self._transport.get_extra_info("socket")
        silent_s = self._acknowledgements.silent_s(connection, self._loop.time())
        if timeout_s and silent_s >= timeout_s and self.link.state is not LinkState.LOST:
            self.link.lost(
                RemoteTransportError(
                    f"the machine of {self.session.peer} has acknowledged nothing for "
                    f"{silent_s:.1f} s (network.unreachable_timeout_ms): it is gone, or the "
                    "network is cut"
                )
            )

    # -- bytes in ---------------------------------------------------------------------------------

    def buffer_updated(self, nbytes: int) -> None:
        """Handle what the socket had."""
        link = self.link
        if self._farewell is not None:
            self._farewell.discard(nbytes)
            return
        if self._busy_poll is not None:
            self._busy_poll.extend()
        try:
            link.received(nbytes, self._loop.time())
        except RemoteProtocolError as violation:
            self._reject(violation)
            return
        if link.has_more or nbytes >= _LARGE_READ_BYTES or link.must_rest:
            self._rest_if_due(nbytes)
        if self._may_stall:
            self._pause_or_resume_reading()

    def _rest_if_due(self, nbytes: int) -> None:
        """Rest if the link has had its turn, which may consist of several reads."""
        now = self._loop.time()
        if now != self._turn:
            self._turn, self._turn_bytes = now, 0
        self._turn_bytes += nbytes
        is_long = self._turn_bytes >= self._config.turn_bytes_max
        if is_long or self.link.has_more or self.link.must_rest:
            self._begin_rest()

    def _begin_rest(self) -> None:
        """Let the loop turn, or longer if the link has to, before this link goes on."""
        if self._rest is not None:
            return
        if self.link.must_rest:
            self._rest = self._rests.add(self.link.take_rest(), self._end_rest)
        else:
            self._rest = self._loop.call_soon(self._end_rest)
        self._pause_or_resume_reading()

    def _end_rest(self) -> None:
        """Go on with what has been read, and then, if that was not more than a turn, the socket."""
        self._rest = None
        self._turn_bytes = 0
        link = self.link
        if self._is_over():
            return
        if link.has_more:
            try:
                link.received(0, self._loop.time())
            except RemoteProtocolError as violation:
                self._reject(violation)
                return
            self._rest_if_due(0)
        self._pause_or_resume_reading()

    def _resume(self) -> None:
        """Go on reading what a stalled link has already got, and then the socket."""
        try:
            self.link.resume(self._loop.time())
        except RemoteProtocolError as violation:
            self._reject(violation)
            return
        self._rest_if_due(0)
        self._pause_or_resume_reading()

    def _pause_or_resume_reading(self) -> None:
        """A link that rests, or is stalled (never with credit), reads nothing more."""
        pause = self._rest is not None or self.link.stalled
        transport = self._transport
        if pause == self._reading_paused or transport.is_closing():
            return
        self._reading_paused = pause
        if pause:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def eof_received(self) -> bool:
        """Close: a peer that has stopped sending cannot be part of flow control."""
        self._transport.abort()
        return False

    # -- bytes out --------------------------------------------------------------------------------

    def _write(self) -> None:
        link, transport = self.link, self._transport
        if self._is_over():
            return
        if self._may_stall and link.can_resume:
            self._resume()
            if self._is_over():
                return
        if self.session.failure is not None:
            transport.abort()
            return
        if self._paused:
            return
        frames = link.next_frames(self._config.outbox_bytes_max)
        if frames:
            if self._is_secure:
                # One piece: else each part of a message would be a record of TLS, with a tag.
                transport.write(b"".join(frames))
            else:
                transport.writelines(frames)
            del frames
            if self._busy_poll is not None:
                self._busy_poll.extend()
            if transport.get_write_buffer_size():
                # This pauses where writelines forgot to (Python up to 3.12.8 and 3.13.1).
                transport.set_write_buffer_limits(high=self._write_limit)
                return
            link.frames_written()
        if link.state is _BOTH_LEFT:
            transport.close()

    def pause_writing(self) -> None:
        """The socket has not taken everything."""
        self._paused = True

    def resume_writing(self) -> None:
        """The socket has taken everything: its buffers are free, and there is room for more."""
        self._paused = False
        self.link.frames_written()
        self.session.on_output()


def write_limit(transport: asyncio.Transport) -> int:
    """Return the bytes that a transport may hold back before it says so.

    With a limit of 0 one over TLS would say so with nothing held back, and would not take it back.
    """
    return 0 if transport.get_extra_info("sslcontext") is None else 1


def _loss(peer: str, exc: Exception | None, clean: bool) -> RemoteTransportError:
    if clean:
        return RemoteTransportError(f"the connection to {peer} has been closed")
    reason = f"{type(exc).__name__}: {exc}" if exc is not None else "closed by the peer"
    return RemoteTransportError(
        f"the connection to {peer} was lost ({reason}) while channels were in use: the worker "
        f"might be lost, look at its log"
    )
