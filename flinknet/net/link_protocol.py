"""The link's protocol: moves bytes between one socket and one ``Link``, after the handshake.

Input goes to the link immediately and always. The ``WriteScheduler`` decides when output is
written, as one ``writelines``. The write buffer limits are 0, so "paused" means that the socket has
not taken all bytes yet. While paused, no more output is taken from the link, so the transport holds
at most ``outbox_bytes_max``. Only a failed session does not wait for the socket.

Turns. One peer's input must not keep the event loop from all others. A link that has had its turn
(``turn_messages_max``, ``turn_bytes_max``) *pauses*: its socket is not read until the loop has
turned, and TCP holds the peer back meanwhile. This pause is for fairness and ends within one turn,
independent of the consumers. It is no flow control; only credit limits the data.

End. A leaving side sends its output, with a CloseRequest as its last message, and goes on reading:
closing a socket with unread bytes resets it, and a reset can discard data on its way to the peer.
The peer answers with its own CloseRequest. Each side closes when it has received the other's
CloseRequest and the socket has taken its own, so nothing is left to read. No side half-closes the
stream, because TLS does not support that. A peer that half-closes, or closes without an answer, has
ended the link. A peer that broke the protocol gets the reason if its socket takes it immediately.
Its session is lost from then on, but the socket stays for a ``LingeringClose``, so that the peer
can read the reason.
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
from flinknet.net.lingering_close import LingeringClose
from flinknet.net.read_pause_queue import ReadPause, ReadPauseQueue
from flinknet.net.write_scheduler import Sender, WriteScheduler

__all__ = ["LinkProtocol", "write_limit"]

_LARGE_READ_BYTES = 64 * 1024
"""An event loop reads the same socket again in one turn only after reads of this size."""

_CLOSED = LinkState.CLOSED


class LinkSender(Sender, Protocol):
    """State that a link's protocol shares with the worker's other links."""

    read_pauses: ReadPauseQueue
    """Links that pause because they have requested too many absent partitions."""

    busy_poll: BusyPoll | None
    """Keeps the event loop awake after input or output, if enabled."""


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
        scheduler = WriteScheduler(loop, sender, self._write)
        self.session = session
        self.link = Link(session, config, scheduler.request)
        self.get_buffer = self.link.get_buffer  # type: ignore[method-assign]
        self._transport = transport
        self._config = config
        self._loop = loop
        self._on_lost = on_lost
        self._lingering: LingeringClose | None = None
        self._busy_poll = sender.busy_poll
        self._may_stall = config.flow_control == "off"
        self._write_limit = write_limit(transport)
        self._is_secure = self._write_limit > 0
        self._paused = transport.get_write_buffer_size() > 0
        self._turn = 0.0
        self._turn_bytes = 0
        self._read_pause: asyncio.Handle | ReadPause | None = None
        self._read_pauses = sender.read_pauses
        self._reading_paused = False
        self._acknowledgements = Acknowledgements()
        self._heartbeat_s = config.heartbeat_interval_ms / 1000
        self._heartbeat_timer = loop.call_later(self._heartbeat_s, self._tick)

    # -- life cycle -------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss of the socket to the link and the owner."""
        self._heartbeat_timer.cancel()
        if self._read_pause is not None:
            self._read_pause.cancel()
        if self._lingering is not None:
            self._lingering.cancel()
        session, link = self.session, self.link
        clean = link.ends_in_agreement and not session.in_use
        link.lost(session.failure or _loss(session.peer, exc, clean))
        self._on_lost()

    def close(self) -> None:
        """Send the queued output and a CloseRequest; close the socket after the peer's answer."""
        self.link.close()

    def _reject(self, violation: RemoteProtocolError) -> None:
        """Send the reason to the peer and close this connection; nothing else is affected."""
        transport, link = self._transport, self.link
        has_left = link.state is LinkState.CLOSE_SENT
        reason = link.reject(violation)
        link.lost(violation)
        if reason and not (self._paused or transport.is_closing()):
            transport.write(reason)
        elif not has_left:
            # A reset discards no message: the peer gets none, or this side's last one is sent.
            transport.abort()
            return
        if transport.get_write_buffer_size() or transport.is_closing():
            transport.abort()
            return
        self._heartbeat_timer.cancel()
        config = self._config
        self._lingering = LingeringClose(
            transport,
            self._loop,
            bytes_max=config.wire.farewell_bytes_max,
            deadline=self._loop.time() + config.close_timeout_ms / 1000,
        )
        # The farewell discards input, so the socket must be read.
        if self._reading_paused:
            self._reading_paused = False
            transport.resume_reading()

    def _is_over(self) -> bool:
        """Return whether this side takes no more input and sends no more output."""
        return self._lingering is not None or self._transport.is_closing()

    def _tick(self) -> None:
        """Check the peer's liveness, and send a heartbeat if one is due."""
        link = self.link
        try:
            self._look_for_machine()
            if link.state is not LinkState.LOST:
                link.tick(self._loop.time(), self._transport.get_write_buffer_size())
        finally:
            # Also if a channel's listener raises when the session is lost.
            if link.state is LinkState.LOST:
                self._transport.abort()
        if link.state is not LinkState.LOST:
            self._heartbeat_timer = self._loop.call_later(self._heartbeat_s, self._tick)

    def _look_for_machine(self) -> None:
        """Lose the session if the peer's machine is unreachable."""
        timeout_s = self._config.unreachable_timeout_ms / 1000
        connection = self._transport.get_extra_info("socket")
        silent_s = self._acknowledgements.silent_s(connection, self._loop.time())
        if timeout_s and silent_s >= timeout_s and self.link.state is not LinkState.LOST:
            self.link.lost(
                RemoteTransportError(
                    f"the machine of {self.session.peer} has acknowledged nothing for "
                    f"{silent_s:.1f} s (network.unreachable_timeout_ms): it is down, or the "
                    "network is cut"
                )
            )

    # -- bytes in ---------------------------------------------------------------------------------

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes read from the socket."""
        link = self.link
        if self._lingering is not None:
            self._lingering.discard(nbytes)
            return
        if self._busy_poll is not None:
            self._busy_poll.extend()
        try:
            link.received(nbytes, self._loop.time())
        except RemoteProtocolError as violation:
            self._reject(violation)
            return
        if link.has_more or nbytes >= _LARGE_READ_BYTES or link.must_pause:
            self._pause_if_due(nbytes)
        if self._may_stall:
            self._pause_or_resume_reading()

    def _pause_if_due(self, nbytes: int) -> None:
        """Pause if the link has had its turn, which may include several reads."""
        now = self._loop.time()
        # uvloop's clock stands still within a turn, and asyncio reads a socket once per turn.
        if now != self._turn:
            self._turn, self._turn_bytes = now, 0
        self._turn_bytes += nbytes
        is_long = self._turn_bytes >= self._config.turn_bytes_max
        if is_long or self.link.has_more or self.link.must_pause:
            self._begin_pause()

    def _begin_pause(self) -> None:
        """Pause the link for a turn of the loop, or for as long as it must pause."""
        if self._read_pause is not None:
            return
        if self.link.must_pause:
            self._read_pause = self._read_pauses.add(self.link.take_pause(), self._end_pause)
        else:
            self._read_pause = self._loop.call_soon(self._end_pause)
        self._pause_or_resume_reading()

    def _end_pause(self) -> None:
        """Continue with the bytes already read, and with the socket if that was at most a turn."""
        self._read_pause = None
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
            self._pause_if_due(0)
        self._pause_or_resume_reading()

    def _resume(self) -> None:
        """Continue a stalled link with the bytes already read, and with the socket."""
        try:
            self.link.resume(self._loop.time())
        except RemoteProtocolError as violation:
            self._reject(violation)
            return
        self._pause_if_due(0)
        self._pause_or_resume_reading()

    def _pause_or_resume_reading(self) -> None:
        """Read nothing while the link pauses or is stalled (never stalled with credit)."""
        pause = self._read_pause is not None or self.link.stalled
        transport = self._transport
        if pause == self._reading_paused or transport.is_closing():
            return
        self._reading_paused = pause
        if pause:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def eof_received(self) -> bool:
        """Close: a peer that has stopped sending cannot take part in flow control."""
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
        # A peer that does not read would never take the rest of the output.
        if self.session.failure is not None:
            transport.abort()
            return
        if self._paused:
            return
        frames = link.next_frames(self._config.outbox_bytes_max)
        if frames:
            if self._is_secure:
                # One piece, because TLS would make a record with a tag of each part of a message.
                transport.write(b"".join(frames))
            else:
                transport.writelines(frames)
            del frames
            if self._busy_poll is not None:
                self._busy_poll.extend()
            if transport.get_write_buffer_size():
                # This pauses where writelines does not (Python up to 3.12.8 and 3.13.1).
                transport.set_write_buffer_limits(high=self._write_limit)
                return
            link.frames_written()
        if link.state is _CLOSED:
            transport.close()

    def pause_writing(self) -> None:
        """Record that the socket has not taken all bytes."""
        self._paused = True

    def resume_writing(self) -> None:
        """Recycle the written buffers, and send more output."""
        self._paused = False
        self.link.frames_written()
        self.session.on_output()


def write_limit(transport: asyncio.Transport) -> int:
    """Return the number of bytes that a transport may hold back before it reports a pause.

    With a limit of 0, a TLS transport would report a pause with no bytes held back, and would not
    end it.
    """
    return 0 if transport.get_extra_info("sslcontext") is None else 1


def _loss(peer: str, exc: Exception | None, clean: bool) -> RemoteTransportError:
    if clean:
        return RemoteTransportError(f"the connection to {peer} has been closed")
    reason = f"{type(exc).__name__}: {exc}" if exc is not None else "closed by the peer"
    return RemoteTransportError(
        f"the connection to {peer} was lost ({reason}) while channels were in use: the worker may "
        "be lost, see its log"
    )
