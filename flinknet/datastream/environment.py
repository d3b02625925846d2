"""PyFlink's execution environment: the start of a program, and the execution of its jobs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from flinknet.config import BufferTimeout, FlinknetConfig, check_buffer_timeout
from flinknet.config.restart_strategy import NO_RESTART, ExponentialDelayRestart, RestartStrategy
from flinknet.datastream import executor
from flinknet.datastream.checkpoint_config import CheckpointConfig, CheckpointingMode
from flinknet.datastream.configuration import Configuration, RuntimeExecutionMode, configure
from flinknet.datastream.job_client import JobClient
from flinknet.datastream.operator_settings import checked_parallelism
from flinknet.datastream.sources import CollectionSource
from flinknet.datastream.state_backends import StateBackend
from flinknet.datastream.streams import DataStream
from flinknet.errors import ConfigurationError
from flinknet.functions.builtin_types import record_types
from flinknet.functions.type_information import TypeInformation, converter
from flinknet.functions.watermark_strategy import WatermarkStrategy
from flinknet.graph.graph import JobGraph
from flinknet.graph.graph_generator import (
    GraphDefaults,
    RuntimeMode,
    all_transformations,
    generate_job_graph,
    is_batch,
)
from flinknet.graph.transformation import OperatorKind, StreamInput, Transformation
from flinknet.graph.warning_filters import program_filters
from flinknet.operators.operators import OperatorFactory
from flinknet.operators.source import Source, SourceOperator

if TYPE_CHECKING:
    from flinknet.cluster.control.job_result import JobResult
from flinknet.compatibility.pyflink_differences import BATCH_DIFFERENCE, PyFlinkNames
from flinknet.compatibility.subscripted import T

__all__ = ["ExecutionConfig", "StreamExecutionEnvironment", "execution_plan"]

DEFAULT_JOB_NAME = "flinknet job"


_PACTS = {
    OperatorKind.SOURCE: "Data Source",
    OperatorKind.ONE_INPUT: "Operator",
    OperatorKind.SINK: "Data Sink",
}


def execution_plan(transformations: Sequence[Transformation], defaults: GraphDefaults) -> str:
    """Return a JSON plan of the operators, inputs first, and of the partitioning between them."""
    program = all_transformations(transformations)
    ids = {one: number for number, one in enumerate(program, 1)}

    def predecessor(read: StreamInput, one: Transformation, place: int) -> dict[str, Any]:
        name = "FORWARD" if _same(read, one, defaults) else "REBALANCE"
        first = one.first_inputs
        return {
            "id": ids[read.transformation],
            "ship_strategy": name if read.partitioning is None else read.partitioning.name,
            "side": "first" if first is not None and place < first else "second",
        }

    nodes = []
    for one, number in ids.items():
        node: dict[str, Any] = {
            "id": number,
            "type": one.display_name,
            "pact": _PACTS[one.kind],
            "contents": one.description or one.display_name,
            "parallelism": one.parallelism or defaults.parallelism,
        }
        if one.inputs:
            node["predecessors"] = [
                predecessor(read, one, place) for place, read in enumerate(one.inputs)
            ]
        nodes.append(node)
    return json.dumps({"nodes": nodes}, indent=2)


def _same(read: StreamInput, one: Transformation, defaults: GraphDefaults) -> bool:
    before = read.transformation.parallelism or defaults.parallelism
    return before == (one.parallelism or defaults.parallelism)


class ExecutionConfig(PyFlinkNames):
    """Settings for the whole job (PyFlink's ExecutionConfig)."""

    def __init__(self, defaults: GraphDefaults) -> None:
        self._defaults = defaults

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval between watermarks in milliseconds; the default is 200.

        With 0, a stream emits a watermark only at its end.
        """
        if isinstance(interval, bool) or not isinstance(interval, int) or interval < 0:
            raise ConfigurationError(
                f"the auto watermark interval is {interval!r}: choose 0 or more milliseconds"
            )
        self._defaults.auto_watermark_interval_ms = interval
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return the interval in milliseconds."""
        return self._defaults.auto_watermark_interval_ms

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval between latency markers from sources, in milliseconds; 0 for no markers.

        By default the workers' configuration decides (``metrics.latency_interval_ms``). The
        markers' latency at each operator is a metric.
        """
        if isinstance(interval, bool) or not isinstance(interval, int) or interval < 0:
            raise ConfigurationError(
                f"the latency tracking interval is {interval!r}: choose 0 or more milliseconds"
            )
        self._defaults.latency_interval_ms = interval
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return the interval in milliseconds; 0 also if the workers' configuration decides."""
        return self._defaults.latency_interval_ms or 0

    def enable_object_reuse(self) -> ExecutionConfig:
        """Let the operators of a task share records instead of copying them.

        Functions must then not change records that they received or emitted. Otherwise, a mutable
        record is copied when a function emits it while it is referenced elsewhere, and when several
        operators receive it.
        """
        self._defaults.object_reuse = True
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Keep each record as it was when it was emitted; this is the default."""
        self._defaults.object_reuse = False
        return self

    def enable_task_threads(self) -> ExecutionConfig:
        """Run the functions of each task in a thread of its own; this is the default.

        Functions may then block without delaying other tasks. A chain with a coroutine function for
        records still runs on the event loop.
        """
        self._defaults.task_threads = True
        return self

    def disable_task_threads(self) -> ExecutionConfig:
        """Run the functions of all tasks on the event loop of their worker.

        A record arrives about 100 microseconds sooner, but a blocking function delays the whole
        worker.
        """
        self._defaults.task_threads = False
        return self

    def is_task_threads_enabled(self) -> bool:
        """Return whether each task has a thread of its own."""
        return self._defaults.task_threads

    def is_object_reuse_enabled(self) -> bool:
        """Return whether operators share records."""
        return self._defaults.object_reuse

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism, as in the environment."""
        self._defaults.parallelism = checked_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that do not set their own."""
        return self._defaults.parallelism

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the maximum parallelism, as in the environment."""
        self._defaults.max_parallelism = checked_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of operators that do not set their own.

        -1 if it follows from their parallelism.
        """
        return self._defaults.max_parallelism or -1


class StreamExecutionEnvironment(PyFlinkNames):
    """Collects the operators of a program and executes them as a job.

    ``config`` configures the embedded cluster. It is ignored if ``flinknet run`` has loaded the
    program, because that command has its own configuration.
    """

    def __init__(self, config: FlinknetConfig | None = None) -> None:
        self._config = config
        self._transformations: list[Transformation] = []
        self._defaults = GraphDefaults()
        self._restart: RestartStrategy | None = None
        self._checkpoint_config = CheckpointConfig()
        self._state_backend: StateBackend | None = None
        self.cluster_options: dict[str, str] = {}
        """Cluster options by Flink's names, for clusters started for the program's jobs."""
        self._python_files: list[str] = []
        self._archives: list[str] = []
        self.cluster: str | None = None
        """The running cluster that executes the jobs: its name, or HOST:PORT.

        Set by the options ``execution.target``, ``rest.address`` and ``rest.port``.
        """

    @classmethod
    def get_execution_environment(
        cls, configuration: Configuration | FlinknetConfig | None = None
    ) -> StreamExecutionEnvironment:
        """Return a new environment (PyFlink's way to call the constructor).

        If ``configuration`` is a Configuration, its options are set.
        """
        if isinstance(configuration, Configuration):
            environment = cls()
            configure(environment, configuration)
            return environment
        return cls(configuration)

    def configure(self, configuration: Configuration) -> None:
        """Set options of the job and of its cluster by Flink's names.

        An option without meaning here is accepted with a warning that gives the reason. Raises
        ConfigurationError for a name unknown to Flink, and for an invalid value.
        """
        configure(self, configuration)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set whether results are emitted while the input arrives or at its end.

        - STREAMING, the default, emits results while the input arrives.
        - BATCH emits one reduced record per key, and fires event time, when the input has ended. It
          takes no checkpoints.
        - AUTOMATIC is BATCH if all sources are bounded, otherwise STREAMING.

        The order of records is the same in all modes, and no stage waits for another. A job in
        batch mode warns, with all differences from Flink's batch mode.
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise ConfigurationError(
                f"the runtime mode is {execution_mode!r}: choose one of RuntimeExecutionMode"
            )
        modes: dict[RuntimeExecutionMode, RuntimeMode] = {
            RuntimeExecutionMode.STREAMING: "streaming",
            RuntimeExecutionMode.BATCH: "batch",
            RuntimeExecutionMode.AUTOMATIC: "automatic",
        }
        self._defaults.mode = modes[execution_mode]
        return self

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the parallelism of operators that do not set their own; the default is 1."""
        self._defaults.parallelism = checked_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that do not set their own."""
        return self._defaults.parallelism

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups of operators that do not set their own.

        By default it follows from the parallelism as in Flink: 128 or more.
        """
        self._defaults.max_parallelism = checked_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of operators that do not set their own.

        -1 if it follows from their parallelism.
        """
        return self._defaults.max_parallelism or -1

    def set_buffer_timeout(self, timeout_millis: BufferTimeout) -> StreamExecutionEnvironment:
        """Set how long a record may wait in a partly filled network buffer.

        -1 waits until the buffer is full, and 0 does not wait. Other values are milliseconds, or
        ``"adaptive"``. By default the workers' configuration decides.
        """
        check_buffer_timeout(timeout_millis)
        self._defaults.buffer_timeout_ms = timeout_millis
        return self

    def get_buffer_timeout(self) -> BufferTimeout:
        """Return the effective buffer timeout: the program's, or else the configuration's."""
        if self._defaults.buffer_timeout_ms is not None:
            return self._defaults.buffer_timeout_ms
        return executor.effective_config(self._config).network.buffer_timeout_ms

    def register_type(self, *types: type) -> StreamExecutionEnvironment:
        """Allow objects of these classes as records and inside of records.

        The classes may be dataclasses, named tuples, enumerations and msgspec Structs. They are
        numbered in order of registration, and only the number is sent; every subtask of the job
        knows the classes. Registering a class again has no effect. Raises ConfigurationError for
        any other class.
        """
        registered = tuple(dict.fromkeys((*self._defaults.types, *types)))
        record_types(registered)
        self._defaults.types = registered
        return self

    def get_config(self) -> ExecutionConfig:
        """Return the other settings for the whole job."""
        return ExecutionConfig(self._defaults)

    def enable_checkpointing(
        self, interval: float, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint every ``interval`` milliseconds, to resume the job after a failure."""
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> float:
        """Return the interval of checkpoints in milliseconds; -1 if checkpoints are disabled."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the guarantee after a failure."""
        return self._checkpoint_config.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether barriers may overtake data."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the other settings for checkpoints."""
        return self._checkpoint_config

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Set the backend for the state of keyed operators.

        It is a ``HashMapStateBackend`` or an ``EmbeddedRocksDBStateBackend``. By default the
        workers' configuration decides. A job may resume from a checkpoint with a different backend
        than before.
        """
        if not isinstance(state_backend, StateBackend):
            raise ConfigurationError(
                f"the state backend is {state_backend!r}: choose a HashMapStateBackend or an "
                "EmbeddedRocksDBStateBackend"
            )
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Return the state backend; None if the workers' configuration decides."""
        return self._state_backend

    def set_restart_strategy(self, strategy: RestartStrategy) -> StreamExecutionEnvironment:
        """Set whether and how soon a failed job restarts, by a strategy of ``RestartStrategies``.

        By default a job with checkpoints restarts, with exponential delays; other jobs do not.
        """
        self._restart = strategy
        return self

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Run every operator in a task of its own."""
        self._defaults.chaining = False
        return self

    def is_chaining_enabled(self) -> bool:
        """Return whether operators share tasks."""
        return self._defaults.chaining

    @overload
    def from_source(
        self,
        source: Source[Any],
        watermark_strategy: WatermarkStrategy[T] | None,
        source_name: str,
        type_info: TypeInformation[T],
    ) -> DataStream[T]: ...

    @overload
    def from_source(
        self,
        source: Source[Any],
        watermark_strategy: WatermarkStrategy[T] | None = None,
        source_name: str = "",
        *,
        type_info: TypeInformation[T],
        name: str = "",
    ) -> DataStream[T]: ...

    @overload
    def from_source(
        self,
        source: Source[T],
        watermark_strategy: WatermarkStrategy[T] | None = None,
        source_name: str = "",
        type_info: None = None,
        *,
        name: str = "",
    ) -> DataStream[T]: ...

    def from_source(
        self,
        source: Source[Any],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str = "",
        type_info: TypeInformation[Any] | None = None,
        *,
        name: str = "",
    ) -> DataStream[Any]:
        """Return the stream of a source's records; each subtask reads a part.

        A watermark strategy sets the records' timestamps. Without a timestamp assigner they have
        none, because no source provides its own. ``name`` replaces ``source_name`` in calls without
        a strategy.
        """
        if watermark_strategy is not None and not isinstance(watermark_strategy, WatermarkStrategy):
            raise ConfigurationError(
                f"from_source needs a WatermarkStrategy, not {watermark_strategy!r}: pass the name "
                "of a source as name=..."
            )
        converter(type_info)
        factory = partial(SourceOperator, source)
        kind_name = name or source_name or type(source).__name__.removesuffix("Source")
        transformation = self.add_operator(OperatorKind.SOURCE, kind_name, factory, ())
        transformation.parallelism = source.parallelism
        transformation.is_bounded = source.is_bounded
        transformation.output_type = type_info
        stream: DataStream[Any] = DataStream(self, (StreamInput(transformation),))
        if watermark_strategy is None or watermark_strategy.timestamp_assigner is None:
            return stream
        timestamped = stream.assign_timestamps_and_watermarks(watermark_strategy)
        operator = timestamped._operator("from_source")
        operator.source, operator.parallelism = transformation, transformation.parallelism
        return timestamped

    @overload
    def add_source(
        self, source_func: Source[Any], source_name: str, type_info: TypeInformation[T]
    ) -> DataStream[T]: ...

    @overload
    def add_source(
        self, source_func: Source[Any], source_name: str = "", *, type_info: TypeInformation[T]
    ) -> DataStream[T]: ...

    @overload
    def add_source(
        self, source_func: Source[T], source_name: str = "", type_info: None = None
    ) -> DataStream[T]: ...

    def add_source(
        self,
        source_func: Source[Any],
        source_name: str = "",
        type_info: TypeInformation[Any] | None = None,
    ) -> DataStream[Any]:
        """Return the stream of a source's records, in PyFlink's older form of ``from_source``."""
        name = source_name
        if type_info is None:
            return self.from_source(source_func, None, name)
        return self.from_source(source_func, None, name, type_info)

    @overload
    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation[T]
    ) -> DataStream[T]: ...

    @overload
    def from_collection(self, collection: Iterable[T], type_info: None = None) -> DataStream[T]: ...

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation[Any] | None = None
    ) -> DataStream[Any]:
        """Return the stream of a collection's records, converted to ``type_info``.

        One subtask reads them, as in PyFlink. Raises ConfigurationError for a record that cannot be
        converted.
        """
        convert = converter(type_info)
        if convert is not None:
            collection = [_converted(convert, record) for record in collection]
        stream = self.from_source(CollectionSource(collection), type_info=type_info)
        (read,) = stream.inputs
        # The records are converted already.
        read.transformation.converts = False
        return stream

    def add_python_file(self, file_path: str) -> None:
        """Send a module, a zip file or a wheel to the workers with the job.

        The job's functions can import from it when they run.
        """
        self._python_files.append(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Send an archive to the workers with the job.

        ``job_archive`` returns its directory, by ``target_dir`` or the archive's file name.
        """
        name = "" if target_dir is None else f"#{target_dir}"
        self._archives.append(archive_path + name)

    def get_execution_plan(self) -> str:
        """Return the program as JSON, in the format of Flink's plan."""
        return execution_plan(self._transformations, self._defaults)

    def execute(self, job_name: str | None = None) -> JobResult:
        """Run all operators defined since the last job, wait for the end, and return the result.

        Raises ConfigurationError for a job that cannot work, and the JobError that a job ended
        with.
        """
        return executor.execute(self.job_graph(job_name, clear=True), self._config, self.cluster)

    def execute_async(self, job_name: str = "") -> JobClient:
        """Start a job of all operators defined since the last one, and return its client.

        In a running event loop, as in a notebook, ``await env.execute_async()`` returns the job's
        result. Raises ConfigurationError for a job that cannot work.
        """
        graph = self.job_graph(job_name, clear=True)
        return executor.execute_async(graph, self._config, self.cluster)

    def job_graph(self, job_name: str | None = None, *, clear: bool = False) -> JobGraph:
        """Return the job that ``execute`` would run; ``clear`` removes it from the environment."""
        name = job_name or DEFAULT_JOB_NAME
        graph = generate_job_graph(name, self._transformations, self._defaults)
        checkpointing = self._checkpoint_config.job_checkpointing()
        if self._defaults.mode != "streaming" and is_batch(self._transformations, self._defaults):
            checkpointing = None
            # The warning points to the caller of ``execute`` or ``execute_async``. For other
            # callers of this method it points to a line of flinknet.
            warnings.warn(f'job "{name}" runs in mode BATCH: {BATCH_DIFFERENCE}', stacklevel=3)
        default = NO_RESTART if checkpointing is None else ExponentialDelayRestart()
        graph = replace(
            graph,
            checkpointing=checkpointing,
            restart=self._restart or default,
            state_backend=None if self._state_backend is None else self._state_backend.name,
            cluster_options=tuple(self.cluster_options.items()),
            python_files=tuple(self._python_files),
            archives=tuple(self._archives),
            warning_filters=program_filters(),
        )
        if clear:
            self._transformations.clear()
        return graph

    def add_operator(
        self,
        kind: OperatorKind,
        name: str,
        factory: OperatorFactory,
        inputs: tuple[StreamInput, ...],
    ) -> Transformation:
        """Add an operator to the program; the methods of streams call this."""
        # Create one operator now, so that a wrong argument fails where the program passes it.
        factory()
        transformation = Transformation(kind, name, factory, inputs)
        self._transformations.append(transformation)
        return transformation


def _converted(convert: Callable[[Any], Any], record: Any) -> Any:
    try:
        return convert(record)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"a record of the collection has another type: {error}") from error
