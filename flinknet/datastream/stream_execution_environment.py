"""What programs import from ``pyflink.datastream.stream_execution_environment``."""

from __future__ import annotations

from flinknet.datastream import (
    StreamExecutionEnvironment,
)

__all__ = [
    "StreamExecutionEnvironment",
]
