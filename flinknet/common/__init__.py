"""The names of ``pyflink.common``: types, rows, times, configuration."""

from __future__ import annotations

from flinknet.cluster import JobResult as JobExecutionResult
from flinknet.datastream import (
    CompletableFuture,
    Configuration,
    Duration,
    Encoder,
    ExecutionConfig,
    Instant,
    JobClient,
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
    "CompletableFuture",
    "Configuration",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "RestartStrategies",
    "Row",
    "RowKind",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
