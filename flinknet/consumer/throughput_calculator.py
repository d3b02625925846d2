"""The throughput calculator: how fast a gate's task takes data while there is some.

Theory of operation (Flink's ThroughputCalculator). The gate counts bytes anyway; this keeps the
time in which they were taken. A *window* lasts from one ``calculate`` to the next and has idle time
(the task waits for input) and busy time (everything else, also when the task is held back by what
it writes to). Idleness that is going on when a window ends goes on in the next one. The throughput
is bytes per busy second; a window without any busy time says nothing, so the last value stays, and
neither does any window before the first byte.

Time comes in as ``now``, in seconds of a clock that never goes back.
"""

from __future__ import annotations

__all__ = ["ThroughputCalculator"]


class ThroughputCalculator:
    """Bytes per second of busy time; None until there were both."""

    __slots__ = ("_busy_s", "_busy_since", "_bytes_seen", "throughput")

    def __init__(self) -> None:
        self.throughput: float | None = None
        self._busy_s = 0.0
        self._busy_since: float | None = None
        self._bytes_seen = 0

    def resume(self, now: float) -> None:
        """The task works from now on; harmless while it does."""
        if self._busy_since is None:
            self._busy_since = now

    def pause(self, now: float) -> None:
        """The task waits for input from now on; harmless while it does."""
        if self._busy_since is not None:
            self._busy_s += now - self._busy_since
            self._busy_since = None

    def calculate(self, bytes_in: int, now: float) -> float | None:
        """End the window, with all bytes that the gate has delivered since it was made; return the
        throughput."""
        if self._busy_since is not None:
            self._busy_s += now - self._busy_since
            self._busy_since = now
        if self._busy_s > 0 and bytes_in:
            self.throughput = (bytes_in - self._bytes_seen) / self._busy_s
        self._busy_s = 0.0
        self._bytes_seen = bytes_in
        return self.throughput
