"""What programs import from ``pyflink.common.restart_strategy``."""

from __future__ import annotations

from flinknet.common import (
    RestartStrategies,
)

__all__ = [
    "RestartStrategies",
]
