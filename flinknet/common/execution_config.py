"""What programs import from ``pyflink.common.execution_config``."""

from __future__ import annotations

from flinknet.common import (
    ExecutionConfig,
)

__all__ = [
    "ExecutionConfig",
]
