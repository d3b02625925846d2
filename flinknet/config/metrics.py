"""The limits and defaults of what is measured of jobs beside what is counted anyway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flinknet.config.checks import check_fields, require_at_least, require_positive

__all__ = ["LatencyGranularity", "MetricsConfig"]

LatencyGranularity = Literal["single", "operator", "subtask"]


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """Latency markers: how often sources emit one, and what is kept of those that arrive; and for
    how long a worker may be read in one go."""

    latency_interval_ms: int = 0
    """Pause between two latency markers of a source, for jobs that do not say; 0 for none. Each one
    ends a buffer before it is full. Flink: metrics.latency.interval (0)."""

    latency_granularity: LatencyGranularity = "operator"
    """Which markers are told apart where they arrive: none, those of each source, or of each
    subtask of each source. Flink: metrics.latency.granularity (operator)."""

    latency_history_size: int = 128
    """Markers in a histogram, the last ones. Flink: metrics.latency.history-size (128)."""

    latency_histograms_max: int = 64
    """Histograms of one operator in one subtask, those of the first sources; further ones have
    none. With "subtask" there would be as many as subtasks before it, in each subtask."""

    turn_channels: int = 256
    """Channels, subpartitions and readers of a connection that are looked at in one turn of a
    worker's event loop while somebody reads its metrics: half a millisecond's work. Records wait
    for as long; more turns for one reading take longer in all."""

    turn_ms: float = 1.0
    """After how long a turn ends, though fewer were looked at; also where text is made of them."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 0, "latency_interval_ms")
        require_at_least(self, 1, "latency_history_size", "latency_histograms_max", "turn_channels")
        require_positive(self, "turn_ms")
