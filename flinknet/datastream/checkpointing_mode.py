"""What programs import from ``pyflink.datastream.checkpointing_mode``."""

from __future__ import annotations

from flinknet.datastream import (
    CheckpointingMode,
)

__all__ = [
    "CheckpointingMode",
]
