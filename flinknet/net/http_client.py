"""An HTTP client of one coordinator, with the cluster's token, over TLS if the cluster has it.

Each request has a connection of its own: one that is kept for the next is one that the coordinator
may cut off just then. aiohttp is imported with this module, and not before.
"""

from __future__ import annotations

from typing import Any

import aiohttp

from flinknet.errors import ConfigurationError, HandshakeError
from flinknet.net.http_calls import hint_of_hang_up
from flinknet.net.tls import TlsFiles, refusal_of

__all__ = ["HttpClient"]


class HttpClient:
    """Requests to the coordinator at ``address``, which is ``"host:port"``.

    ``open`` in an event loop, and in the end ``close``. Requests raise aiohttp's errors, and
    ConfigurationError if TLS finds that the coordinator is not the right one.
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
        """Make the session."""
        scheme = "http" if self._tls is None else "https"
        self._session = aiohttp.ClientSession(
            f"{scheme}://{self.address}",
            headers={"Authorization": f"Bearer {self._token}"},
            connector=_Connector(self.address, self._tls),
            # One of aiohttp's would count the time in which this side is held up.
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        """End the session; idempotent."""
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
        """Return what it may mean that the coordinator accepts connections and hangs up."""
        return hint_of_hang_up(self._tls)

    @staticmethod
    def reason(error: aiohttp.ClientError) -> str:
        """Return why a coordinator was not reached, without the library's objects in the text."""
        if isinstance(error, aiohttp.ClientSSLError):
            return str(error)
        return (isinstance(error, aiohttp.ClientConnectorError) and error.strerror) or str(error)

    def _security(self) -> dict[str, Any]:
        # Anew for each request, because certificates may have been renewed.
        if self._tls is None:
            return {}
        return {"ssl": self._tls.https_client(), "server_hostname": self._server_name}


class _Connector(aiohttp.TCPConnector):
    """Makes connections, and looks whose they are before anything is said."""

    def __init__(self, address: str, tls: TlsFiles | None) -> None:
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
