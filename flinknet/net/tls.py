"""TLS: this process's identity, and the check of its peers.

Only TLS 1.3 is allowed, and both sides show a certificate from an authority that the other side
trusts. ``Tls`` has an ``ssl.SSLContext`` for each side. Contexts from files are created again when
a file has changed, and the next connection uses them. A certificate is thus renewed without a
restart.

The data plane checks no host names. A worker may be reached under many addresses, and through NAT
under ones that it does not know. The certificate contains *names* instead, and the worker id in the
handshake must match one of them (``connection/handshake.py``). The control plane is HTTPS, and its
clients check the coordinator's host name as browsers do.

An accepted socket is counted, and its deadline runs, before its TLS handshake begins. The limits on
sockets in handshake therefore also hold for slow TLS clients (``TlsAcceptor``). TLS 1.3 has no
renegotiation.
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
from flinknet.net.handshake_rate_limit import HandshakeRateLimit

__all__ = ["Tls", "TlsAcceptor", "TlsFiles", "check_private", "names_in", "refusal_of", "tls_of"]

log = logging.getLogger("flinknet.tls")

RELOAD_INTERVAL_S = 10.0

_ENTRANCE_READ_BYTES = 640
"""Usually more than a client hello."""

_EARLY_BYTES_MAX = 4096
"""Limit of the bytes before the handshake begins: no peer sends more before it gets an answer."""

_ANOTHER_USER = 0o077
"""Mode bits that give access to users other than the owner."""
_OTHERS_WRITE_OR_READ = 0o037
"""The same bits without the group's read permission."""

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL"})
"""OpenSSL's reasons for a peer that does not speak TLS 1.3."""


class Tls:
    """Certificates of this process, and those that it trusts.

    Args:
        server: Context of accepted connections.
        client: Context of dialled connections.
        pinned: SHA-256 fingerprints, hexadecimal, of the only accepted certificates; empty for all
            certificates of the authority.

    Raises:
        ConfigurationError: If a context allows versions before TLS 1.3, or peers without a
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
        """Return the context for an accepted connection."""
        return self._server

    def client(self) -> ssl.SSLContext:
        """Return the context for a dialled connection, which checks no host name."""
        return self._client

    def names_of_peer(self, transport: asyncio.BaseTransport) -> tuple[str, ...]:
        """Return the DNS names in the certificate of a connection's peer.

        Raises:
            HandshakeError: If certificates are pinned and the peer's is not.
        """
        shown: ssl.SSLObject = transport.get_extra_info("ssl_object")
        self.check_pinned(shown)
        return names_in(shown.getpeercert() or {})

    def check_pinned(self, shown: ssl.SSLObject) -> None:
        """Raise HandshakeError if certificates are pinned and the peer's is not."""
        if not self._pinned:
            return
        raw = shown.getpeercert(binary_form=True)
        fingerprint = "" if raw is None else hashlib.sha256(raw).hexdigest()
        if fingerprint not in self._pinned:
            raise HandshakeError(f"its certificate, SHA-256 {fingerprint}, is not pinned")


class TlsFiles(Tls):
    """TLS from PEM files, which are read again after a change.

    Args:
        certificate: File of this process's certificate, as in ``TlsConfig``.
        private_key: File of the key of this certificate.
        authority: File of the certificates of the authorities that are trusted.
        pinned: As in ``Tls``.
        reload_interval_s: Time between two checks of the files.

    Raises:
        ConfigurationError: If a file cannot be used.
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
        """Return the context for an accepted HTTP connection."""
        contexts = self._fresh()
        return contexts.server if wants_certificate else contexts.open_server

    def https_client(self) -> ssl.SSLContext:
        """Return the context for a dialled HTTP connection, which checks the host name."""
        return self._fresh().https_client

    def _fresh(self) -> _Contexts:
        """Return contexts from the current files, or the previous ones if these are unusable."""
        now = machine.monotonic()
        if now - self._looked_at >= self._reload_interval_s:
            self._looked_at = now
            try:
                stamp = self._stamp()
                if stamp != self._seen:
                    self._contexts = self._load()
                    # Only now, so that unusable files are tried again at the next check.
                    self._seen = stamp
                    log.info("the certificate %s was loaded again", self._certificate)
            except ConfigurationError as error:
                # A file may be in the middle of a write; the next check then finds all of them.
                log.warning(
                    "the new certificate cannot be loaded, and the old one stays in use: %s", error
                )
        return self._contexts

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        """Return a value that changes with the files."""
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
        """Create a context; a ConfigurationError names the unusable file."""
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
            # Without the function, OpenSSL would ask for a password at the terminal.
            context.load_cert_chain(self._certificate, self._private_key, password=_no_password)
        except (OSError, ValueError) as error:
            what = f"the certificate, with the private key {self._private_key},"
            raise _unusable(self._certificate, what, error) from error
        return context


@cache
def tls_of(config: TlsConfig) -> TlsFiles | None:
    """Return the TLS of a configuration, shared by equal ones; None if it is off."""
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
    """One context for each kind of connection, all from the same files."""

    server: ssl.SSLContext
    open_server: ssl.SSLContext
    client: ssl.SSLContext
    https_client: ssl.SSLContext


def check_private(path: Path, what: str) -> None:
    """Raise ConfigurationError if another user may read or write a secret file.

    The group may read a file owned by root, because systemd and Kubernetes provide secrets to
    services in this way.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigurationError(f"{what} {path} cannot be read: {error.strerror}") from error
    mode = status.st_mode & 0o777
    given_by_root = status.st_uid == 0 and os.geteuid() != 0
    if mode & (_OTHERS_WRITE_OR_READ if given_by_root else _ANOTHER_USER):
        raise ConfigurationError(
            f"{what} {path} has mode {mode:04o}, so other users may read it: run chmod 600 {path}"
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
            f"the {side} context accepts peers without a certificate: set its verify_mode to "
            "ssl.CERT_REQUIRED"
        )
    if side == "client" and context.check_hostname:
        raise ConfigurationError(
            "the client context checks host names, but a worker's certificate has the worker's id: "
            "set its check_hostname to False"
        )


def names_in(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the DNS names in a certificate, in the form of ``SSLSocket.getpeercert``."""
    return tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")


class InnerProtocol(Protocol):
    """An asyncio protocol behind an entrance, which is told of its socket before TLS begins."""

    def accepted(self, transport: asyncio.BaseTransport) -> None:
        """Take an accepted socket; ``connection_made`` follows when it is secure."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class TlsAcceptor(asyncio.BufferedProtocol):
    """Protocol of an accepted socket until its TLS handshake is over; ``inner`` follows.

    ``inner`` is told of the socket immediately. It has its own deadline for both handshakes, at
    which it aborts the socket. It always gets ``connection_lost``, with the TLS error if there is
    one.

    The handshake begins after the first input and when it is its turn, because only this side has a
    cost (``handshake_rate_limit.py``). asyncio can begin TLS one turn of the loop after the accept
    at the earliest. It may also pass on input behind a handshake before it reports its completion.
    In both cases, bytes that are read too early are passed on later.
    """

    def __init__(
        self,
        inner: InnerProtocol,
        context: ssl.SSLContext,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        rate_limit: HandshakeRateLimit,
    ) -> None:
        """``rate_limit`` decides when the handshake begins; all sockets of a listener share it."""
        self._rate_limit = rate_limit
        self._source = ""
        self._is_begun = False
        self._is_tls = False
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
        """See asyncio.BufferedProtocol, also for the other callbacks."""
        self._plain = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._source = (transport.get_extra_info("peername") or ("",))[0]
        self._inner.accepted(transport)

    def _begin(self) -> None:
        """Begin the handshake at this socket's turn."""
        if not self._plain.is_closing():
            self._securing = self._loop.create_task(self._secure(), name="flinknet TLS handshake")

    def connection_lost(self, exc: Exception | None) -> None:
        self._rate_limit.leave(self._source, self._begin)
        # This is the socket's own loss: TLS has not begun, and would wait for the socket forever.
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
            if self._is_tls:
                # The peer has completed the TLS handshake, and these bytes were read together with
                # its end. They may be a request with a body. Reading pauses until ``inner`` has
                # them.
                self._is_paused = True
                self._plain.pause_reading()
            else:
                self._plain.abort()
        elif not self._is_begun:
            self._is_begun = True
            self._rate_limit.take(self._source, self._begin)

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
        # Runs after the call that gives TLS its socket, and before the socket is read again.
        self._loop.call_soon(self._loop.call_soon, self._feed_tls)
        try:
            secured = await starting
        except OSError as error:
            self._end(error)
            return
        if self._is_over or secured is None or secured.is_closing():
            self._end(None)  # asyncio does not report a socket aborted meanwhile
            return
        self._is_over = True
        self._admit(secured)

    def _feed_tls(self) -> None:
        protocol = self._plain.get_protocol()
        early, self._early = self._early, bytearray()
        self._is_tls = protocol is not self
        if early and protocol is not self and not self._plain.is_closing():
            _feed(cast(asyncio.BufferedProtocol, protocol), early)  # asyncio's or uvloop's protocol

    def _admit(self, secured: asyncio.Transport) -> None:
        inner = cast(asyncio.BaseProtocol, self._inner)
        secured.set_protocol(inner)
        inner.connection_made(secured)
        if self._is_paused:
            self._plain.resume_reading()
        if not self._early or secured.is_closing():
            return
        if isinstance(inner, asyncio.BufferedProtocol):
            _feed(inner, self._early)
        else:
            cast(asyncio.Protocol, inner).data_received(bytes(self._early))


def _feed(protocol: asyncio.BufferedProtocol, data: bytearray) -> None:
    """Pass bytes to a protocol as a socket does."""
    while data:
        room = memoryview(protocol.get_buffer(len(data)))
        size = min(len(room), len(data))
        room[:size] = data[:size]
        del data[:size]
        protocol.buffer_updated(size)


def refusal_of(error: BaseException) -> str | None:
    """Return why a TLS handshake failed, as text; None if the error is not from TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return f"it does not speak TLS 1.3 ({reason})"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it has no certificate"
    if "ALERT" in reason:
        return f"it does not accept this side's certificate ({reason})"
    return f"the TLS handshake failed ({reason})"
