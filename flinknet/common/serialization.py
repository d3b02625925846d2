"""What programs import from ``pyflink.common.serialization``."""

from __future__ import annotations

from flinknet.common import (
    Encoder,
)

__all__ = [
    "Encoder",
]
