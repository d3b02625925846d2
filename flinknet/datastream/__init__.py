"""The DataStream API: what a job is written with, in PyFlink's names.

It stands above what runs the job (``flinknet.task``) and hands on what both need: functions,
contexts, state, sources and sinks."""

from __future__ import annotations

from flinknet.datastream.connectors.arrow_files import FileSource, ParquetSink
from flinknet.datastream.environment import ExecutionConfig, StreamExecutionEnvironment
from flinknet.datastream.restart_strategies import RestartStrategies
from flinknet.datastream.sinks import CollectSink, PrintSink
from flinknet.datastream.sources import (
    CollectionSource,
    GeneratorSource,
    RateLimitedSource,
    append_time,
)
from flinknet.datastream.streams import DataStream, DataStreamSink, KeyedStream
from flinknet.task.context import ProcessContext, RuntimeContext
from flinknet.task.durations import Duration, Time
from flinknet.task.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapBatchFunction,
    MapFunction,
    ProcessBatchFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from flinknet.task.side_outputs import OutputTag
from flinknet.task.sink import CommitContext, Committer, Sink, TwoPhaseSink
from flinknet.task.source import Source
from flinknet.task.state import ValueState, ValueStateDescriptor
from flinknet.task.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = [
    "AggregateFunction",
    "CollectSink",
    "CollectionSource",
    "CommitContext",
    "Committer",
    "DataStream",
    "DataStreamSink",
    "Duration",
    "ExecutionConfig",
    "FileSource",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "GeneratorSource",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapBatchFunction",
    "MapFunction",
    "OutputTag",
    "ParquetSink",
    "PrintSink",
    "ProcessBatchFunction",
    "ProcessContext",
    "ProcessFunction",
    "RateLimitedSource",
    "ReduceFunction",
    "RestartStrategies",
    "RuntimeContext",
    "Sink",
    "SinkFunction",
    "Source",
    "StreamExecutionEnvironment",
    "Time",
    "TimestampAssigner",
    "TwoPhaseSink",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
    "append_time",
]
