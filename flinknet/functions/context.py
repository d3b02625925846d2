"""The contexts that functions receive: runtime, record and timer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.errors import ConfigurationError
from flinknet.metrics.latency_statistics import LatencyStatistics
from flinknet.records.cooperative_budget import yield_to_loop
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.state.descriptors import StateDescriptor
from flinknet.state.keyed_state import KeyedState
from flinknet.state.keyed_state_store import KeyedStateStore
from flinknet.state.state_handler import BackendFactory, StateHandler
from flinknet.state.timer_service import TimeDomain, TimerService
from flinknet.wire.events import MIN_WATERMARK

__all__ = ["OnTimerContext", "ProcessContext", "RuntimeContext"]


class ProcessContext:
    """The context of the current record in a process function; valid during the call."""

    __slots__ = ("channel", "current_key", "current_timestamp", "current_watermark", "timers")

    def __init__(self) -> None:
        self.channel = 0
        """Index of the record's input channel, over all inputs of the subtask.

        With one hash, rebalance or broadcast input it is the index of the producing subtask.
        """
        self.current_key: Any = None
        self.current_timestamp: int | None = None
        self.current_watermark = MIN_WATERMARK
        self.timers: TimerService | None = None

    def get_current_key(self) -> Any:
        """Return the key of the record; None on a stream that is not keyed."""
        return self.current_key

    def timestamp(self) -> int | None:
        """Return the event time of the record in milliseconds; None if it has none.

        In ``on_timer`` it is the timer's time.
        """
        return self.current_timestamp

    def timer_service(self) -> TimerService:
        """Return the timer service for the current key.

        Raises ConfigurationError if the function has no key or no ``on_timer``.
        """
        if self.timers is None:
            raise ConfigurationError(
                "only a function with a key and on_timer has timers: use key_by(...).process(...) "
                "with a KeyedProcessFunction, or a KeyedCoProcessFunction on connected streams"
            )
        return self.timers


class OnTimerContext(ProcessContext):
    """The context of ``on_timer``; valid during the call."""

    __slots__ = ("domain",)

    def __init__(self) -> None:
        super().__init__()
        self.domain = TimeDomain.EVENT_TIME

    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer."""
        return self.domain


@dataclass(frozen=True, kw_only=True)
class RuntimeContext(PyFlinkNames, KeyedStateStore):
    """The identity and the services of one operator in a subtask of a running job."""

    operator_name: str
    task_name: str
    index: int
    parallelism: int
    max_parallelism: int
    processing_time: ProcessingTimeService
    """The subtask's clock and timers."""
    operator_uid: str = ""
    auto_watermark_interval_ms: int = 200
    latency_interval_ms: int = 0
    """Interval between two latency markers of a source; 0 for no markers."""
    latency: LatencyStatistics = field(default_factory=LatencyStatistics)
    """Latency of the markers that reach the operator."""
    channels_of_first_input: int = 0
    """Number of the subtask's input channels that belong to the first of two inputs."""
    job_id: str = "embedded"
    attempt: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    """JSON-compatible values that the function adds to the subtask's result.

    They appear under the operator's name.
    """
    collected: dict[str, list[Any]] = field(default_factory=dict)
    """Records that the subtask's collect sinks return, by operator name."""
    committables: list[Any] = field(default_factory=list)
    """Committables that the operator's two-phase sink has prepared."""
    collect_records_max: int | None = None
    """Maximum number of records that each collect sink may keep; None for no limit."""
    process_context: ProcessContext = field(default_factory=ProcessContext)
    """The context that a process function receives with each record.

    Its ``channel`` also holds the channel of the batch that any other function is called for.
    """
    types: RecordTypes = field(default_factory=RecordTypes)
    """The classes of the objects in records and state."""
    state_backends: BackendFactory | None = None
    """Factory of the operators' keyed state backends; None for the heap."""
    state: StateHandler = field(default_factory=StateHandler)
    """All state of the operator in this subtask."""
    checkpointed: bool = False
    """Whether the job has checkpoints."""
    allows_repeated_output: bool = False
    """Whether the job may emit output again that it has emitted before.

    Set by ``JobCheckpointingConfig.allow_repeated_output``.
    """
    keyed_state: KeyedState | None = None
    """The keyed part of ``state``, for the operator's function."""
    interrupt: Callable[[], Awaitable[None]] = yield_to_loop
    """Awaited in the middle of long work, to let other subtasks run and a checkpoint be taken.

    All results so far must be emitted, and state must describe the remaining work.
    """
    idle: Callable[[], AbstractContextManager[None]] = nullcontext
    """``with context.idle():`` around an await for which a source has no records.

    Time outside this block counts as busy.
    """

    def get_task_name(self) -> str:
        """Return the name of the chain, such as ``"Source: flights -> Map"``."""
        return self.task_name

    def get_task_name_with_subtasks(self) -> str:
        """Return the name used in errors, such as ``"Source: flights -> Map (1/4)"``."""
        return f"{self.task_name} ({self.index + 1}/{self.parallelism})"

    def get_index_of_this_subtask(self) -> int:
        """Return this subtask's index, from 0."""
        return self.index

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of subtasks that run this operator."""
        return self.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the maximum parallelism, which equals the number of key groups."""
        return self.max_parallelism

    def get_attempt_number(self) -> int:
        """Return the number of earlier attempts of the job, from 0."""
        return self.attempt

    def _state_of(self, descriptor: StateDescriptor) -> Any:
        if self.keyed_state is None:
            raise ConfigurationError(
                f'operator "{self.operator_name}" requests keyed state, which is available to map, '
                "flat_map, filter, process and process_batch on a keyed stream: call key_by "
                "before one of them"
            )
        return self.keyed_state.state(descriptor, self.process_context)
