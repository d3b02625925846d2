"""What programs import from ``pyflink.datastream.connectors.number_seq``."""

from __future__ import annotations

from flinknet.datastream import (
    NumberSequenceSource,
)

__all__ = [
    "NumberSequenceSource",
]
