"""What programs import from ``pyflink.common``: types, rows, times, configuration."""

from __future__ import annotations

from flinknet.datastream import (
    Configuration,
    Duration,
    Encoder,
    ExecutionConfig,
    Instant,
    RestartStrategies,
    Row,
    RowKind,
    Time,
    TimestampAssigner,
    TypeInformation,
    Types,
    WatermarkStrategy,
)

__all__ = [
    "Configuration",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "RestartStrategies",
    "Row",
    "RowKind",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
