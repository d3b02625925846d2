"""The farewell of a side that has said its last message while its peer may still be sending.

Theory of operation. A socket that is closed while it has unread bytes resets the connection, and a
reset can cost the peer the last message, which says why. So this side goes on reading, and discards
what it reads, until the peer has read that message and closes. A peer that does not close is cut
off after a time, or after a number of bytes, whichever comes first.
"""

from __future__ import annotations

import asyncio

from flinknet.net.patience import PatientTimer

__all__ = ["Farewell"]


class Farewell:
    """Counts what still comes over one socket, and waits until the peer closes it.

    Args: bytes_max: how much the peer may still send. deadline: until when it may leave the socket
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

    def discard(self, size: int) -> None:
        """Count bytes that are discarded, and cut off a peer that sends too many."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._transport.abort()

    def cancel(self) -> None:
        """Stop waiting, since the socket is gone; idempotent."""
        self._timer.cancel()
