"""What programs import from ``pyflink.common.watermark_strategy``."""

from __future__ import annotations

from flinknet.common import (
    TimestampAssigner,
    WatermarkStrategy,
)

__all__ = [
    "TimestampAssigner",
    "WatermarkStrategy",
]
