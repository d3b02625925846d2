"""What programs import from ``pyflink.common.time``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.common import (
    Duration,
    Instant,
    Time,
)
from flinknet.compatibility.pyflink_differences import not_here

__all__ = [
    "Duration",
    "Instant",
    "Time",
]

if not TYPE_CHECKING:  # or every name would pass for one of its own
    __getattr__ = not_here(__name__)
