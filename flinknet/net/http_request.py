"""One request of HTTP 1.0 to a coordinator: its answer ends with its connection.

So few lines do that an embedded exchange needs no HTTP library.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from flinknet.errors import ConfigurationError, RemoteTransportError
from flinknet.net.address import join_address
from flinknet.net.patience import patient_timeout

__all__ = ["HttpRequest"]

_ANSWER_BYTES_MAX = 1 << 20
"""What is asked here has answers of some dozens of lines; one without end is none."""


class HttpRequest:
    """A request with the cluster's token; use it with ``async with``.

    Entering it, and every method, raises RemoteTransportError if nobody answers within
    ``timeout_s``, ConfigurationError if the request is refused, or if who answers is no
    coordinator.
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
    ) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self._head = (
            f"{method} {path} HTTP/1.0\r\nHost: {join_address(host, port)}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {len(content)}\r\n\r\n"
        ).encode() + content
        self._host, self._port = host, port
        self._timeout_s = timeout_s
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        try:
            async with patient_timeout(self._timeout_s):
                self._reader, self._writer = await asyncio.open_connection(
                    self._host, self._port, limit=_ANSWER_BYTES_MAX
                )
        except (OSError, TimeoutError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise RemoteTransportError(
                f"no coordinator answers at {self._where}: {reason or 'no connection'}; start one "
                "there (python -m flinknet.cluster.coordinator, with "
                f"FLINKNET_CLUSTER_COORDINATOR_PORT={self._port}), or give the address of another"
            ) from error
        self._writer.write(self._head)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def accepted(self) -> None:
        """Return when the answer has begun."""
        lines = (await self._in_time(self._reader.readuntil(b"\r\n\r\n"))).split(b"\r\n")
        version, _, rest = lines[0].partition(b" ")
        status = rest[:3]
        if not version.startswith(b"HTTP/1.") or not status.isdigit():
            raise self._no_coordinator()
        if not status.startswith(b"2"):
            raise ConfigurationError(
                f"the coordinator at {self._where} refuses: {_reason(await self._body())}"
            )

    async def json(self) -> Any:
        """Return the answer, to its end."""
        await self.accepted()
        try:
            return json.loads(await self._body())
        except ValueError as error:
            raise self._no_coordinator() from error

    async def ended(self) -> None:
        """Return when the other side has ended an answer that was accepted."""
        with suppress(OSError):
            while await self._reader.read(_ANSWER_BYTES_MAX):
                pass

    async def _body(self) -> bytes:
        return await self._in_time(self._reader.read(-1))

    async def _in_time(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        try:
            async with patient_timeout(self._timeout_s):
                return await reading
        except TimeoutError as error:
            raise RemoteTransportError(
                f"the coordinator at {self._where} has not answered within {self._timeout_s:.0f} s"
            ) from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise RemoteTransportError(
                f"the coordinator at {self._where} has hung up: it has ended, or has "
                "cluster.http_connections_max connections already"
            ) from error
        except asyncio.LimitOverrunError as error:
            raise self._no_coordinator() from error

    def _no_coordinator(self) -> ConfigurationError:
        return ConfigurationError(
            f"what answers at {self._where} is no coordinator of flinknet: give the address that "
            "it says it listens on"
        )

    @property
    def _where(self) -> str:
        return join_address(self._host, self._port)


def _reason(body: bytes) -> str:
    """What a refusal says, if it is a coordinator's."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return "it does not know such requests; is it of another version?"
