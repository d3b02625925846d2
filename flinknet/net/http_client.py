"""An HTTP client of one coordinator, with the cluster's token, over TLS if configured.

Each request has its own connection, because the coordinator may cut off a kept connection just when
the next request uses it. aiohttp is imported with this module and not earlier.
"""

from __future__ import annotations

from typing import Any

import aiohttp

from flinknet.errors import ConfigurationError, HandshakeError
from flinknet.net.http_calls import hint_of_hang_up
from flinknet.net.tls import TlsFiles, refusal_of

__all__ = ["HttpClient"]


class HttpClient:
    """Requests to the coordinator at ``address`` (``"host:port"``).

    Call ``open`` in an event loop, and ``close`` at the end. Requests raise aiohttp's errors, and
    ConfigurationError if TLS finds the wrong coordinator.
    """

    def __init__(
        self, address: str, token: str, tls: TlsFiles | None, server_name: str = ""
    ) -> None:
        """``server_name`` is the name in the coordinator's certificate; by default its host."""
        self.address = address
        self._token = token
        self._tls = tls
        self._server_name = server_name or None
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Create the session."""
        scheme = "http" if self._tls is None else "https"
        self._session = aiohttp.ClientSession(
            f"{scheme}://{self.address}",
            headers={"Authorization": f"Bearer {self._token}"},
            connector=_Connector(self.address, self._tls),
            # aiohttp's default would count the time in which this process is held up.
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        """Close the session; idempotent."""
        if self._session is not None:
            await self._session.close()

    def request(self, method: str, path: str, **options: Any) -> Any:
        """Begin a request, as ``aiohttp.ClientSession.request`` does."""
        assert self._session is not None
        return self._session.request(
            method, path, allow_redirects=False, **options, **self._security()
        )

    def websocket(self, path: str, **options: Any) -> Any:
        """Open a websocket, as ``aiohttp.ClientSession.ws_connect`` does."""
        assert self._session is not None
        return self._session.ws_connect(path, **options, **self._security())

    def hint_of_hang_up(self) -> str:
        """Return a likely cause of a coordinator that accepts connections and hangs up."""
        return hint_of_hang_up(self._tls)

    @staticmethod
    def reason(error: aiohttp.ClientError) -> str:
        """Return why a coordinator was not reached, without the library's objects in the text."""
        if isinstance(error, aiohttp.ClientSSLError):
            return str(error)
        return (isinstance(error, aiohttp.ClientConnectorError) and error.strerror) or str(error)

    def _security(self) -> dict[str, Any]:
        # Created for each request, because certificates may have been renewed.
        if self._tls is None:
            return {}
        return {"ssl": self._tls.https_client(), "server_hostname": self._server_name}


class _Connector(aiohttp.TCPConnector):
    """Connector that checks the peer's certificate before anything is sent."""

    def __init__(self, address: str, tls: TlsFiles | None) -> None:
        # Each request has its own connection, and their number is not limited here.
        super().__init__(limit=0, force_close=True)
        self._address = address
        self._tls = tls

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        try:
            connection = await super().connect(*arguments, **options)
        except aiohttp.ClientSSLError as error:
            cause = getattr(error, "certificate_error", None) or error.os_error
            raise self._wrong(refusal_of(cause) or str(error)) from error
        if self._tls is not None and connection.transport is not None:
            try:
                self._tls.names_of_peer(connection.transport)
            except HandshakeError as error:
                connection.close()
                raise self._wrong(str(error)) from error
        return connection

    def _wrong(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"the coordinator at {self._address} was refused: {reason}")
