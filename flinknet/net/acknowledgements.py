"""Whether the machine of a peer is reachable: what its kernel acknowledges.

Theory of operation. The kernel of a peer acknowledges what it receives also while the process is
held up, stopped, or does not read. So a peer that is silent may be there, but one whose machine
acknowledges nothing is gone, or the network is cut. TCP itself tries for a quarter of an hour. If
only one direction is cut, the side notices it from which acknowledgements are still due.

Only Linux tells. ``TCP_USER_TIMEOUT`` would do the same, but it also ends connections to a peer
that acknowledges and has not read for so long.
"""

from __future__ import annotations

import struct
import sys
from typing import Protocol

__all__ = ["Acknowledgements", "unacknowledged_s"]

_INFO = struct.Struct("=8B13I")
"""The beginning of ``struct tcp_info``, which never changes."""
_PROBES, _UNACKNOWLEDGED, _LAST_ACK_MS = 3, 8 + 4, 8 + 12
_IPPROTO_TCP, _TCP_INFO = 6, 11
"""As Linux numbers them."""


_GRAIN_S = 0.05
"""By which the kernel's clock may differ from that of the looks, which is some milliseconds."""


class _Socket(Protocol):
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def unacknowledged_s(connection: _Socket | None) -> float:
    """Return for how many seconds the peer's machine has acknowledged nothing, though something is
    due; 0 if nothing is, or it cannot be known."""
    if connection is None or sys.platform != "linux":
        return 0.0
    try:
        info = connection.getsockopt(_IPPROTO_TCP, _TCP_INFO, _INFO.size)
    except OSError:
        return 0.0
    fields = _INFO.unpack(info)
    is_due = fields[_UNACKNOWLEDGED] or fields[_PROBES] > 1
    return fields[_LAST_ACK_MS] / 1000 if is_due else 0.0


class Acknowledgements:
    """Those of one peer's machine, as they are looked at from time to time.

    The kernel says when the last one came, and not since when another is due. A connection may be
    idle for long, as when both processes are held up; what is sent then is due at once, and the
    network takes its time. So it counts from the look before at the earliest.
    """

    def __init__(self) -> None:
        self._was_due_at: float | None = None
        """When it was looked before, if something was due."""

    def silent_s(self, connection: _Socket | None, now: float) -> float:
        """Return for how many seconds the machine has acknowledged nothing, though something was
        due at the look before this one, and is; else 0."""
        silent_s = unacknowledged_s(connection)
        before, self._was_due_at = self._was_due_at, now if silent_s else None
        if before is None or silent_s < now - before + _GRAIN_S:
            return 0.0
        return silent_s
