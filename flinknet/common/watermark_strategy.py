"""What programs import from ``pyflink.common.watermark_strategy``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.common import (
    TimestampAssigner,
    WatermarkStrategy,
)
from flinknet.compatibility.pyflink_differences import not_here

__all__ = [
    "TimestampAssigner",
    "WatermarkStrategy",
]

if not TYPE_CHECKING:  # or every name would pass for one of its own
    __getattr__ = not_here(__name__)
