"""What programs import from ``pyflink.datastream.timerservice``."""

from __future__ import annotations

from flinknet.datastream import (
    TimerService,
)

__all__ = [
    "TimerService",
]
