"""TLS: how this process proves which one it is, and how it checks its peers.

Theory of operation. TLS 1.3 and nothing older, and both sides show a certificate of an authority
that the other one believes. ``Tls`` has a context of Python's ``ssl`` for each side. Contexts that
come from files are made anew when a file has changed, and the next connection uses them; so a
certificate is renewed without a restart.

The data plane checks no host name. A worker may be reached under many addresses, and through NAT
under ones that it does not know. A certificate vouches for *names* there, and the id that the
worker says in the handshake must be among them (``connection/handshake.py``). The control plane is
HTTPS, and clients check the coordinator's host name as browsers do.

An accepted socket is counted, and its deadline runs, before its TLS handshake begins: so the limits
on sockets in handshake hold for slow TLS clients, too (``Entrance``). There is no
renegotiation in TLS 1.3.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import ssl
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from flinknet import machine
from flinknet.config.tls import TlsConfig
from flinknet.errors import ConfigurationError, HandshakeError
from flinknet.net.handshake_turns import HandshakeTurns

__all__ = ["Entrance", "Tls", "TlsFiles", "check_private", "names_in", "refusal_of", "tls_of"]

log = logging.getLogger("flinknet.tls")

RELOAD_INTERVAL_S = 10.0

_ENTRANCE_READ_BYTES = 640
"""More than a client hello has, as a rule."""

_EARLY_BYTES_MAX = 4096
"""What may come before the handshake begins: no peer says more before it is answered."""

_ANOTHER_USER = 0o077
"""Bits of a mode that give a file to another user than its owner."""
_OTHERS_WRITE_OR_READ = 0o037
"""The same without the right of the group to read."""

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL"})
"""Reasons of OpenSSL for a peer whose bytes are no TLS 1.3."""


class Tls:
    """The certificates of this process, and those that it believes.

    Args: server: context of accepted connections. client: context of dialled ones. pinned: SHA-256
    fingerprints, hexadecimal, of the only certificates that are accepted; empty for all of the
    authority.

    Raises ConfigurationError for a context that allows less than TLS 1.3, or peers without a
    certificate.
    """

    def __init__(
        self,
        server: ssl.SSLContext,
        client: ssl.SSLContext,
        *,
        pinned: Collection[str] = (),
    ) -> None:
        _check_context(server, "server")
        _check_context(client, "client")
        self._server, self._client = server, client
        self._pinned = frozenset(one.lower().replace(":", "") for one in pinned)

    def server(self) -> ssl.SSLContext:
        """Return the context for a connection that is accepted."""
        return self._server

    def client(self) -> ssl.SSLContext:
        """Return the context for a connection that is dialled, which checks no host name."""
        return self._client

    def names_of_peer(self, transport: asyncio.BaseTransport) -> tuple[str, ...]:
        """Return the names for which the certificate of a connection's peer vouches.

        Raises HandshakeError for a certificate that is not among the pinned ones.
        """
        shown: ssl.SSLObject = transport.get_extra_info("ssl_object")
        self.check_pinned(shown)
        return names_in(shown.getpeercert() or {})

    def check_pinned(self, shown: ssl.SSLObject) -> None:
        """Raise HandshakeError if certificates are pinned, and that of the peer is not."""
        if not self._pinned:
            return
        raw = shown.getpeercert(binary_form=True)
        fingerprint = "" if raw is None else hashlib.sha256(raw).hexdigest()
        if fingerprint not in self._pinned:
            raise HandshakeError(f"its certificate, SHA-256 {fingerprint}, is not a pinned one")


class TlsFiles(Tls):
    """TLS of PEM files, which are read again when they have changed.

    Args: certificate, private_key, authority: the files, as in ``TlsConfig``. pinned: as in
    ``Tls``. reload_interval_s: between two looks at the files.

    Raises ConfigurationError for a file that cannot be used.
    """

    def __init__(
        self,
        certificate: str | os.PathLike[str],
        private_key: str | os.PathLike[str],
        authority: str | os.PathLike[str],
        *,
        pinned: Collection[str] = (),
        reload_interval_s: float = RELOAD_INTERVAL_S,
    ) -> None:
        self._certificate, self._private_key = Path(certificate), Path(private_key)
        self._authority = Path(authority)
        self._reload_interval_s = reload_interval_s
        self._looked_at = machine.monotonic()
        self._seen = self._stamp()
        self._contexts = self._load()
        super().__init__(self._contexts.server, self._contexts.client, pinned=pinned)

    def server(self) -> ssl.SSLContext:
        return self._fresh().server

    def client(self) -> ssl.SSLContext:
        return self._fresh().client

    def https_server(self, *, wants_certificate: bool) -> ssl.SSLContext:
        """Return the context for an HTTP connection that is accepted."""
        contexts = self._fresh()
        return contexts.server if wants_certificate else contexts.open_server

    def https_client(self) -> ssl.SSLContext:
        """Return the context for an HTTP connection that is dialled: it checks the host name."""
        return self._fresh().https_client

    def _fresh(self) -> _Contexts:
        """Return contexts of the files as they are; as they were, if they cannot be used now."""
        now = machine.monotonic()
        if now - self._looked_at >= self._reload_interval_s:
            self._looked_at = now
            try:
                stamp = self._stamp()
                if stamp != self._seen:
                    self._contexts = self._load()
                    self._seen = stamp
                    log.info("the certificate %s was loaded again", self._certificate)
            except ConfigurationError as error:
                # One of the files is being written, perhaps: the next look finds all of them.
                log.warning("the certificate in use is the one from before: %s", error)
        return self._contexts

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        """Return what differs after a change of a file."""
        try:
            files = (self._certificate, self._private_key, self._authority)
            found = [path.stat() for path in files]
        except OSError as error:
            raise ConfigurationError(f"TLS needs {error.filename}: {error.strerror}") from error
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)

    def _load(self) -> _Contexts:
        https_client = self._context(ssl.PROTOCOL_TLS_CLIENT, ssl.CERT_REQUIRED)
        https_client.check_hostname = True
        return _Contexts(
            server=self._context(ssl.PROTOCOL_TLS_SERVER, ssl.CERT_REQUIRED),
            open_server=self._context(ssl.PROTOCOL_TLS_SERVER, ssl.CERT_OPTIONAL),
            client=self._context(ssl.PROTOCOL_TLS_CLIENT, ssl.CERT_REQUIRED),
            https_client=https_client,
        )

    def _context(self, protocol: int, verify_mode: ssl.VerifyMode) -> ssl.SSLContext:
        """Make a context; ConfigurationError names the file that cannot be used."""
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = verify_mode
        try:
            context.load_verify_locations(cafile=self._authority)
        except (OSError, ValueError) as error:
            raise _unusable(self._authority, "the authority", error) from error
        check_private(self._private_key, "the private key")
        try:
            context.load_cert_chain(self._certificate, self._private_key, password=_no_password)
        except (OSError, ValueError) as error:
            what = f"the certificate, with the private key {self._private_key},"
            raise _unusable(self._certificate, what, error) from error
        return context


@cache
def tls_of(config: TlsConfig) -> TlsFiles | None:
    """Return the TLS of a configuration, one for all that is configured alike; None if it is
    off."""
    if not config.is_on:
        return None
    return TlsFiles(
        config.certificate,
        config.private_key,
        config.authority,
        pinned=config.fingerprints,
        reload_interval_s=config.reload_interval_ms / 1000,
    )


class _Contexts(NamedTuple):
    """One context for each way of connecting, all of the same files."""

    server: ssl.SSLContext
    open_server: ssl.SSLContext
    client: ssl.SSLContext
    https_client: ssl.SSLContext


def check_private(path: Path, what: str) -> None:
    """Raise ConfigurationError if another user may read or write a file that must be secret.

    The group may read a file of root's: systemd and Kubernetes give a service its secrets so.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigurationError(f"{what} {path} cannot be read: {error.strerror}") from error
    mode = status.st_mode & 0o777
    given_by_root = status.st_uid == 0 and os.geteuid() != 0
    if mode & (_OTHERS_WRITE_OR_READ if given_by_root else _ANOTHER_USER):
        raise ConfigurationError(
            f"{what} {path} has mode {mode:04o}, so that other users may read it: chmod 600 {path}"
        )


def _no_password() -> str:
    raise ConfigurationError("the private key has a password: use one without")


def _unusable(path: Path, what: str, error: Exception) -> ConfigurationError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    if isinstance(error, ssl.SSLError):
        reason = error.reason or reason
    return ConfigurationError(f"{what} {path} cannot be used for TLS: {reason}")


def _check_context(context: ssl.SSLContext, side: str) -> None:
    if context.minimum_version < ssl.TLSVersion.TLSv1_3:
        raise ConfigurationError(
            f"the {side} context allows versions of TLS before 1.3: set its minimum_version to "
            "ssl.TLSVersion.TLSv1_3"
        )
    if context.verify_mode is not ssl.CERT_REQUIRED:
        raise ConfigurationError(
            f"the {side} context lets peers in that show no certificate: set its verify_mode to "
            "ssl.CERT_REQUIRED"
        )
    if side == "client" and context.check_hostname:
        raise ConfigurationError(
            "the client context checks host names, but a worker's certificate has the worker's id: "
            "set its check_hostname to False"
        )


def names_in(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the DNS names of a certificate, as ``SSLSocket.getpeercert`` has them."""
    return tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")


class Inner(Protocol):
    """A protocol that may stand behind an entrance: one of asyncio's, which hears of its socket
    before TLS is there."""

    def accepted(self, transport: asyncio.BaseTransport) -> None:
        """A socket was accepted; ``connection_made`` comes when it is secure."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class Entrance(asyncio.BufferedProtocol):
    """Stands at an accepted socket until its TLS handshake is over, and lets ``inner`` in then.

    ``inner`` is told of the socket at once, and has its own deadline for both handshakes. It aborts
    the socket then, and gets ``connection_lost`` in any case, with the error of TLS if there is
    one.

    The handshake begins when the peer has said something, and when it is its turn: it is costly for
    this side alone (``handshake_turns.py``). asyncio can begin TLS one turn of the loop after the
    socket was accepted at the earliest, and pass on what came behind a handshake before it says
    that this is over. What is read too early is given on later, in both cases.
    """

    def __init__(
        self,
        inner: Inner,
        context: ssl.SSLContext,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        turns: HandshakeTurns,
    ) -> None:
        """``turns`` says when the handshake may begin: those of all sockets of a listener."""
        self._turns = turns
        self._source = ""
        self._is_begun = False
        self._speaks_tls = False
        self._is_paused = False
        self._inner = inner
        self._context = context
        self._loop = loop
        self._timeout_s = timeout_s
        self._memory = bytearray(_ENTRANCE_READ_BYTES)
        self._early = bytearray()
        self._plain: asyncio.Transport
        self._is_over = False
        self._securing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BufferedProtocol, as for the rest."""
        self._plain = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._source = (transport.get_extra_info("peername") or ("",))[0]
        self._inner.accepted(transport)

    def _begin(self) -> None:
        """Begin the handshake: it is this socket's turn."""
        if not self._plain.is_closing():
            self._securing = self._loop.create_task(self._secure(), name="flinknet TLS handshake")

    def connection_lost(self, exc: Exception | None) -> None:
        self._turns.leave(self._source, self._begin)
        # Here from the socket itself: TLS has not begun, and would wait for a lost one for ever.
        if self._securing is not None:
            self._securing.cancel()
        self._end(exc)

    def _end(self, exc: Exception | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        # No bytearray: asyncio's TLS reads record after record into a slice of it, which would be
        # a copy from the second on.
        return memoryview(self._memory)

    def buffer_updated(self, nbytes: int) -> None:
        self._early += self._memory[:nbytes]
        if len(self._early) > _EARLY_BYTES_MAX:
            if self._speaks_tls:
                # Of a peer that has proved its certificate: a request with a body, perhaps. What
                # was read of the socket together with the end of the handshake comes here still.
                self._is_paused = True
                self._plain.pause_reading()
            else:
                self._plain.abort()
        elif not self._is_begun:
            self._is_begun = True
            self._turns.take(self._source, self._begin)

    def eof_received(self) -> bool:
        self._plain.abort()
        return False

    async def _secure(self) -> None:
        starting = self._loop.create_task(
            self._loop.start_tls(
                self._plain,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._timeout_s,
            )
        )
        # Behind the call that tells TLS of its socket, and before the socket is read again.
        self._loop.call_soon(self._loop.call_soon, self._give_to_tls)
        try:
            secured = await starting
        except OSError as error:
            self._end(error)
            return
        if self._is_over or secured is None or secured.is_closing():
            self._end(None)  # asyncio does not say so of one that was aborted meanwhile
            return
        self._is_over = True
        self._let_in(secured)

    def _give_to_tls(self) -> None:
        protocol = self._plain.get_protocol()
        early, self._early = self._early, bytearray()
        self._speaks_tls = protocol is not self
        if early and protocol is not self and not self._plain.is_closing():
            _give(cast(asyncio.BufferedProtocol, protocol), early)  # of asyncio, or of uvloop

    def _let_in(self, secured: asyncio.Transport) -> None:
        inner = cast(asyncio.BaseProtocol, self._inner)
        secured.set_protocol(inner)
        inner.connection_made(secured)
        if self._is_paused:
            self._plain.resume_reading()
        if not self._early or secured.is_closing():
            return
        if isinstance(inner, asyncio.BufferedProtocol):
            _give(inner, self._early)
        else:
            cast(asyncio.Protocol, inner).data_received(bytes(self._early))


def _give(protocol: asyncio.BufferedProtocol, data: bytearray) -> None:
    """Give bytes to a protocol as a socket does."""
    while data:
        room = memoryview(protocol.get_buffer(len(data)))
        size = min(len(room), len(data))
        room[:size] = data[:size]
        del data[:size]
        protocol.buffer_updated(size)


def refusal_of(error: BaseException) -> str | None:
    """Return why a TLS handshake did not succeed, for people; None if TLS is not why."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return f"it does not speak TLS 1.3 ({reason})"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it shows no certificate"
    if "ALERT" in reason:
        return f"it does not accept this side's certificate ({reason})"
    return f"the TLS handshake failed ({reason})"
