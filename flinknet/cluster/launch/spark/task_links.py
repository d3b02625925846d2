"""The launcher's ends of the connections to the tasks of its stage.

Theory of operation
-------------------
The launcher listens at the coordinator's address. A connection becomes a link when it has shown,
with the launcher's nonce, that it has the secret that travels in the pickled task; the launcher
shows the same (``agent.py``). Before that it may send two lines, within some seconds, and there is
a limit to the number of such connections. Afterwards lines of JSON come and go. No secret is ever
among them.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

from flinknet import machine
from flinknet.cluster.launch.spark.agent import proof
from flinknet.errors import ConfigurationError, HandshakeError
from flinknet.net.tls import Tls

__all__ = ["LINK_LABEL", "TaskLink", "TaskLinks"]

LINK_LABEL = b"flinknet spark tasks"
"""What the secret of the links is made from, with the cluster's token."""

_LINE_BYTES_MAX = 1024 * 1024
"""A worker's line of 64 KiB, of which each byte may be six in JSON, and what is beside it."""
_PROOF_S = 10.0
_UNPROVEN_MAX = 1024
"""Connections that have not shown the secret yet: as many as a cluster may have workers."""

_NOT_OURS = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    TimeoutError,
    HandshakeError,
)
"""What a connection raises that has ended, or says something else than tasks do."""

OnNews = Callable[["TaskLink", Mapping[str, Any]], None]


class TaskLink:
    """A connection to one task."""

    def __init__(
        self, stage: int, rank: int, facts: Mapping[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        self.stage = stage
        self.rank = rank
        self.facts = facts
        """What the task says of itself: ``host``, ``address``, ``pid``, ``found``."""
        self.lost = asyncio.Event()
        """The task has ended, or the connection to it."""
        self._writer = writer

    def command(self, what: str, **details: Any) -> None:
        """Tell the task what to do; one that is lost hears nothing."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"do": what, **details}).encode() + b"\n")

    def abort(self) -> None:
        """End the connection, and with it the task and its worker."""
        self._writer.transport.abort()


class TaskLinks:
    """The server of all links of a cluster; ``close`` must be awaited in the end."""

    def __init__(
        self,
        secret: bytes,
        on_link: Callable[[TaskLink], bool],
        on_news: OnNews,
        on_lost: Callable[[TaskLink], None],
        tls: Tls | None = None,
    ) -> None:
        """``on_link`` says whether the task is one that is expected."""
        self._tls = tls
        self.secret = secret
        self._on_link = on_link
        self._on_news = on_news
        self._on_lost = on_lost
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._unproven = 0

    async def listen(self, host: str, port: int = 0) -> tuple[str, int]:
        """Begin to listen at a port, or at a free one, and return where. ConfigurationError if the
        port is taken."""
        try:
            self._server = await asyncio.start_server(
                self._accept,
                host,
                port,
                limit=_LINE_BYTES_MAX,
                ssl=None if self._tls is None else self._tls.server(),
                ssl_handshake_timeout=None if self._tls is None else _PROOF_S,
            )
        except OSError as error:
            raise ConfigurationError(
                f"port {port} of {host} cannot be used ({error.strerror}): stop what listens "
                "there, or choose another spark.tasks_port, or 0 for a free port"
            ) from error
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def close(self) -> None:
        """Listen no more, and end all links."""
        if self._server is not None:
            self._server.close()
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._unproven >= _UNPROVEN_MAX:
            writer.transport.abort()
            return
        serving = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = None
        try:
            link = await self._prove(reader, writer)
            if link is not None and self._on_link(link):
                while line := await reader.readline():
                    self._on_news(link, json.loads(line))
        except _NOT_OURS:
            pass
        finally:
            writer.transport.abort()
            if link is not None:
                link.lost.set()
                self._on_lost(link)

    async def _prove(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> TaskLink | None:
        if self._tls is not None:
            self._tls.check_pinned(writer.get_extra_info("ssl_object"))
        self._unproven += 1
        try:
            async with asyncio.timeout(_PROOF_S):
                greeting = json.loads(await reader.readline())
                nonce = machine.token_hex(16)
                shown = proof(self.secret, "launcher", str(greeting["nonce"]))
                writer.write(json.dumps({"nonce": nonce, "proof": shown}).encode() + b"\n")
                facts = json.loads(await reader.readline())
        finally:
            self._unproven -= 1
        expected = proof(self.secret, "task", nonce)
        if not hmac.compare_digest(str(facts.pop("proof")).encode(), expected.encode()):
            return None
        return TaskLink(int(greeting["stage"]), int(greeting["rank"]), facts, writer)
