"""The farewell, by which a side closes a connection on which its peer may still be sending.

Theory of operation. A socket that is closed while it has unread bytes resets the connection, and a
reset can cost the peer the last message, which says why. So this side ends its half of the stream
and goes on reading, and discards what it reads, until the peer closes. A peer that does not is cut
off after a time, or after a number of bytes, whichever comes first.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from flinknet.net.patience import PatientTimer

__all__ = ["Farewell", "end_stream"]


class Farewell:
    """Ends one stream and counts what still comes.

    Args: bytes_max: how much the peer may still send. deadline: until when it may leave its half
        open, in the time of ``loop``.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        bytes_max: int,
        deadline: float,
    ) -> None:
        self._transport = transport
        self._bytes_left = bytes_max
        self._timer = PatientTimer(loop, deadline, transport.abort)
        end_stream(transport)

    def discard(self, size: int) -> None:
        """Count bytes that are discarded, and cut off a peer that sends too many."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._transport.abort()

    def cancel(self) -> None:
        """Stop waiting, since the socket is gone; idempotent."""
        self._timer.cancel()


def end_stream(transport: asyncio.Transport) -> None:
    """End this side's half of the stream; harmless the second time."""
    with suppress(OSError):  # the peer has closed first, as connection_lost will say
        transport.write_eof()
