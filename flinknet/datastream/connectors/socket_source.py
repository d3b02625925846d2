"""Lines from a socket, for first experiments: run ``nc -lk 9999`` and type.

The lines cannot be sent again, so a job with checkpoints cannot read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from flinknet.errors import ConfigurationError
from flinknet.functions.context import RuntimeContext
from flinknet.operators.source import Source

__all__ = ["SocketSource"]

SOCKET_READ_BYTES = 65_536
"""Maximum number of bytes per read; the lines received until then are one batch."""

SOCKET_RECORD_BYTES_MAX = 1 << 20
"""Number of bytes without a delimiter after which the data is not treated as text."""


class SocketSource(Source[str]):
    """The texts that a server at ``hostname:port`` sends, each ended by ``delimiter``.

    One subtask connects and reads until the server closes the connection. Remaining data without a
    delimiter is the last record.
    """

    parallelism = 1
    is_bounded = False
    keeps_no_records = True

    def __init__(
        self, hostname: str, port: int, *, delimiter: str = "\n", encoding: str = "utf-8"
    ) -> None:
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65_536:
            raise ConfigurationError(f"the port is {port!r}: choose a number from 1 to 65535")
        if not delimiter:
            raise ConfigurationError("the delimiter is empty: choose at least one character")
        self._hostname = hostname
        self._port = port
        self._delimiter = delimiter.encode(encoding)
        self._encoding = encoding

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[str]]:
        place = f"{self._hostname}:{self._port}"
        if context.parallelism > 1:
            raise ConfigurationError(
                f"the socket {place} would be read by {context.parallelism} subtasks: leave the "
                "source's parallelism at 1, and call rebalance() after it"
            )
        try:
            reader, writer = await asyncio.open_connection(self._hostname, self._port)
        except OSError as error:
            raise ConnectionError(
                f"cannot connect to {place} ({error}): start a server there first, such as `nc -lk "
                f"{self._port}`"
            ) from error
        try:
            rest = b""
            while True:
                with context.idle():
                    read = await reader.read(SOCKET_READ_BYTES)
                if not read:
                    break
                *texts, rest = (rest + read).split(self._delimiter)
                if len(rest) > SOCKET_RECORD_BYTES_MAX:
                    raise ValueError(
                        f"{place} has sent {len(rest)} bytes without the delimiter "
                        f"{self._delimiter!r}: choose the delimiter that the server sends"
                    )
                if texts:
                    yield [text.decode(self._encoding) for text in texts]
            if rest:
                yield [rest.decode(self._encoding)]
        finally:
            writer.close()
            await writer.wait_closed()
