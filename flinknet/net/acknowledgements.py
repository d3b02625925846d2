"""Reachability of a peer's machine, from the TCP acknowledgements of its kernel.

A peer's kernel acknowledges data even while the process is busy, stopped, or does not read. A
silent peer may therefore be alive, but a peer with no acknowledgements is gone, or the network is
cut. TCP itself retries for a quarter of an hour. If only one direction is cut, the side notices it
with acknowledgements still due.

Only Linux reports this. ``TCP_USER_TIMEOUT`` would do the same, but it also ends connections to a
peer that acknowledges without reading for that long.
"""

from __future__ import annotations

import struct
import sys
from typing import Protocol

__all__ = ["Acknowledgements", "unacknowledged_s"]

_INFO = struct.Struct("=8B13I")
"""Start of ``struct tcp_info``, which never changes."""
_PROBES, _UNACKNOWLEDGED, _LAST_ACK_MS = 3, 8 + 4, 8 + 12
_IPPROTO_TCP, _TCP_INFO = 6, 11
"""Linux's numbers."""


_GRAIN_S = 0.05
"""Tolerance for the difference between the kernel's clock and the loop's, which is some
milliseconds."""


class _Socket(Protocol):
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def unacknowledged_s(connection: _Socket | None) -> float:
    """Return the seconds for which the peer's machine has acknowledged no data that is due.

    The result is 0 if nothing is due, or if it cannot be determined.
    """
    if connection is None or sys.platform != "linux":
        return 0.0
    try:
        info = connection.getsockopt(_IPPROTO_TCP, _TCP_INFO, _INFO.size)
    except OSError:
        return 0.0
    fields = _INFO.unpack(info)
    # One window probe may be on its way. A second one means that the first has no answer.
    is_due = fields[_UNACKNOWLEDGED] or fields[_PROBES] > 1
    return fields[_LAST_ACK_MS] / 1000 if is_due else 0.0


class Acknowledgements:
    """Acknowledgements of one peer's machine, checked periodically.

    The kernel reports the time of the last acknowledgement, but not since when another is due. A
    connection may be idle for long, for example when both processes were held up. Data sent then is
    due immediately, but the network takes some time. Silence therefore counts from the previous
    check at the earliest.
    """

    def __init__(self) -> None:
        self._was_due_at: float | None = None
        """Time of the previous check, if data was due then."""

    def silent_s(self, connection: _Socket | None, now: float) -> float:
        """Return the seconds without acknowledgement, if data is due and was at the last check.

        Otherwise the result is 0.
        """
        silent_s = unacknowledged_s(connection)
        before, self._was_due_at = self._was_due_at, now if silent_s else None
        # An acknowledgement has come since the previous check, or nothing was due then.
        if before is None or silent_s < now - before + _GRAIN_S:
            return 0.0
        return silent_s
