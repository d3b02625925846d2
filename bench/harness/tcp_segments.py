"""The number of TCP segments that this machine has sent, as the kernel counts them.

The kernel counts for the whole network. Both ends of a run are on one machine, so the count
includes acknowledgements and credit, and also the traffic of other programs. A segment that the
kernel leaves whole on loopback, larger than a wire would take, counts as the segments that it
stands for.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["segments_in", "segments_sent"]

SNMP = Path("/proc/net/snmp")


def segments_sent() -> int:
    """Return the number of segments sent until now. Linux only."""
    return segments_in(SNMP.read_text())


def segments_in(text: str) -> int:
    """Return the number in the text of SNMP, which has a line of names and a line of numbers."""
    names, numbers = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(dict(zip(names, numbers, strict=True))["OutSegs"])
