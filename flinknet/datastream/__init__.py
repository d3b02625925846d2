"""The DataStream API for programs, with PyFlink's names.

It stands above the packages that run a job (``runtime``, ``operators``). It re-exports the names
that programs need from ``functions``, ``state`` and ``operators``.
"""

from __future__ import annotations

from flinknet.datastream.async_data_stream import AsyncDataStream
from flinknet.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from flinknet.datastream.checkpoint_config import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointRetention,
)
from flinknet.datastream.collected_records import CollectedRecords
from flinknet.datastream.configuration import Configuration, RuntimeExecutionMode
from flinknet.datastream.connected_streams import (
    BroadcastConnectedStream,
    ConnectedStreams,
)
from flinknet.datastream.connectors.arrow_files import FileSource
from flinknet.datastream.connectors.csv_files import CsvSource
from flinknet.datastream.connectors.encoders import Encoder
from flinknet.datastream.connectors.file_formats import FileSourceBuilder, StreamFormat
from flinknet.datastream.connectors.file_sinks import (
    CsvSink,
    FileSink,
    JsonLinesSink,
    OutputFileConfig,
    TextFileSink,
)
from flinknet.datastream.connectors.network import NetworkSink, NetworkSource
from flinknet.datastream.connectors.parquet_sink import ParquetSink
from flinknet.datastream.connectors.rolling_policies import RollingPolicy
from flinknet.datastream.connectors.socket_source import SocketSource
from flinknet.datastream.connectors.text_files import JsonLinesSource, TextFileSource
from flinknet.datastream.environment import ExecutionConfig, StreamExecutionEnvironment
from flinknet.datastream.job_client import CompletableFuture, JobClient
from flinknet.datastream.restart_strategies import RestartStrategies
from flinknet.datastream.sinks import CollectSink, PrintSink
from flinknet.datastream.sources import (
    CollectionSource,
    GeneratorSource,
    NumberSequenceSource,
    RateLimitedSource,
    append_time,
)
from flinknet.datastream.state_backends import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateBackend,
)
from flinknet.datastream.streams import (
    BroadcastStream,
    DataStream,
    DataStreamSink,
    KeyedStream,
)
from flinknet.datastream.windowed_stream import (
    WindowedStream,
)
from flinknet.functions.archives import job_archive
from flinknet.functions.async_retry import (
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)
from flinknet.functions.broadcast_context import (
    BroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastState,
)
from flinknet.functions.context import OnTimerContext, ProcessContext, RuntimeContext
from flinknet.functions.durations import Duration, Instant, Time
from flinknet.functions.evictors import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    EvictorContext,
    TimeEvictor,
    TimestampedValue,
)
from flinknet.functions.functions import (
    AggregateFunction,
    AsyncFunction,
    CheckpointListener,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapBatchFunction,
    MapFunction,
    Partitioner,
    ProcessBatchFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
    WithdrawableOutput,
)
from flinknet.functions.row import Row, RowKind
from flinknet.functions.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from flinknet.functions.two_input_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from flinknet.functions.type_information import TypeInformation, Types
from flinknet.functions.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flinknet.functions.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowContext,
    WindowFunction,
)
from flinknet.functions.windows import (
    CountWindow,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from flinknet.operators.side_outputs import OutputTag
from flinknet.operators.sink import CheckpointedSink, CommitContext, Committer, Sink, TwoPhaseSink
from flinknet.operators.source import Source
from flinknet.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinknet.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinknet.state.folding_state import AggregatingState, ReducingState
from flinknet.state.list_state import ListState
from flinknet.state.map_state import MapState
from flinknet.state.operator_state import (
    BroadcastState,
    OperatorListState,
    OperatorStateStore,
)
from flinknet.state.time_to_live import StateTtlConfig
from flinknet.state.timer_service import TimeDomain, TimerService
from flinknet.state.value_serializer import StateSerializer
from flinknet.state.value_state import ValueState

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastContext",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointedFunction",
    "CheckpointedSink",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "CollectSink",
    "CollectedRecords",
    "CollectionSource",
    "CommitContext",
    "Committer",
    "CompletableFuture",
    "Configuration",
    "ConnectedStreams",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountTrigger",
    "CountWindow",
    "CsvSink",
    "CsvSource",
    "DataStream",
    "DataStreamSink",
    "DeltaEvictor",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "Encoder",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "EvictorContext",
    "ExecutionConfig",
    "ExponentialBackoffDelayRetryStrategy",
    "ExternalizedCheckpointRetention",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FilterFunction",
    "FixedDelayRetryStrategy",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GeneratorSource",
    "GlobalWindow",
    "GlobalWindows",
    "HashMapStateBackend",
    "Instant",
    "JobClient",
    "JsonLinesSink",
    "JsonLinesSource",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "MapBatchFunction",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "NetworkSink",
    "NetworkSource",
    "NeverTrigger",
    "NoRetryStrategy",
    "NumberSequenceSource",
    "OnTimerBroadcastContext",
    "OnTimerContext",
    "OperatorListState",
    "OperatorStateStore",
    "OutputFileConfig",
    "OutputTag",
    "ParquetSink",
    "Partitioner",
    "PrintSink",
    "ProcessAllWindowFunction",
    "ProcessBatchFunction",
    "ProcessContext",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "RateLimitedSource",
    "ReadOnlyBroadcastState",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RestartStrategies",
    "RetryPredicate",
    "RollingPolicy",
    "Row",
    "RowKind",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SessionWindowTimeGapExtractor",
    "Sink",
    "SinkFunction",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "SocketSource",
    "Source",
    "StateBackend",
    "StateSerializer",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "StreamFormat",
    "TextFileSink",
    "TextFileSource",
    "Time",
    "TimeDomain",
    "TimeEvictor",
    "TimeWindow",
    "TimerService",
    "TimestampAssigner",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "TwoPhaseSink",
    "TypeInformation",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
    "WindowAssigner",
    "WindowContext",
    "WindowFunction",
    "WindowedStream",
    "WithdrawableOutput",
    "append_time",
    "empty_result_predicate",
    "exception_type_predicate",
    "has_exception_predicate",
    "job_archive",
]
