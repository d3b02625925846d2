"""The DataStream API: what a job is written with, in PyFlink's names.

It stands above what runs the job (``flinknet.task``) and hands on what both need: functions,
contexts, state, sources and sinks."""

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
from flinknet.task.async_retry import (
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)
from flinknet.task.broadcast_context import (
    BroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastState,
)
from flinknet.task.context import OnTimerContext, ProcessContext, RuntimeContext
from flinknet.task.durations import Duration, Instant, Time
from flinknet.task.evictors import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    EvictorContext,
    TimeEvictor,
    TimestampedValue,
)
from flinknet.task.functions import (
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
from flinknet.task.row import Row, RowKind
from flinknet.task.side_outputs import OutputTag
from flinknet.task.sink import CheckpointedSink, CommitContext, Committer, Sink, TwoPhaseSink
from flinknet.task.source import Source
from flinknet.task.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinknet.task.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinknet.task.state.folding_state import AggregatingState, ReducingState
from flinknet.task.state.list_state import ListState
from flinknet.task.state.map_state import MapState
from flinknet.task.state.operator_state import (
    BroadcastState,
    OperatorListState,
    OperatorStateStore,
)
from flinknet.task.state.time_to_live import StateTtlConfig
from flinknet.task.state.value_serializer import StateSerializer
from flinknet.task.state.value_state import ValueState
from flinknet.task.timers.timer_service import TimeDomain, TimerService
from flinknet.task.triggers import (
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
from flinknet.task.two_input_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from flinknet.task.type_information import TypeInformation, Types
from flinknet.task.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flinknet.task.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowContext,
    WindowFunction,
)
from flinknet.task.windows import (
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
]
