"""TLS of HTTP requests to one coordinator: the expected name, the pins, and errors in plain words.

Two HTTP libraries send such requests (``http_calls.py``, ``http_client.py``), and both check the
coordinator here before they send anything.
"""

from __future__ import annotations

import asyncio
import ssl

from flinknet.errors import ConfigurationError, HandshakeError
from flinknet.net.tls import TlsFiles, refusal_of

__all__ = ["CoordinatorTls"]


class CoordinatorTls:
    """The checks of the coordinator at ``address`` (``"host:port"``), if TLS is configured."""

    def __init__(self, address: str, tls: TlsFiles | None, server_name: str = "") -> None:
        """``server_name`` is the name in the coordinator's certificate; by default its host."""
        self._address = address
        self._tls = tls
        self.server_name = server_name
        """Expected name of the coordinator; empty for its host."""

    @property
    def is_on(self) -> bool:
        """Whether requests use TLS."""
        return self._tls is not None

    def context(self) -> ssl.SSLContext | None:
        """Return the context of the next connection, or None without TLS."""
        # Asked for each connection, because certificates may have been renewed.
        return None if self._tls is None else self._tls.https_client()

    def check(self, transport: asyncio.BaseTransport) -> None:
        """Raise ConfigurationError if certificates are pinned and the coordinator's is not."""
        if self._tls is None:
            return
        try:
            self._tls.names_of_peer(transport)
        except HandshakeError as error:
            raise self._refused(str(error)) from error

    def refused(self, error: BaseException) -> ConfigurationError:
        """Return the error of a failed TLS handshake."""
        return self._refused(refusal_of(error) or str(error))

    def hint_of_hang_up(self) -> str:
        """Return a likely cause of a coordinator that accepts connections and hangs up."""
        if self._tls is None:
            return "; if this repeats, it may require TLS, which is not configured here"
        return "; if this repeats, it may not accept this side's certificate: see its log"

    def _refused(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"the coordinator at {self._address} was refused: {reason}")
