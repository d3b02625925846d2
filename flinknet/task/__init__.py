"""Jobs: the DataStream API, the job graph, and the subtasks that run it."""

from __future__ import annotations

from flinknet.task.arrow_files import FileSource, ParquetSink
from flinknet.task.context import ProcessContext, RuntimeContext
from flinknet.task.environment import StreamExecutionEnvironment
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
from flinknet.task.sinks import (
    CollectSink,
    CommitContext,
    Committer,
    PrintSink,
    Sink,
    TwoPhaseSink,
)
from flinknet.task.sources import (
    CollectionSource,
    GeneratorSource,
    RateLimitedSource,
    Source,
    append_time,
)
from flinknet.task.state import ValueState, ValueStateDescriptor
from flinknet.task.stream import DataStream, DataStreamSink, KeyedStream

__all__ = [
    "AggregateFunction",
    "CollectSink",
    "CollectionSource",
    "CommitContext",
    "Committer",
    "DataStream",
    "DataStreamSink",
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
    "ParquetSink",
    "PrintSink",
    "ProcessBatchFunction",
    "ProcessContext",
    "ProcessFunction",
    "RateLimitedSource",
    "ReduceFunction",
    "RuntimeContext",
    "Sink",
    "SinkFunction",
    "Source",
    "StreamExecutionEnvironment",
    "TwoPhaseSink",
    "ValueState",
    "ValueStateDescriptor",
    "append_time",
]
