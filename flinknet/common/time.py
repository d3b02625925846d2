"""What programs import from ``pyflink.common.time``."""

from __future__ import annotations

from flinknet.common import (
    Duration,
    Instant,
    Time,
)

__all__ = [
    "Duration",
    "Instant",
    "Time",
]
