"""The directory of peers: one session per pair of workers, for all channels in both directions.

A peer is known by its listening address, which it sends in the handshake. A connection that it
opened thus serves requests in the other direction too. A peer that does not listen is known by its
name. The directory maps this name to the ``Session`` with the peer, and the session to the socket
that carries its link. For each address it has at most one session and at most one *dial* in
progress (``dial.py``), and a request for the peer waits for either.

Simultaneous connects. If both sides dial at the same time, the worker with the smaller id wins. It
refuses the other's hello with DUPLICATE while its own dial is in progress or connected; the other
side accepts. A refused dialler uses the peer's connection, or waits for it, and dials again after
its back-off if none comes.

Limits. The number of sockets in handshake is limited (``pending_handshakes.py``). An accepted
socket is *admitted* from its first byte until it is lost or refused, so sockets in handshake count
too. A socket that comes when there is no room may complete its handshake. It then takes the place
of a silent socket, or is refused with FULL if there is none. With TLS, accepted sockets take turns
to begin their handshakes, at a limited rate (``handshake_rate_limit.py``).

Invariant: admitted sockets are open, not dialled, and at most ``accepted_connections_max``.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import starmap

from flinknet import machine
from flinknet.config import NetworkConfig
from flinknet.connection.handshake import Handshake
from flinknet.connection.link import Link, LinkState
from flinknet.connection.peer_limits import ReaderQuota, UnmetRequestPacer
from flinknet.connection.session import Session
from flinknet.errors import (
    ClosedResourceError,
    HandshakeError,
    RemoteProtocolError,
    RemoteTransportError,
    UnreadMessagesError,
)
from flinknet.metrics.environment_statistics import (
    PeerDirectoryStatistics,
    ProtocolViolations,
    RefusedPeers,
)
from flinknet.net.address import join_address, split_address
from flinknet.net.busy_poll import BusyPoll
from flinknet.net.dial import Dial
from flinknet.net.handshake_rate_limit import HandshakeRateLimit
from flinknet.net.peer_protocol import PeerProtocol
from flinknet.net.pending_handshakes import PendingHandshakes
from flinknet.net.read_pause_queue import ReadPauseQueue
from flinknet.net.refusal_log import RefusalLog
from flinknet.net.stall_tolerant_timer import stall_tolerant_timeout
from flinknet.net.tls import Tls, TlsAcceptor, refusal_of
from flinknet.partition.registry import PartitionRegistry
from flinknet.texts import printable, text_of
from flinknet.wire.handshake_messages import NONCE_BYTES, Verdict, WorkerIdentity

__all__ = ["PeerDirectory"]

log = logging.getLogger("flinknet.net")

_LOST = LinkState.LOST


class PeerDirectory:
    """Makes, accepts, finds and closes the connections of one worker."""

    def __init__(
        self,
        identity: WorkerIdentity,
        registry: PartitionRegistry,
        config: NetworkConfig,
        loop: asyncio.AbstractEventLoop,
        secret: bytes,
        tls: Tls | None = None,
    ) -> None:
        self.tls = tls
        self._identity = identity
        self._secret = secret
        self._registry = registry
        self._config = config
        self._loop = loop
        self.sends_at_once = False
        self.read_pauses = ReadPauseQueue(loop)
        self.busy_poll = BusyPoll(loop, config.busy_poll_us) if config.busy_poll_us else None
        self._sessions: dict[str, Session] = {}
        self._carriers: dict[Session, PeerProtocol] = {}
        # A peer may be dialled by another name of its address (localhost, a proxy). The answer to
        # the first dial tells the address by which it is known. If such a dial makes a second
        # connection to a worker, both carry the requests made over them, and new requests use the
        # newer one.
        self._known_as: dict[str, str] = {}
        self._dials: dict[str, Dial] = {}
        self._dialling: dict[PeerProtocol, str] = {}
        self._arrivals: dict[str, asyncio.Event] = {}
        self._protocols: set[PeerProtocol] = set()
        self._admitted: set[PeerProtocol] = set()
        self._handshakes: PendingHandshakes[PeerProtocol] = PendingHandshakes(
            config.wire.pending_handshakes_max, config.wire.handshake_timeout_ms / 1000
        )
        self._reader_quota = ReaderQuota(config.wire.channels_per_worker_max)
        self._unmet_requests = UnmetRequestPacer(config.wire.unmet_requests_per_second_max)
        self._tls_rate_limit = HandshakeRateLimit(loop, config.wire.tls_handshakes_per_second_max)
        self._closing = False
        self._accepted = self._dialled = self._lost = 0
        self._refusals = RefusalLog()
        self._violations = RefusalLog("broke the protocol")

    # -- finding a peer ---------------------------------------------------------------------------

    async def connect(self, address: str, waiter: str = "a program") -> Session:
        """Return the session with the worker at ``address``, and connect if there is none.

        The log names ``waiter`` if it takes long. Concurrent callers share one dial. A cancelled
        caller does not stop it for others, and an attempt in progress is completed even without
        callers.

        Raises:
            RemoteTransportError: After ``rendezvous_timeout_ms``.
            HandshakeError: If the peer will never agree.
            ClosedResourceError: If this worker is being closed.
        """
        if self._closing:
            raise ClosedResourceError(f"cannot connect to {address}: this worker is being closed")
        session = self._session(address)
        if session is not None:
            return session
        dial = self._dials.get(address)
        if dial is None or dial.ends:
            dial = self._dials[address] = Dial(
                address,
                partial(self._try_once, address),
                partial(self._wait_for_arrival, address),
                self._on_dialled,
                self._loop,
                self._config,
            )
        return await dial.wait(waiter)

    def _on_dialled(self, dial: Dial) -> None:
        """Remove a finished dial; a failure is not remembered, so the next request dials again."""
        if self._dials.get(dial.address) is dial:
            del self._dials[dial.address]

    def _session(self, address: str) -> Session | None:
        session = self._sessions.get(self._known_as.get(address, address))
        return session if session is not None and self._carriers[session].is_established else None

    async def _try_once(self, address: str) -> Session:
        """Wait for a connection that the peer has made, or dial if there is none.

        The accepting side agrees first, and cannot know whether the dialling side has received its
        answer. The dialling side may have given up because one of them was held up, and then
        closes. The accepting side therefore requests nothing before it has received input, or the
        connection has been open for a while (``peer_protocol.py``).
        """
        session = self._sessions.get(self._known_as.get(address, address))
        if session is None:
            return await self._dial_once(address)
        return await asyncio.shield(self._carriers[session].established)

    async def _dial_once(self, address: str) -> Session:
        host, port = split_address(address)
        protocol = PeerProtocol(self, self._config, self._loop, dialled=True)
        self._dialled += 1
        log.debug("%s: dialling", address)
        self._dialling[protocol] = address
        try:
            async with stall_tolerant_timeout(self._config.connect_timeout_ms / 1000):
                await self._connect(protocol, host, port)
                return await protocol.established
        except TimeoutError:
            if protocol.session is not None:
                return protocol.session  # established in this turn, and perhaps in use
            protocol.abort()
            reason = (
                f"connecting to {address} took longer than {self._config.connect_timeout_ms:g} ms "
                f"(connect_timeout_ms): is its worker stopped, or its event loop blocked?"
            )
            if protocol.handshake is None:
                raise RemoteTransportError(reason) from None
            error = HandshakeError(reason)
            error.may_pass = error.unanswered = True
            raise error from None
        except asyncio.CancelledError:
            # A session that exists may be in use by the peer.
            if protocol.session is None:
                protocol.abort()
            raise
        finally:
            del self._dialling[protocol]
            if protocol.handshake is not None and protocol.handshake.theirs is not None:
                self._known_as[address] = _known_as(protocol.handshake.theirs)

    async def _connect(self, protocol: PeerProtocol, host: str, port: int) -> None:
        context = None if self.tls is None else self.tls.client()
        try:
            await self._loop.create_connection(lambda: protocol, host, port, ssl=context)
        except ssl.SSLError as error:
            protocol.connection_lost(error)
            where = join_address(host, port)
            raise HandshakeError(f"{where} was refused: {refusal_of(error)}") from error
        except ConnectionResetError as error:
            protocol.connection_lost(error)
            if context is None:
                raise
            where = join_address(host, port)
            raise RemoteTransportError(
                f"{where} closed the connection during the TLS handshake: does its worker use TLS?"
            ) from error
        except BaseException:
            # uvloop closes the socket of a cancelled connect and does not tell the protocol.
            protocol.connection_lost(None)
            raise

    async def _wait_for_arrival(self, address: str, timeout_s: float) -> Session | None:
        """Return the session of a connection that the peer has made or makes within the time."""
        session = self._session(address)
        if session is not None:
            return session
        name = self._known_as.get(address, address)
        event = self._arrivals.setdefault(name, asyncio.Event())
        try:
            async with stall_tolerant_timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return None
        finally:
            self._arrivals.pop(name, None)
        return self._session(address)

    # -- calls of the protocols -------------------------------------------------------------------

    def accept(self) -> asyncio.BufferedProtocol:
        """Create the protocol of an accepted socket."""
        protocol = PeerProtocol(self, self._config, self._loop)
        if self.tls is None:
            return protocol
        timeout_s = self._config.wire.handshake_timeout_ms / 1000
        return TlsAcceptor(protocol, self.tls.server(), self._loop, timeout_s, self._tls_rate_limit)

    def begin_handshake(self, protocol: PeerProtocol) -> Handshake:
        """Create the handshake of a socket."""
        asked = self._config.checksums
        # TLS itself detects changed bytes, and loopback crosses no network.
        is_safe = protocol.is_loopback or self.tls is not None
        checksums = asked == "on" or (asked == "auto" and not is_safe)
        return Handshake(
            replace(self._identity, checksums=checksums),
            dials=protocol.dialled,
            secret=self._secret,
            nonce=machine.random_bytes(NONCE_BYTES),
            limits=self._config.wire,
            now=self._loop.time(),
            peer=protocol.peer,
            admit=None if protocol.dialled else partial(self._admission, protocol),
        )

    def on_connected(self, protocol: PeerProtocol) -> None:
        """Count a new socket; if too many are in handshake, turn one away."""
        self._protocols.add(protocol)
        log.debug("%s: %s", protocol.peer, "dialled" if protocol.dialled else "accepted")
        if self._closing:
            self._count_refusal(protocol, "closing")
            protocol.abort()
        elif not protocol.dialled:
            self._handshakes.add(protocol, protocol.source, self._loop.time())
            self._admit(protocol)
            excess = self._handshakes.excess(self._loop.time(), protocol)
            if excess is not None:
                self._turn_away(excess)

    def _turn_away(self, protocol: PeerProtocol) -> None:
        """Refuse a socket in handshake with FULL, or abort it if many refused peers stay open.

        A peer that gets FULL dials again.
        """
        limit = self._config.wire.pending_handshakes_max
        self._handshakes.discard(protocol)
        if self._turned_away() < limit:
            protocol.refuse(Verdict.FULL, f"{limit} other handshakes are in progress")
        else:
            self._count_refusal(protocol, Verdict.FULL.name.lower())
            self._admitted.discard(protocol)
            protocol.abort()

    def _pending(self) -> int:
        """Return the number of sockets in handshake."""
        return sum(protocol.in_handshake for protocol in self._protocols)

    def _turned_away(self) -> int:
        """Return the number of refused sockets that their peers have not closed yet."""
        return len(self._protocols) - self._pending() - len(self.links())

    def on_given_up(self, protocol: PeerProtocol, reason: str) -> None:
        """Count an accepted socket that is closed without an answer."""
        self._count_refusal(protocol, reason)

    def on_refused(self, protocol: PeerProtocol) -> None:
        """Count an accepted socket that was refused."""
        assert protocol.handshake is not None
        assert protocol.handshake.verdict is not None
        self._count_refusal(protocol, protocol.handshake.verdict.name.lower())
        self._handshakes.discard(protocol)
        self._admitted.discard(protocol)

    def _count_refusal(self, protocol: PeerProtocol, reason: str) -> None:
        error = protocol.handshake.error if protocol.handshake is not None else None
        text = text_of(error) if error is not None else protocol.peer
        self._refusals.count(reason, protocol.source, text, self._loop.time())

    def _admit(self, protocol: PeerProtocol) -> bool:
        """Admit an accepted socket if there is room; return whether it is admitted."""
        if len(self._admitted) < self._config.wire.accepted_connections_max:
            self._admitted.add(protocol)
        return protocol in self._admitted

    def _admission(self, protocol: PeerProtocol, theirs: WorkerIdentity) -> tuple[Verdict, str]:
        """Decide whether a valid peer that has dialled is wanted."""
        if self._prefers_own(theirs):
            return Verdict.DUPLICATE, "this worker is already connected, or connecting"
        # A peer that has identified itself takes the place of a silent socket.
        silent = self._handshakes.oldest_silent(self._loop.time(), self._admitted)
        if not self._admit(protocol) and silent is not None:
            self._turn_away(silent)
        if self._admit(protocol):
            return Verdict.WELCOME, ""
        reason = (
            f"this worker has accepted {self._config.wire.accepted_connections_max} connections: "
            f"close some, or raise its accepted_connections_max"
        )
        return Verdict.FULL, reason

    def _prefers_own(self, theirs: WorkerIdentity) -> bool:
        known_as = _known_as(theirs)
        if known_as in self._sessions:
            return True
        dialling = {self._known_as.get(address, address) for address in self._dialling.values()}
        return known_as in dialling and self._identity.worker_id < theirs.worker_id

    def on_agreed(self, protocol: PeerProtocol, handshake: Handshake) -> None:
        """Attach a session to a socket after the agreement of both sides."""
        theirs = handshake.theirs
        assert theirs is not None
        self._accepted += not protocol.dialled
        self._handshakes.discard(protocol)
        session = self._make_session(theirs, handshake.checksums)
        self._sessions[_known_as(theirs)] = session
        self._carriers[session] = protocol
        protocol.carry(session)

    def on_established(self, protocol: PeerProtocol) -> None:
        """End the pause of a dial that waits for this session."""
        assert protocol.handshake is not None
        assert protocol.handshake.theirs is not None
        event = self._arrivals.get(_known_as(protocol.handshake.theirs))
        if event is not None:
            event.set()

    def _make_session(self, theirs: WorkerIdentity, checksums: bool) -> Session:
        name = f"{theirs.worker_id} at {theirs.address}" if theirs.address else theirs.worker_id
        return Session(
            printable(name),
            self._registry,
            self._config,
            self._reader_quota,
            self._unmet_requests,
            worker_id=theirs.worker_id,
            checksums=checksums,
            on_lost=self._forget_session,
        )

    def on_lost(self, protocol: PeerProtocol) -> None:
        """Remove a socket; its session reports its own loss."""
        self._protocols.discard(protocol)
        self._handshakes.discard(protocol)
        self._admitted.discard(protocol)
        log.debug("%s: closed", protocol.peer)

    def _forget_session(self, session: Session) -> None:
        """Remove a lost session; its socket may stay for a farewell."""
        self._count_violation(session, self._carriers.pop(session).source)
        for known_as, known in list(self._sessions.items()):
            if known is session:  # not a newer connection to the same worker
                self._lost += 1
                del self._sessions[known_as]

    def _count_violation(self, session: Session, source: str) -> None:
        """Count a session that ended because its peer broke the protocol."""
        match session.failure:
            case RemoteProtocolError(kind=kind):
                pass
            case UnreadMessagesError():
                kind = "unread"
            case _:
                return
        text = f"{session.peer}: {text_of(session.failure)}"
        self._violations.count(kind, source, text, self._loop.time())

    # -- the end ----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Let every connection send its output, and wait until its peer closes too.

        Connections still open after ``close_timeout_ms``, or at a cancellation, are cut off.
        """
        self._closing = True
        dials = [dial.cancel() for dial in self._dials.values()]
        try:
            await asyncio.gather(*dials, return_exceptions=True)
            for protocol in self._protocols:
                protocol.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.close_timeout_ms / 1000):
                    await self._all_closed()
        finally:
            for protocol in self._protocols:
                protocol.abort()
        await self._all_closed()

    async def _all_closed(self) -> None:
        while self._protocols:
            await asyncio.wait([protocol.closed for protocol in self._protocols])

    def links(self) -> tuple[Link, ...]:
        """Return the link of every established connection."""
        links = (protocol.link for protocol in self._protocols)
        return tuple(link for link in links if link is not None and link.state is not _LOST)

    def statistics(self) -> PeerDirectoryStatistics:
        """Return counts of connections and sockets, current and since the worker's start."""
        return PeerDirectoryStatistics(
            established=len(self._sessions),
            pending=self._pending(),
            turned_away=self._turned_away(),
            admitted=len(self._admitted),
            accepted_total=self._accepted,
            dialled_total=self._dialled,
            lost_total=self._lost,
            refused=tuple(starmap(RefusedPeers, self._refusals.counts.items())),
            violations=tuple(starmap(ProtocolViolations, self._violations.counts.items())),
        )


def _known_as(theirs: WorkerIdentity) -> str:
    """Return the name by which a peer is found: its listening address, or its id."""
    return theirs.address or f"worker {theirs.worker_id}"
