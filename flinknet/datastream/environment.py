"""The execution environment: where a program begins and where it is executed (PyFlink's)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flinknet.config import BufferTimeout, FlinknetConfig, check_buffer_timeout
from flinknet.config.restart_strategy import NO_RESTART, ExponentialDelayRestart, RestartStrategy
from flinknet.datastream import executor
from flinknet.datastream.checkpoint_config import CheckpointConfig, CheckpointingMode
from flinknet.datastream.sources import CollectionSource
from flinknet.datastream.state_backends import StateBackend
from flinknet.datastream.streams import DataStream, checked_parallelism
from flinknet.errors import ConfigurationError
from flinknet.task.graph import JobGraph, OperatorFactory
from flinknet.task.graph_generator import GraphDefaults, generate_job_graph
from flinknet.task.own_types import record_types
from flinknet.task.source import Source, SourceOperator
from flinknet.task.transformation import OperatorKind, StreamInput, Transformation

if TYPE_CHECKING:
    from flinknet.cluster.control.job_result import JobResult

__all__ = ["ExecutionConfig", "StreamExecutionEnvironment"]

DEFAULT_JOB_NAME = "flinknet job"


class ExecutionConfig:
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


class StreamExecutionEnvironment:
    """Collects the operators of a program and executes them as a job.

    ``config`` is that of the embedded local cluster; it is not used when ``flinknet run`` has
    loaded the program, which brings its own.
    """

    def __init__(self, config: FlinknetConfig | None = None) -> None:
        self._config = config
        self._transformations: list[Transformation] = []
        self._defaults = GraphDefaults()
        self._restart: RestartStrategy | None = None
        self._checkpoint_config = CheckpointConfig()
        self._state_backend: StateBackend | None = None

    @classmethod
    def get_execution_environment(
        cls, config: FlinknetConfig | None = None
    ) -> StreamExecutionEnvironment:
        """Return a new environment; PyFlink's way to call the constructor."""
        return cls(config)

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

    def set_buffer_timeout(self, timeout_ms: BufferTimeout) -> StreamExecutionEnvironment:
        """Set how long a record may wait in a network buffer that is not full.

        -1 until it is full, 0 not at all, else milliseconds, or ``"adaptive"``; by default the
        workers' configuration decides.
        """
        check_buffer_timeout(timeout_ms)
        self._defaults.buffer_timeout_ms = timeout_ms
        return self

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
        self, interval: float, mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint every ``interval`` milliseconds, from which the job goes on after a
        failure."""
        self._checkpoint_config.set_checkpoint_interval(interval).set_checkpointing_mode(mode)
        return self

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

    def from_source(self, source: Source, name: str = "") -> DataStream:
        """Return the stream of a source's records; each subtask reads its share."""
        factory = partial(SourceOperator, source)
        kind_name = name or type(source).__name__.removesuffix("Source")
        transformation = self.add_operator(OperatorKind.SOURCE, kind_name, factory, ())
        transformation.parallelism = source.parallelism
        return DataStream(self, (StreamInput(transformation),))

    def from_collection(self, collection: Iterable[Any]) -> DataStream:
        """Return the stream of the records of a collection, read by one subtask as in PyFlink."""
        return self.from_source(CollectionSource(collection))

    def execute(self, job_name: str | None = None) -> JobResult:
        """Run everything that was defined since the last job, wait for its end, return its result.

        Raises ConfigurationError for a job that cannot work, and the JobError that a job ended
        with.
        """
        return executor.execute(self.job_graph(job_name, clear=True), self._config)

    def job_graph(self, job_name: str | None = None, *, clear: bool = False) -> JobGraph:
        """Return the job that ``execute`` would run, and forget it if ``clear``."""
        name = job_name or DEFAULT_JOB_NAME
        graph = generate_job_graph(name, self._transformations, self._defaults)
        checkpointing = self._checkpoint_config.job_checkpointing()
        default = NO_RESTART if checkpointing is None else ExponentialDelayRestart()
        graph = replace(
            graph,
            checkpointing=checkpointing,
            restart=self._restart or default,
            state_backend=None if self._state_backend is None else self._state_backend.name,
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
