"""All limits and defaults of flinknet, each with its unit in the name and its reason.

All classes are frozen dataclasses of plain values. They are checked once, in ``__post_init__``, and
then shared freely. ``loading.py`` reads values from files, the environment and flags. Fields with a
counterpart in Flink name its key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinknet.config.checkpointing import CheckpointingConfig
from flinknet.config.checks import check_fields
from flinknet.config.cluster import TOKEN_VARIABLE, ClusterConfig
from flinknet.config.metrics import LatencyGranularity, MetricsConfig
from flinknet.config.network import (
    ADAPTIVE,
    RECORD_KEYS_MAX,
    REMEMBERED_KEYS_BYTES,
    REUSED_RECORDS_BYTES,
    BufferDebloatConfig,
    BufferTimeout,
    Checksums,
    FlowControl,
    NetworkConfig,
    WireLimits,
    check_buffer_timeout,
)
from flinknet.config.spark import SparkConfig
from flinknet.config.state import StateConfig
from flinknet.config.tls import TlsConfig

__all__ = [
    "ADAPTIVE",
    "RECORD_KEYS_MAX",
    "REMEMBERED_KEYS_BYTES",
    "REUSED_RECORDS_BYTES",
    "TOKEN_VARIABLE",
    "BufferDebloatConfig",
    "BufferTimeout",
    "CheckpointingConfig",
    "Checksums",
    "ClusterConfig",
    "FlinknetConfig",
    "FlowControl",
    "LatencyGranularity",
    "MetricsConfig",
    "NetworkConfig",
    "SparkConfig",
    "StateConfig",
    "TlsConfig",
    "WireLimits",
    "check_buffer_timeout",
]


@dataclass(frozen=True, slots=True)
class FlinknetConfig:
    """The whole configuration: one section per topic, named as in ``cluster.toml``."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    checkpointing: CheckpointingConfig = field(default_factory=CheckpointingConfig)
    state: StateConfig = field(default_factory=StateConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    spark: SparkConfig = field(default_factory=SparkConfig)

    def __post_init__(self) -> None:
        check_fields(self)
