"""flinknet: a data-exchange runtime for asyncio, modelled on Apache Flink's network stack.

The names below are for embedding. Jobs are written with ``flinknet.datastream``; errors are in
``flinknet.errors``, limits in ``flinknet.config``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# This import must precede all other modules of the package: it decides how they are loaded.
import flinknet.compiled_modules  # noqa: F401

# isort: split
from flinknet.buffer.availability import Availability
from flinknet.buffer.buffer import DataType
from flinknet.compatibility.pyflink_imports import answer_imports
from flinknet.config import BufferTimeout, FlinknetConfig, NetworkConfig
from flinknet.consumer.gate import Gate
from flinknet.consumer.input_channel import PartitionLocation, UnknownLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.union_input_gate import UnionInputGate
from flinknet.errors import FlinknetError
from flinknet.metrics.environment_statistics import (
    EnvironmentStatistics,
    NetworkStatistics,
    TopicStatistics,
)
from flinknet.metrics.environment_totals import EnvironmentTotals, NetworkTotals
from flinknet.metrics.task_times import TaskTimes
from flinknet.metrics.turns import Turns
from flinknet.net.memory_bound import MemoryBound
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.tls import Tls, TlsFiles
from flinknet.net.topic_writer import TopicWriter
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.partition.result_partition import ResultPartition
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
    RescalePartitioner,
    ShufflePartitioner,
)
from flinknet.records.reader import EventHandler, RecordBatch, RecordReader
from flinknet.records.writer import RecordWriter
from flinknet.version import __version__
from flinknet.wire.events import Event

if TYPE_CHECKING:
    from flinknet.records.columns.partitioner import ColumnHashPartitioner as ColumnHashPartitioner

__all__ = [
    "AdaptiveRebalancePartitioner",
    "AdaptiveRescalePartitioner",
    "Availability",
    "BroadcastPartitioner",
    "BufferTimeout",
    "CustomPartitioner",
    "DataType",
    "EnvironmentStatistics",
    "EnvironmentTotals",
    "Event",
    "EventHandler",
    "ExchangeMode",
    "FlinknetConfig",
    "FlinknetError",
    "ForwardPartitioner",
    "Gate",
    "GlobalPartitioner",
    "HashPartitioner",
    "InputGate",
    "MemoryBound",
    "NetworkConfig",
    "NetworkEnvironment",
    "NetworkStatistics",
    "NetworkTotals",
    "PartitionLocation",
    "Partitioner",
    "RebalancePartitioner",
    "RecordBatch",
    "RecordReader",
    "RecordWriter",
    "RescalePartitioner",
    "ResultPartition",
    "ShufflePartitioner",
    "TaskTimes",
    "Tls",
    "TlsFiles",
    "TopicStatistics",
    "TopicWriter",
    "Turns",
    "UnionInputGate",
    "UnknownLocation",
    "__version__",
]

# From here on, imports also find the names of PyFlink's modules below ``flinknet``.
answer_imports()


def __getattr__(name: str) -> Any:
    """Import names that need ``flinknet[arrow]`` on demand; ``import *`` leaves them out."""
    if name == "ColumnHashPartitioner":
        from flinknet.records.columns.partitioner import ColumnHashPartitioner

        return ColumnHashPartitioner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
