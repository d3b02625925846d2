"""Liveness: whether the peer of a connection is still there, and how it knows that this side is.

Theory of operation. Each side shows itself once per interval: by whatever it sends, or by a
heartbeat if it has sent nothing. Heartbeats are control messages, so they go ahead of data, and
only what the socket has already been given can delay them.

A peer is given up in two cases. *Silent*: nothing has come from it for the whole time-out. *Deaf*:
the socket has been given something for the whole time-out, and the peer has taken none of it; a
peer reads always, because nothing but credit holds data back. Neither is judged while this side
does not listen itself (without credit a full receiver stops reading, and so may the peer), and a
side that was itself held up, so that ``tick`` comes late, listens for one more interval first.

Time comes in as ``now``, in seconds; ``tick`` is to be called once per interval.
"""

from __future__ import annotations

__all__ = ["Liveness"]


class Liveness:
    """What this side has sent, what the peer has taken of it, and ``heard_at``: when something came
    from the peer, for the connection to set."""

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
        """Take note of the time; return why the peer is given up, None if it is not.

        ``bytes_out`` is what the socket has been given from the start, ``unsent_bytes`` what of it
        is still there; ``judges`` is false while either side may have stopped reading on purpose.
        """
        late = self._last_tick is None or now - self._last_tick > 2 * self.interval_s
        self._last_tick = now
        bytes_taken = bytes_out - unsent_bytes
        if unsent_bytes == 0 or bytes_taken > self._bytes_taken:
            self._taken = now
        self._bytes_taken = bytes_taken
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
        """Whether nothing was sent since the last time this was asked; the heartbeat that follows
        does not count as something."""
        due = bytes_out == self._bytes_sent
        self._bytes_sent = bytes_out + (heartbeat_bytes if due else 0)
        return due
