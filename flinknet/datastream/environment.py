"""The execution environment: where a program begins and where it is executed (PyFlink's)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

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
from flinknet.functions.own_types import record_types
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

__all__ = ["ExecutionConfig", "StreamExecutionEnvironment", "execution_plan"]

DEFAULT_JOB_NAME = "flinknet job"


_PACTS = {
    OperatorKind.SOURCE: "Data Source",
    OperatorKind.ONE_INPUT: "Operator",
    OperatorKind.SINK: "Data Sink",
}


def execution_plan(transformations: Sequence[Transformation], defaults: GraphDefaults) -> str:
    """Return the operators, inputs first, and how the records come from one to the next."""
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
    """Settings of the whole job (PyFlink's ExecutionConfig)."""

    def __init__(self, defaults: GraphDefaults) -> None:
        self._defaults = defaults

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set after how many milliseconds a stream says again how far event time has come; 0 for
        only at its end. The default is 200."""
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
        """Have sources emit a latency marker every ``interval`` milliseconds, 0 for never; by
        default the workers' configuration decides (``metrics.latency_interval_ms``). How long they
        take to come to each operator is a metric."""
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
        """Let operators of a task share records: no function changes a record that it got, or one
        that it gave away. Otherwise a record that can be changed is copied when a function gives
        it away and anything else refers to it, and where several operators take it."""
        self._defaults.object_reuse = True
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Have each record stay what it was when it was given away, which is the default."""
        self._defaults.object_reuse = False
        return self

    def enable_task_threads(self) -> ExecutionConfig:
        """Run the functions of each task in a thread of its own, which is the default: they may
        block, and no other task waits for them. A chain that has a coroutine function for records
        is run by the event loop all the same."""
        self._defaults.task_threads = True
        return self

    def disable_task_threads(self) -> ExecutionConfig:
        """Run the functions of all tasks on the event loop of their worker: a record is there
        some 100 microseconds sooner, and a function that blocks holds up the whole worker."""
        self._defaults.task_threads = False
        return self

    def is_task_threads_enabled(self) -> bool:
        """Whether each task has a thread of its own."""
        return self._defaults.task_threads

    def is_object_reuse_enabled(self) -> bool:
        """Whether operators share records."""
        return self._defaults.object_reuse

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """As the environment's."""
        self._defaults.parallelism = checked_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that do not say otherwise."""
        return self._defaults.parallelism

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """As the environment's."""
        self._defaults.max_parallelism = checked_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of operators that do not say otherwise; -1 if it follows
        from their parallelism."""
        return self._defaults.max_parallelism or -1


class StreamExecutionEnvironment(PyFlinkNames):
    """Collects the operators of a program and executes them as a job.

    ``config`` is that of the embedded cluster; it is not used when ``flinknet run`` has
    loaded the program, which brings its own.
    """

    def __init__(self, config: FlinknetConfig | None = None) -> None:
        self._config = config
        self._transformations: list[Transformation] = []
        self._defaults = GraphDefaults()
        self._restart: RestartStrategy | None = None
        self._checkpoint_config = CheckpointConfig()
        self._state_backend: StateBackend | None = None
        self.cluster_options: dict[str, str] = {}
        """Options of the cluster by Flink's names, for clusters that are started for the
        program's jobs."""
        self._python_files: list[str] = []
        self._archives: list[str] = []
        self.cluster: str | None = None
        """The cluster that runs already and gets the jobs: its name, or HOST:PORT. The options
        ``execution.target``, ``rest.address`` and ``rest.port`` say it."""

    @classmethod
    def get_execution_environment(
        cls, configuration: Configuration | FlinknetConfig | None = None
    ) -> StreamExecutionEnvironment:
        """Return a new environment, with the options of a Configuration, if it is one; PyFlink's
        way to call the constructor."""
        if isinstance(configuration, Configuration):
            environment = cls()
            configure(environment, configuration)
            return environment
        return cls(configuration)

    def configure(self, configuration: Configuration) -> None:
        """Set options by Flink's names, those of the job and those of its cluster.

        An option that means nothing here is taken with a warning that says why. Raises
        ConfigurationError for a name that Flink does not have, and for a wrong value.
        """
        configure(self, configuration)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Say when results are: STREAMING, the default, gives them while the input comes; BATCH
        gives one reduced record per key, and all event time, when it has ended, and takes no
        checkpoints. The order of records is the same in both, and no stage waits for another. A
        job in mode BATCH warns, with all that differs from Flink's; so does one in mode AUTOMATIC
        whose sources all end, as that is the same."""
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
        """Run operators that do not say otherwise in this many subtasks; the default is 1."""
        self._defaults.parallelism = checked_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that do not say otherwise."""
        return self._defaults.parallelism

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups of operators that do not say otherwise.

        By default it follows from the parallelism, as Flink has it: 128 and up.
        """
        self._defaults.max_parallelism = checked_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of operators that do not say otherwise; -1 if it follows
        from their parallelism."""
        return self._defaults.max_parallelism or -1

    def set_buffer_timeout(self, timeout_millis: BufferTimeout) -> StreamExecutionEnvironment:
        """Set how long a record may wait in a network buffer that is not full.

        -1 until it is full, 0 not at all, else milliseconds, or ``"adaptive"``; by default the
        workers' configuration decides.
        """
        check_buffer_timeout(timeout_millis)
        self._defaults.buffer_timeout_ms = timeout_millis
        return self

    def get_buffer_timeout(self) -> BufferTimeout:
        """Return the buffer timeout that holds: the program's, or that of the configuration."""
        if self._defaults.buffer_timeout_ms is not None:
            return self._defaults.buffer_timeout_ms
        return executor.effective_config(self._config).network.buffer_timeout_ms

    def register_type(self, *types: type) -> StreamExecutionEnvironment:
        """Let objects of these classes be records, or stand in them: dataclasses, named tuples,
        enumerations and msgspec Structs.

        They are numbered in the order of their registration, and only the number travels; every
        subtask of the job knows the classes. Registering one again changes nothing. Raises
        ConfigurationError for any other class.
        """
        registered = tuple(dict.fromkeys((*self._defaults.types, *types)))
        record_types(registered)
        self._defaults.types = registered
        return self

    def get_config(self) -> ExecutionConfig:
        """Return what else can be set for the whole job."""
        return ExecutionConfig(self._defaults)

    def enable_checkpointing(
        self, interval: float, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint every ``interval`` milliseconds, from which the job goes on after a
        failure."""
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> float:
        """Return the interval of checkpoints in milliseconds; -1 if there are none."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return what a failure may do."""
        return self._checkpoint_config.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake data."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return what else can be set about checkpoints."""
        return self._checkpoint_config

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Keep the state of keyed operators in a ``HashMapStateBackend`` or an
        ``EmbeddedRocksDBStateBackend``; by default the workers' configuration says where. A job may
        go on from a checkpoint with another backend than the one before."""
        if not isinstance(state_backend, StateBackend):
            raise ConfigurationError(
                f"the state backend is {state_backend!r}: choose a HashMapStateBackend or an "
                "EmbeddedRocksDBStateBackend"
            )
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Return it; None if the workers' configuration says."""
        return self._state_backend

    def set_restart_strategy(self, strategy: RestartStrategy) -> StreamExecutionEnvironment:
        """Set whether, and how soon, a job that failed is run again: one of
        ``RestartStrategies``. By default it is if it has checkpoints, with exponential delays."""
        self._restart = strategy
        return self

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Give every operator a task of its own."""
        self._defaults.chaining = False
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators share tasks."""
        return self._defaults.chaining

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "",
        type_info: TypeInformation | None = None,
        *,
        name: str = "",
    ) -> DataStream:
        """Return the stream of a source's records; each subtask reads its share.

        With a watermark strategy its records have the timestamps that this gives them: none, if it
        has no timestamp assigner, because no source has some of its own. ``name`` is
        ``source_name`` where there is no strategy to stand between.
        """
        if watermark_strategy is not None and not isinstance(watermark_strategy, WatermarkStrategy):
            raise ConfigurationError(
                f"from_source needs a WatermarkStrategy, not {watermark_strategy!r}: the name of a "
                "source is name=..."
            )
        converter(type_info)
        factory = partial(SourceOperator, source)
        kind_name = name or source_name or type(source).__name__.removesuffix("Source")
        transformation = self.add_operator(OperatorKind.SOURCE, kind_name, factory, ())
        transformation.parallelism = source.parallelism
        transformation.is_bounded = source.is_bounded
        transformation.output_type = type_info
        stream = DataStream(self, (StreamInput(transformation),))
        if watermark_strategy is None or watermark_strategy.timestamp_assigner is None:
            return stream
        return stream.assign_timestamps_and_watermarks(watermark_strategy)

    def add_source(
        self,
        source_func: Source,
        source_name: str = "",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """As ``from_source``, in PyFlink's older shape."""
        return self.from_source(source_func, None, source_name, type_info)

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """Return the stream of the records of a collection, made what ``type_info`` says, read by
        one subtask as in PyFlink. Raises ConfigurationError for a record that cannot be that."""
        convert = converter(type_info)
        if convert is not None:
            collection = [_converted(convert, record) for record in collection]
        stream = self.from_source(CollectionSource(collection), type_info=type_info)
        (read,) = stream.inputs
        read.transformation.converts = False
        return stream

    def add_python_file(self, file_path: str) -> None:
        """Have a module, a zip or a wheel go to the workers with the job, whose functions import
        from it when they run."""
        self._python_files.append(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Have an archive go to the workers with the job; ``job_archive`` finds its directory, by
        ``target_dir`` or the archive's own name."""
        name = "" if target_dir is None else f"#{target_dir}"
        self._archives.append(archive_path + name)

    def get_execution_plan(self) -> str:
        """Return the program as JSON, in the shape of Flink's plan."""
        return execution_plan(self._transformations, self._defaults)

    def execute(self, job_name: str | None = None) -> JobResult:
        """Run everything that was defined since the last job, wait for its end, return its result.

        Raises ConfigurationError for a job that cannot work, and the JobError that a job ended
        with.
        """
        return executor.execute(self.job_graph(job_name, clear=True), self._config, self.cluster)

    def execute_async(self, job_name: str = "") -> JobClient:
        """Run everything that was defined since the last job while the program goes on: in a
        running event loop, as in a notebook, ``await env.execute_async()`` gives the job's result.

        Raises ConfigurationError for a job that cannot work.
        """
        graph = self.job_graph(job_name, clear=True)
        return executor.execute_async(graph, self._config, self.cluster)

    def job_graph(self, job_name: str | None = None, *, clear: bool = False) -> JobGraph:
        """Return the job that ``execute`` would run, and forget it if ``clear``."""
        name = job_name or DEFAULT_JOB_NAME
        graph = generate_job_graph(name, self._transformations, self._defaults)
        checkpointing = self._checkpoint_config.job_checkpointing()
        if self._defaults.mode != "streaming" and is_batch(self._transformations, self._defaults):
            checkpointing = None
            # Of execute(), which calls this; other callers are shown a line of flinknet's own.
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
        """Add an operator to the program; the streams' methods call it.

        The operator is made once here, so that a wrong argument is refused where it was given.
        """
        factory()
        transformation = Transformation(kind, name, factory, inputs)
        self._transformations.append(transformation)
        return transformation


def _converted(convert: Callable[[Any], Any], record: Any) -> Any:
    try:
        return convert(record)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"a record of the collection has another type: {error}") from error
