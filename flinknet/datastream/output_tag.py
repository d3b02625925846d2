"""What programs import from ``pyflink.datastream.output_tag``."""

from __future__ import annotations

from flinknet.datastream import (
    OutputTag,
)

__all__ = [
    "OutputTag",
]
