"""What programs import from ``pyflink.common.configuration``."""

from __future__ import annotations

from flinknet.common import (
    Configuration,
)

__all__ = [
    "Configuration",
]
