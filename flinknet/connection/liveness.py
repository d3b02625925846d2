"""Liveness: detects a dead peer, and shows the peer that this side is alive.

Each side sends something once per interval: any message, or a heartbeat if nothing else was sent.
Heartbeats are control messages, so they go ahead of data. Only bytes that the transport already has
can delay them.

A peer is given up in two cases. *Silent*: nothing has come from it for the whole timeout. *Deaf*:
the transport has had bytes to send for the whole timeout, and the socket has taken none of them. A
live peer always reads, because only credit holds data back.

Neither case is judged while this side may not be reading: without credit, a full receiver stops
reading, and so may the peer. A side that was held up itself, so that ``tick`` came late, listens
for one more interval first.

Time is passed in as ``now``, in seconds. ``tick`` must be called once per interval.
"""

from __future__ import annotations

__all__ = ["Liveness"]


class Liveness:
    """Send and receive progress of a connection; the connection sets ``heard_at`` on input."""

    def __init__(self, interval_s: float, timeout_s: float) -> None:
        self.interval_s = interval_s
        self._timeout_s = timeout_s
        self._last_tick: float | None = None
        self.heard_at = 0.0
        self._bytes_sent = 0
        self._bytes_taken = 0
        self._taken = 0.0

    def tick(
        self, now: float, *, bytes_out: int, unsent_bytes: int, judges: bool = True
    ) -> str | None:
        """Update the state; return the reason to give the peer up, or None.

        Args:
            now: Current time in seconds.
            bytes_out: Bytes given to the transport since the start.
            unsent_bytes: Bytes of those that the socket has not taken yet.
            judges: False while either side may have stopped reading on purpose.
        """
        late = self._last_tick is None or now - self._last_tick > 2 * self.interval_s
        self._last_tick = now
        bytes_taken = bytes_out - unsent_bytes
        if unsent_bytes == 0 or bytes_taken > self._bytes_taken:
            self._taken = now
        self._bytes_taken = bytes_taken
        # Input may be waiting unread, so both timeouts begin again.
        if late or not judges:
            self.heard_at = self._taken = now
        if not self._timeout_s:
            return None
        if now - self.heard_at >= self._timeout_s:
            return f"has sent nothing for {now - self.heard_at:.0f} s"
        if now - self._taken >= self._timeout_s:
            return f"has taken none of {unsent_bytes} bytes for {now - self._taken:.0f} s"
        return None

    def heartbeat_due(self, bytes_out: int, heartbeat_bytes: int) -> bool:
        """Whether nothing was sent since the last call.

        The heartbeat that the caller then sends does not count as output.
        """
        due = bytes_out == self._bytes_sent
        self._bytes_sent = bytes_out + (heartbeat_bytes if due else 0)
        return due
