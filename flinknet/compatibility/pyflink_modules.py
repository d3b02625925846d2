"""Modules that contain only PyFlink's names, created when a program imports them.

PyFlink has many small modules, such as ``pyflink.datastream.functions``, and flinknet has few. A
program for PyFlink imports from the small ones. The table lists the names of each such module. A
type checker reads the names in stubs that are generated from the same table.
"""

from __future__ import annotations

from importlib import import_module
from importlib.abc import Loader
from types import ModuleType

from flinknet.compatibility.pyflink_differences import not_here

__all__ = ["NAMES", "PyFlinkModule", "package_of"]

NAMES = {
    "common.completable_future": "CompletableFuture",
    "common.configuration": "Configuration",
    "common.execution_config": "ExecutionConfig",
    "common.job_client": "JobClient",
    "common.job_execution_result": "JobExecutionResult",
    "common.restart_strategy": "RestartStrategies",
    "common.serialization": "Encoder",
    "common.time": "Duration Instant Time",
    "common.typeinfo": "TypeInformation Types",
    "common.types": "Row RowKind",
    "common.watermark_strategy": "TimestampAssigner WatermarkStrategy",
    "datastream.async_retry_strategies": (
        "ExponentialBackoffDelayRetryStrategy FixedDelayRetryStrategy NoRetryStrategy "
        "RetryPredicate"
    ),
    "datastream.checkpointing_mode": "CheckpointingMode",
    "datastream.connectors.file_system": (
        "FileSink FileSource FileSourceBuilder OutputFileConfig RollingPolicy StreamFormat"
    ),
    "datastream.connectors.number_seq": "NumberSequenceSource",
    "datastream.data_stream": (
        "BroadcastConnectedStream BroadcastStream ConnectedStreams DataStream DataStreamSink "
        "KeyedStream WindowedStream"
    ),
    "datastream.execution_mode": "RuntimeExecutionMode",
    "datastream.externalized_checkpoint_retention": "ExternalizedCheckpointRetention",
    "datastream.functions": (
        "AggregateFunction AllWindowFunction AsyncFunction AsyncRetryPredicate AsyncRetryStrategy "
        "BroadcastProcessFunction CoFlatMapFunction CoMapFunction CoProcessFunction "
        "FilterFunction FlatMapFunction KeySelector KeyedBroadcastProcessFunction "
        "KeyedCoProcessFunction KeyedProcessFunction MapFunction Partitioner "
        "ProcessAllWindowFunction ProcessFunction ProcessWindowFunction ReduceFunction "
        "RuntimeContext SinkFunction TimerService WindowFunction"
    ),
    "datastream.output_tag": "OutputTag",
    "datastream.state": (
        "AggregatingState AggregatingStateDescriptor BroadcastState ListState ListStateDescriptor "
        "MapState MapStateDescriptor OperatorStateStore ReadOnlyBroadcastState ReducingState "
        "ReducingStateDescriptor StateTtlConfig ValueState ValueStateDescriptor"
    ),
    "datastream.state_backend": "EmbeddedRocksDBStateBackend HashMapStateBackend StateBackend",
    "datastream.stream_execution_environment": "StreamExecutionEnvironment",
    "datastream.time_domain": "TimeDomain",
    "datastream.timerservice": "TimerService",
    "datastream.window": (
        "ContinuousEventTimeTrigger ContinuousProcessingTimeTrigger CountTrigger CountWindow "
        "EventTimeSessionWindows EventTimeTrigger GlobalWindow GlobalWindows NeverTrigger "
        "ProcessingTimeSessionWindows ProcessingTimeTrigger PurgingTrigger "
        "SessionWindowTimeGapExtractor SlidingEventTimeWindows SlidingProcessingTimeWindows "
        "TimeWindow Trigger TriggerResult TumblingEventTimeWindows TumblingProcessingTimeWindows "
        "WindowAssigner"
    ),
}
"""The names of each module, below ``flinknet``."""


def package_of(module: str) -> str:
    """Return the package that has the names of a module of the table."""
    return f"flinknet.{module.partition('.')[0]}"


class PyFlinkModule(Loader):
    """Loader of the modules of the table."""

    def __init__(self, module: str) -> None:
        self._module = module

    def exec_module(self, module: ModuleType) -> None:
        """See Loader."""
        package = import_module(package_of(self._module))
        names = NAMES[self._module].split()
        vars(module).update({name: getattr(package, name) for name in names})
        vars(module)["__all__"] = names
        vars(module)["__doc__"] = f"What programs import from ``pyflink.{self._module}``."
        vars(module)["__getattr__"] = not_here(module.__name__)
