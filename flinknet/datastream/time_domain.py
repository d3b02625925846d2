"""What programs import from ``pyflink.datastream.time_domain``."""

from __future__ import annotations

from flinknet.datastream import (
    TimeDomain,
)

__all__ = [
    "TimeDomain",
]
