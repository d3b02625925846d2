"""TCP segments that this machine has sent, as the kernel counts them for its whole network.

Both ends of a run are on one machine, so acknowledgements and credit are among them; so is what
anybody else sends meanwhile. A segment that the kernel leaves whole on loopback, larger than a wire
would take, counts as the segments that it stands for.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["segments_in", "segments_sent"]

SNMP = Path("/proc/net/snmp")


def segments_sent() -> int:
    """How many until now. Linux only."""
    return segments_in(SNMP.read_text())


def segments_in(text: str) -> int:
    """What such a text says: a line of names, and one of numbers."""
    names, numbers = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(dict(zip(names, numbers, strict=True))["OutSegs"])
