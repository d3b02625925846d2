"""PyFlink API compatibility: names of the DataStream API that are missing or differ, and why.

The documentation's table is generated from this, and so is the error of a program that imports or
uses such a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

__all__ = [
    "ALL_OF_IT",
    "BATCH_DIFFERENCE",
    "DIFFERENCES",
    "MODULES",
    "NO_CONNECTOR",
    "VALUE_DIFFERENCES",
    "PyFlinkNames",
    "not_here",
]

_JAVA = "never: it is about objects of the Java virtual machine, of which there is none"
_SERIALIZERS = "never: records say themselves what they are, and have one form on the wire"
_SHIPPING = (
    "never: a job brings its own code, and its libraries are those of the workers' environment"
)
_DEPRECATED = "never: deprecated in Flink, too"
_SLOTS = "never: slots have no size; `slot_sharing_group` takes a name"
_OWN_RESULT = "otherwise: `execute` returns flinknet's `JobResult`, with every subtask's counters"
_STRATEGY = "otherwise: `RestartStrategies` returns a frozen dataclass, whose fields say that"
_STORAGE = "never: `set_checkpoint_storage_dir` says where checkpoints are"
_CONNECTOR = "never: files have their sources and sinks here, which say how records are written"
_BUCKETS = "never: all files of a sink stand in its directory"
_COMPACTION = "never: a file that is complete is not written again"
_DISCOVERY = "never: each subtask reads its share of the files that are there at the start"
_BULK = "otherwise: `ParquetSink`, and `FileSource(path)` for Parquet and Arrow files"
_CLUSTER = "never: it is a setting of the cluster, in its configuration file"
_ASSIGNER = "otherwise: `assign_windows` takes the element and its time, and windows need no other"
_CLEANUP = "otherwise: `cleanup_entries` and `cleanup_in_full_snapshot`, attributes"
_TTL_TIME = "never: state lives by processing time, as in Flink"
_INTERNAL = "never: it is internal to PyFlink"
_ALIGNMENT = (
    "never: sources are not held back by each other's event time; a `RateLimitedSource` bounds one "
    "that runs ahead, and RocksDB keeps what is waited for"
)

BATCH_DIFFERENCE = (
    "as in Flink, folds give their results at the end of the input, event time comes then, and "
    "there are no checkpoints; otherwise: all stages run at the same time, exchanges are pipelined "
    "and records are not sorted by key, a broadcast stream is not read first, timers of the clock "
    "that are not due at the end of the input do not fire, and a failure ends the job unless a "
    "restart strategy is set, which runs all of it again"
)
"""The message that a job in mode BATCH receives once."""

ALL_OF_IT = "*"

DIFFERENCES: dict[str, dict[str, str]] = {
    "BucketAssigner": {ALL_OF_IT: _BUCKETS},
    "BulkFormat": {ALL_OF_IT: _BULK},
    "FileCompactStrategy": {ALL_OF_IT: _COMPACTION},
    "FileCompactStrategy.Builder": {ALL_OF_IT: _COMPACTION},
    "FileCompactor": {ALL_OF_IT: _COMPACTION},
    "FileEnumeratorProvider": {ALL_OF_IT: _DISCOVERY},
    "FileSink": {
        "for_bulk_format": _BULK,
        "get_transformer": "never: it is about PyFlink's own way of making a sink",
    },
    "FileSink.BaseBuilder": {ALL_OF_IT: "otherwise: see `FileSink.RowFormatBuilder`"},
    "FileSink.BulkFormatBuilder": {ALL_OF_IT: _BULK},
    "FileSource": {"for_bulk_file_format": _BULK},
    "FileSourceBuilder": {
        "monitor_continuously": _DISCOVERY,
        "set_file_enumerator": _DISCOVERY,
        "set_split_assigner": _DISCOVERY,
    },
    "FileSplitAssignerProvider": {ALL_OF_IT: _DISCOVERY},
    "StreamingFileSink": {ALL_OF_IT: _DEPRECATED},
    "StreamingFileSink.BaseBuilder": {ALL_OF_IT: _DEPRECATED},
    "StreamingFileSink.DefaultRowFormatBuilder": {ALL_OF_IT: _DEPRECATED},
    "StreamingFileSink.DefaultBulkFormatBuilder": {ALL_OF_IT: _DEPRECATED},
    "AssignerWithPeriodicWatermarksWrapper": {ALL_OF_IT: _JAVA},
    "AsyncFunctionDescriptor": {ALL_OF_IT: _INTERNAL},
    "AsyncFunctionDescriptor.OutputMode": {ALL_OF_IT: _INTERNAL},
    "BaseBroadcastProcessFunction": {ALL_OF_IT: _INTERNAL},
    "BaseBroadcastProcessFunction.BaseContext": {ALL_OF_IT: _INTERNAL},
    "BaseBroadcastProcessFunction.Context": {ALL_OF_IT: _INTERNAL},
    "BaseBroadcastProcessFunction.ReadOnlyContext": {ALL_OF_IT: _INTERNAL},
    "ByteArraySchema": {ALL_OF_IT: _CONNECTOR},
    "CheckpointConfig": {
        **dict.fromkeys(
            (
                "get_alignment_timeout",
                "is_externalized_checkpoints_enabled",
                "is_fail_on_checkpointing_errors",
                "set_alignment_timeout",
                "set_fail_on_checkpointing_errors",
            ),
            _DEPRECATED,
        ),
        **dict.fromkeys(
            ("is_force_unaligned_checkpoints", "set_force_unaligned_checkpoints"),
            "never: there are no iterations, for which it is",
        ),
    },
    "CheckpointStorage": {ALL_OF_IT: _STORAGE},
    "CompletableFuture": dict.fromkeys(("cancel", "cancelled"), "never: `JobClient.cancel` does"),
    "ConfigOption": {ALL_OF_IT: "never: a `Configuration` takes and gives options by key"},
    "ConfigOptions.OptionBuilder": {
        ALL_OF_IT: "never: a `Configuration` takes and gives options by key"
    },
    "ConfigOptions.TypedConfigOptionBuilder": {
        ALL_OF_IT: "never: a `Configuration` takes and gives options by key"
    },
    "ConfigOptions": {ALL_OF_IT: "never: a `Configuration` takes and gives options by key"},
    "Configuration": {
        "get_bytearray": "never: no option of Flink's has bytes",
        "parse_list_value": "never: no option that means something here is a list",
        "set_bytearray": "never: no option of Flink's has bytes",
    },
    "ContinuousEventTimeTrigger": {
        "register_next_fire_timestamp": "never: it is a step of the trigger's own"
    },
    "ContinuousProcessingTimeTrigger": {
        "register_next_fire_timestamp": "never: it is a step of the trigger's own"
    },
    "CountSlidingWindowAssigner": {ALL_OF_IT: "otherwise: `count_window` of a keyed stream"},
    "CountTumblingWindowAssigner": {ALL_OF_IT: "otherwise: `count_window` of a keyed stream"},
    "CountWindowSerializer": {ALL_OF_IT: _SERIALIZERS},
    "CustomCheckpointStorage": {ALL_OF_IT: _JAVA},
    "CustomStateBackend": {ALL_OF_IT: _JAVA},
    "DataStream": {
        "cache": "never: a job's results are kept by its sinks",
        "get_execution_config": "otherwise: `get_execution_environment().get_config()`",
        "set_uid_hash": "never: state is found by `uid`",
    },
    "DataStreamSink": {"set_uid_hash": "never: state is found by `uid`"},
    "DeserializationSchema": {ALL_OF_IT: _CONNECTOR},
    "DynamicEventTimeSessionWindows": {
        ALL_OF_IT: "otherwise: `EventTimeSessionWindows.with_dynamic_gap`"
    },
    "DynamicProcessingTimeSessionWindows": {
        ALL_OF_IT: "otherwise: `ProcessingTimeSessionWindows.with_dynamic_gap`"
    },
    "EmbeddedRocksDBStateBackend": {
        ALL_OF_IT: "never: `[state]` in the workers' configuration has its sizes and its directory"
    },
    "ExecutionConfig": {
        **dict.fromkeys(
            (
                "disable_auto_generated_uids",
                "enable_auto_generated_uids",
                "has_auto_generated_uids_enabled",
            ),
            "never: `--allow-non-restored-state` says what state without an operator means",
        ),
        **dict.fromkeys(
            (
                "disable_closure_cleaner",
                "disable_force_avro",
                "disable_force_kryo",
                "disable_generic_types",
                "enable_closure_cleaner",
                "enable_force_avro",
                "enable_force_kryo",
                "enable_generic_types",
                "get_default_kryo_serializer_classes",
                "get_registered_kryo_types",
                "get_registered_pojo_types",
                "has_generic_types_disabled",
                "is_closure_cleaner_enabled",
                "is_force_avro_enabled",
                "is_force_kryo_enabled",
            ),
            _SERIALIZERS,
        ),
        **dict.fromkeys(
            ("get_global_job_parameters", "set_global_job_parameters"),
            "never: what a function needs to know, it has in its attributes",
        ),
        **dict.fromkeys(
            (
                "get_task_cancellation_interval",
                "get_task_cancellation_timeout",
                "set_task_cancellation_interval",
                "set_task_cancellation_timeout",
            ),
            _CLUSTER,
        ),
        **dict.fromkeys(
            ("is_use_snapshot_compression", "set_use_snapshot_compression"),
            "never: checkpoints are not compressed",
        ),
    },
    "FileSystemCheckpointStorage": {ALL_OF_IT: _STORAGE},
    "GlobalWindow": {"get": "otherwise: `GlobalWindow()`"},
    "GlobalWindowSerializer": {ALL_OF_IT: _SERIALIZERS},
    "InputDependencyConstraint": {ALL_OF_IT: _DEPRECATED},
    "JobClient": {"get_accumulators": _OWN_RESULT},
    "JobExecutionResult": dict.fromkeys(
        ("get_accumulator_result", "get_all_accumulator_results"), _OWN_RESULT
    ),
    "JobID": {ALL_OF_IT: "otherwise: a job's id is text"},
    "JobManagerCheckpointStorage": {ALL_OF_IT: _STORAGE},
    "JobStatus": {ALL_OF_IT: "otherwise: a job's status is text, in Flink's words"},
    "KeyedStream": {
        "cache": "never: a job's results are kept by its sinks",
        "set_uid_hash": "never: state is found by `uid`",
    },
    "KeyedStream.AccumulateType": {ALL_OF_IT: _INTERNAL},
    "MemorySize": {ALL_OF_IT: _SLOTS},
    "MergingWindowAssigner": {
        ALL_OF_IT: "otherwise: an assigner whose windows merge says `merges`"
    },
    "MergingWindowAssigner.MergeCallback": {
        ALL_OF_IT: "otherwise: an assigner whose windows merge says `merges`"
    },
    "OutputTag": {"get_java_output_tag": _JAVA},
    "PredefinedOptions": {
        ALL_OF_IT: "never: `[state]` in the workers' configuration has RocksDB's sizes"
    },
    "RestartStrategies": {
        "fall_back_restart": "otherwise: it is what holds if nothing is set",
    },
    "RestartStrategyConfiguration": {ALL_OF_IT: _STRATEGY},
    "RowKind": {"to_j_row_kind": _JAVA},
    "RuntimeContext": {
        "get_job_parameter": "never: what a function needs to know, it has in its attributes",
        "get_metrics_group": "otherwise: `metrics`, a dict that comes with the job's result",
    },
    "SerializationSchema": {ALL_OF_IT: _CONNECTOR},
    "SimpleStringSchema": {ALL_OF_IT: _CONNECTOR},
    "SlotSharingGroup": {ALL_OF_IT: _SLOTS},
    "SlotSharingGroup.Builder": {ALL_OF_IT: _SLOTS},
    "SourceFunction": {ALL_OF_IT: "otherwise: `add_source` takes a `Source`"},
    "StateTtlConfig": {
        **dict.fromkeys(
            ("get_state_visibility", "get_ttl", "get_update_type", "is_enabled"),
            "otherwise: an attribute",
        ),
        "get_cleanup_strategies": _CLEANUP,
        "get_ttl_time_characteristic": _TTL_TIME,
    },
    "StateTtlConfig.Builder": {
        "cleanup_in_rocksdb_compact_filter": (
            "never: RocksDB's compaction does not run what is not RocksDB's; "
            "`cleanup_incrementally` works with it, too"
        ),
        "set_ttl_time_characteristic": _TTL_TIME,
    },
    "StateTtlConfig.TtlTimeCharacteristic": {ALL_OF_IT: _TTL_TIME},
    **{
        f"StateTtlConfig.CleanupStrategies{kind}": {ALL_OF_IT: _CLEANUP}
        for kind in (
            "",
            ".CleanupStrategy",
            ".EmptyCleanupStrategy",
            ".IncrementalCleanupStrategy",
            ".RocksdbCompactFilterCleanupStrategy",
            ".Strategies",
        )
    },
    "StreamExecutionEnvironment": {
        **dict.fromkeys(("add_classpaths", "add_jars", "create_input"), _JAVA),
        **dict.fromkeys(
            (
                "register_cached_file",
                "set_python_executable",
                "set_python_requirements",
            ),
            _SHIPPING,
        ),
        **dict.fromkeys(
            ("enable_changelog_state_backend", "is_changelog_state_backend_enabled"),
            "never: there is no changelog backend",
        ),
        **dict.fromkeys(
            (
                "get_default_local_parallelism",
                "set_default_local_parallelism",
            ),
            "otherwise: `set_parallelism`; the default is 1",
        ),
        **dict.fromkeys(
            ("get_default_savepoint_directory", "set_default_savepoint_directory"),
            "otherwise: who asks for a savepoint says where it goes",
        ),
        "close": "never: an environment holds nothing open",
        "get_checkpointing_consistency_mode": "otherwise: `get_checkpointing_mode`",
        "is_chaining_of_operators_with_different_max_parallelism_enabled": (
            "never: operators of one chain have one max parallelism"
        ),
        "is_force_unaligned_checkpoints": "never: there are no iterations, for which it is",
        "register_slot_sharing_group": _SLOTS,
    },
    "TimeWindow": {
        "get_window_start_with_offset": "never: assigners are there",
        "merge_windows": "otherwise: an assigner whose windows merge says `merges`",
    },
    "TimeWindowSerializer": {ALL_OF_IT: _SERIALIZERS},
    "Trigger.TriggerContext": {
        "get_metric_group": "never: functions have metrics, triggers have none of their own"
    },
    "TypeInformation": dict.fromkeys(
        ("from_internal_type", "get_java_type_info", "need_conversion", "to_internal_type"), _JAVA
    ),
    "TypeSerializer": {ALL_OF_IT: _SERIALIZERS},
    "WatermarkStrategy": {"with_watermark_alignment": _ALIGNMENT},
    "Window": {ALL_OF_IT: "otherwise: a `TimeWindow`, a `CountWindow` or a `GlobalWindow`"},
    "WindowAssigner.WindowAssignerContext": {ALL_OF_IT: _ASSIGNER},
    "WindowedStream": dict.fromkeys(
        ("get_execution_environment", "get_input_type"), "otherwise: ask the stream before it"
    ),
    **{
        f"RestartStrategies.{kind}RestartStrategyConfiguration": {ALL_OF_IT: _STRATEGY}
        for kind in ("FailureRate", "Fallback", "FixedDelay", "No")
    },
    **{
        assigner: {
            "assign_windows": _ASSIGNER,
            "get_default_trigger": "otherwise: `get_default_trigger` takes nothing",
            "get_window_serializer": _SERIALIZERS,
            "is_event_time": "otherwise: an attribute",
            **({"merge_windows": "otherwise: `merges`, an attribute"} if merges else {}),
        }
        for assigner, merges in (
            ("EventTimeSessionWindows", True),
            ("GlobalWindows", False),
            ("ProcessingTimeSessionWindows", True),
            ("SlidingEventTimeWindows", False),
            ("SlidingProcessingTimeWindows", False),
            ("TumblingEventTimeWindows", False),
            ("TumblingProcessingTimeWindows", False),
            ("WindowAssigner", False),
        )
    },
}


VALUE_DIFFERENCES: dict[str, dict[str, str]] = {
    "RuntimeExecutionMode": {"BATCH": BATCH_DIFFERENCE},
}
"""The members of enumerations that exist here with another meaning."""


NO_CONNECTOR = (
    "never: flinknet has no connectors to other systems; a `Source` and a sink of your own call "
    "the system's client"
)
_SQL = (
    "never: there is no SQL and no Table API; `key_by`, windows and `reduce` of the DataStream API "
    "do what its queries do"
)
_GATEWAY = "never: there is no Java virtual machine to talk to"
_OPTIONS_BY_KEY = "never: a `Configuration` takes and gives options by key"

MODULES: dict[str, str] = {
    "pyflink.table": _SQL,
    "pyflink.shell": "never: an interactive Python or a notebook runs jobs with `execute_async`",
    "pyflink.ml": "never: Flink's machine learning is a library of its own, for Java",
    "pyflink.java_gateway": _GATEWAY,
    "pyflink.pyflink_gateway_server": _GATEWAY,
    "pyflink.pyflink_callback_server": _GATEWAY,
    "pyflink.find_flink_home": "never: there is no Flink to be found; `flinknet --version`",
    "pyflink.fn_execution": _INTERNAL,
    "pyflink.gen_protos": _INTERNAL,
    "pyflink.proto": _INTERNAL,
    "pyflink.serializers": _SERIALIZERS,
    "pyflink.testing": "otherwise: tests run jobs with `execute_and_collect`",
    "pyflink.util": _INTERNAL,
    "pyflink.common.config_options": _OPTIONS_BY_KEY,
    "pyflink.common.constants": _INTERNAL,
    "pyflink.common.input_dependency_constraint": _DEPRECATED,
    "pyflink.common.io": _JAVA,
    "pyflink.common.job_id": "otherwise: a job's id is text",
    "pyflink.common.job_status": "otherwise: a job's status is text, in Flink's words",
    "pyflink.common.serializer": _SERIALIZERS,
    "pyflink.common.utils": _INTERNAL,
    "pyflink.datastream.checkpoint_storage": _STORAGE,
    "pyflink.datastream.slot_sharing_group": _SLOTS,
    "pyflink.datastream.utils": _INTERNAL,
    "pyflink.datastream.formats": (
        "otherwise: `CsvSource`, `JsonLinesSource`, `FileSource` (Parquet, Arrow) and their sinks; "
        "there is no Avro and no ORC"
    ),
    "pyflink.datastream.connectors.base": _CONNECTOR,
    "pyflink.datastream.connectors.hybrid_source": "otherwise: `union` of the streams of sources",
    **{
        f"pyflink.datastream.connectors.{system}": NO_CONNECTOR
        for system in (
            "cassandra",
            "elasticsearch",
            "jdbc",
            "kafka",
            "kinesis",
            "mongodb",
            "opensearch",
            "prometheus",
            "pulsar",
            "rabbitmq",
            "redis",
        )
    },
}
"""PyFlink's modules that flinknet does not have."""


def not_here(module: str) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a module with PyFlink's name.

    Importing a missing class of PyFlink then raises an error with the reason.
    """

    def missing(name: str) -> NoReturn:
        why = DIFFERENCES.get(name, {}).get(ALL_OF_IT)
        if why is not None:
            raise ImportError(f"PyFlink's {name} is not in flinknet, {why}", name=module)
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)

    return missing


class PyFlinkNames:
    """A class with PyFlink's name; access to a missing method of PyFlink raises the reason."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would accept every attribute

        def __getattr__(self, name: str) -> None:
            for class_ in type(self).__mro__:
                why = DIFFERENCES.get(class_.__qualname__, {}).get(name)
                if why is not None:
                    raise AttributeError(
                        f"PyFlink's {class_.__qualname__}.{name} is not in flinknet, {why}"
                    )
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
