"""What programs import from ``pyflink.datastream.execution_mode``."""

from __future__ import annotations

from flinknet.datastream import (
    RuntimeExecutionMode,
)

__all__ = [
    "RuntimeExecutionMode",
]
