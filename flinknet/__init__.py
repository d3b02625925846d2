"""flinknet: a data-exchange runtime for asyncio, modelled on Apache Flink's network stack.

Embedding needs the names below; jobs are written with ``flinknet.task``, errors are in
``flinknet.errors``, limits in ``flinknet.config``.
"""

from __future__ import annotations

from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation, UnknownLocation
from flinknet.consumer.union_input_gate import UnionInputGate
from flinknet.errors import FlinknetError
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.records.partitioner import (
    AdaptiveRebalancePartitioner,
    AdaptiveRescalePartitioner,
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
    ShufflePartitioner,
)
from flinknet.records.reader import RecordBatch, RecordReader
from flinknet.records.writer import RecordWriter

__version__ = "0.1.0"

__all__ = [
    "AdaptiveRebalancePartitioner",
    "AdaptiveRescalePartitioner",
    "BroadcastPartitioner",
    "CustomPartitioner",
    "FlinknetConfig",
    "FlinknetError",
    "ForwardPartitioner",
    "GlobalPartitioner",
    "HashPartitioner",
    "NetworkConfig",
    "NetworkEnvironment",
    "PartitionLocation",
    "Partitioner",
    "RebalancePartitioner",
    "RecordBatch",
    "RecordReader",
    "RecordWriter",
    "ShufflePartitioner",
    "UnionInputGate",
    "UnknownLocation",
    "__version__",
]
