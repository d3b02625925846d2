"""One HTTP request to a coordinator, with a response that may be held open.

An embedded exchange talks to a coordinator only if its names are there. This module, and with it
aiohttp, is imported only then.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from flinknet.errors import ConfigurationError, RemoteTransportError
from flinknet.net.address import join_address
from flinknet.net.http_client import HttpClient
from flinknet.net.stall_tolerant_timer import stall_tolerant_timeout
from flinknet.net.tls import TlsFiles

__all__ = ["HttpRequest"]

_ANSWER_BYTES_MAX = 1 << 20
"""Limit of a response's size: answers to these requests have some dozens of lines."""

_T = TypeVar("_T")


class HttpRequest:
    """A request with the cluster's token; use it with ``async with``.

    Entering it returns when the response has begun.

    Raises (on entering, and in every method):
        RemoteTransportError: If the coordinator does not answer within ``timeout_s``.
        ConfigurationError: If it refuses the request, or the server is no coordinator.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        *,
        timeout_s: float,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        self._host, self._port = host, port
        self._http = HttpClient(join_address(host, port), token, tls)
        self._timeout_s = timeout_s
        self._method, self._path, self._body = method, path, body
        self._response: aiohttp.ClientResponse

    async def __aenter__(self) -> Self:
        self._http.open()
        try:
            self._response = await self._in_time(
                self._http.request(self._method, self._path, json=self._body)
            )
            if self._response.status not in range(200, 300):
                raise ConfigurationError(
                    f"the coordinator at {self._where} refuses: {await self._reason()}"
                )
        except BaseException:
            await self._http.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._response.close()
        await self._http.close()

    async def json(self) -> Any:
        """Return the decoded body of the response."""
        try:
            return json.loads(await self._in_time(self._content()))
        except ValueError as error:
            raise self._no_coordinator() from error

    async def ended(self) -> None:
        """Return when the coordinator has ended the response."""
        with suppress(aiohttp.ClientError):
            async for _ in self._response.content.iter_any():
                pass

    async def _content(self) -> bytes:
        content = bytearray()
        async for piece in self._response.content.iter_any():
            content += piece
            if len(content) > _ANSWER_BYTES_MAX:
                raise self._no_coordinator()
        return bytes(content)

    async def _in_time(self, answer: Awaitable[_T]) -> _T:
        try:
            async with stall_tolerant_timeout(self._timeout_s):
                return await answer
        except TimeoutError as error:
            raise RemoteTransportError(
                f"the coordinator at {self._where} has not answered within {self._timeout_s:.0f} s"
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise RemoteTransportError(
                f"no coordinator answers at {self._where}: {error.strerror}; start one there "
                "(python -m flinknet.cluster.coordinator, with "
                f"FLINKNET_CLUSTER_COORDINATOR_PORT={self._port}), or give the address of another"
            ) from error
        except aiohttp.ClientResponseError as error:
            raise self._no_coordinator() from error
        except aiohttp.ClientError as error:
            raise RemoteTransportError(
                f"the coordinator at {self._where} has closed the connection: it has ended, or has "
                f"cluster.http_connections_max connections already{self._http.hint_of_hang_up()}"
            ) from error

    async def _reason(self) -> str:
        """Return the message of a coordinator's refusal."""
        content = await self._in_time(self._content())
        try:
            return str(json.loads(content)["error"]["message"])
        except (ValueError, LookupError, TypeError):
            return "it does not support such requests; is it another version?"

    def _no_coordinator(self) -> ConfigurationError:
        return ConfigurationError(
            f"the server at {self._where} is not a coordinator of flinknet: give the address in "
            "the coordinator's log"
        )

    @property
    def _where(self) -> str:
        return join_address(self._host, self._port)
