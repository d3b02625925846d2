"""An HTTP client of one coordinator, with the cluster's token, over TLS if configured.

Each request has its own connection, because the coordinator may cut off a kept connection just when
the next request uses it. aiohttp is imported with this module and not earlier.
"""

from __future__ import annotations

from typing import Any

import aiohttp

from flinknet.errors import ConfigurationError
from flinknet.net.coordinator_tls import CoordinatorTls
from flinknet.net.tls import TlsFiles

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
        self._tls = CoordinatorTls(address, tls, server_name)
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Create the session."""
        scheme = "https" if self._tls.is_on else "http"
        self._session = aiohttp.ClientSession(
            f"{scheme}://{self.address}",
            headers={"Authorization": f"Bearer {self._token}"},
            connector=_Connector(self._tls),
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
        return self._tls.hint_of_hang_up()

    @staticmethod
    def reason(error: aiohttp.ClientError) -> str:
        """Return why a coordinator was not reached, without the library's objects in the text."""
        if isinstance(error, aiohttp.ClientSSLError):
            return str(error)
        return (isinstance(error, aiohttp.ClientConnectorError) and error.strerror) or str(error)

    def _security(self) -> dict[str, Any]:
        if not self._tls.is_on:
            return {}
        return {"ssl": self._tls.context(), "server_hostname": self._tls.server_name or None}


class _Connector(aiohttp.TCPConnector):
    """Connector that checks the peer's certificate before anything is sent."""

    def __init__(self, tls: CoordinatorTls) -> None:
        # Each request has its own connection, and their number is not limited here.
        super().__init__(limit=0, force_close=True)
        self._tls = tls

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        try:
            connection = await super().connect(*arguments, **options)
        except aiohttp.ClientSSLError as error:
            cause = getattr(error, "certificate_error", None) or error.os_error
            raise self._tls.refused(cause) from error
        if connection.transport is not None:
            try:
                self._tls.check(connection.transport)
            except ConfigurationError:
                connection.close()
                raise
        return connection
