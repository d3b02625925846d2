"""The job graph: a job in a form ready for deployment (Flink's JobGraph).

A vertex is a chain of operators that runs in one task per subtask. The chain is a tree: its first
operator reads the vertex's inputs (or is a source), and every other operator reads one earlier
operator. An edge carries the records of one operator of its source vertex to all subtasks of its
target.

A graph consists of plain values and user functions. It is sent as bytes, on the control plane only.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from flinknet.config import BufferTimeout
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.config.restart_strategy import NO_RESTART, RestartStrategy
from flinknet.config.state import StateBackendName
from flinknet.errors import ConfigurationError
from flinknet.functions.functions import WithdrawableOutput
from flinknet.functions.type_information import TypeInformation
from flinknet.graph.pickler import dumps_to_run
from flinknet.graph.warning_filters import WarningFilter
from flinknet.operators.operators import OperatorFactory
from flinknet.operators.sink import SinkOperator, TwoPhaseSink
from flinknet.operators.typed_records import InputType
from flinknet.partition.exchange_mode import ExchangeMode
from flinknet.texts import text_of

if TYPE_CHECKING:
    from flinknet.records.partitioner import Partitioner

__all__ = [
    "MAX_PARALLELISM",
    "ChainedOperator",
    "CheckpointedOutput",
    "JobEdge",
    "JobGraph",
    "JobVertex",
    "PartitionerFactory",
]

PartitionerFactory = Callable[[], "Partitioner"]


@dataclass(frozen=True, slots=True)
class ChainedOperator:
    """One operator of a vertex."""

    name: str
    uid: str
    """Identity by which another version of the job finds the operator's state."""
    factory: OperatorFactory
    """Creates the operator of one subtask."""
    input: int | None
    """Index in the chain of the operator that this one reads; None for the first."""
    tag: str | None = None
    """Side output of that operator that this one reads; None for its main output."""
    stamped: bool = False
    """Whether its results have timestamps."""
    splits_outputs: bool = False
    """Whether it may emit ``(tag, value)``, for a side output."""
    output_type: TypeInformation | None = None
    """Type that the program declares for its records."""
    converts: bool = False
    """Whether records are converted to that type; otherwise they already conform."""
    input_types: tuple[InputType, ...] = ()
    """Type of the records of each input, if they come over the network."""


MAX_PARALLELISM = 1 << 15
"""Maximum number of key groups, and thus of subtasks, of an operator.

Flink's UPPER_BOUND_MAX_PARALLELISM.
"""


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain of operators, with the number of subtasks that run it."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    operators: tuple[ChainedOperator, ...]
    object_reuse: bool = False
    """Whether functions never change their inputs, so that operators may share records."""
    task_threads: bool = True
    """Whether each subtask runs its chain in its own thread, so that its functions may block. A
    chain that awaits something for every record runs on the event loop."""

    def own_operators(self) -> tuple[ChainedOperator, ...]:
        """Return a copy of the operators with separate user functions, for one subtask."""
        copied: tuple[ChainedOperator, ...] = pickle.loads(  # noqa: S301 - this process's own
            dumps_to_run(self.operators)
        )
        return copied


@dataclass(frozen=True, slots=True)
class JobEdge:
    """A stream between two vertices."""

    source: int
    target: int
    operator: int
    """Index in the source's chain of the operator that emits the records."""
    name: str
    """Name of the partitioner, such as ``"HASH"``."""
    partitioner: PartitionerFactory
    """Creates the partitioner of one subtask, in its process."""
    pointwise: bool
    """Whether a subtask is connected with some subtasks of the other side, not with all."""
    buffer_timeout_ms: BufferTimeout | None
    """Timeout of the buffers; None stands for the worker's configuration."""
    exchange_mode: ExchangeMode
    """When the target may read the output of the source."""
    tag: str | None = None
    """Side output of the operator that the edge carries; None for its main output."""
    stamped: bool = False
    """Whether records are tuples ``(timestamp, value)``, with watermarks between them."""
    input: int = 0
    """Input of the target: 0, or 1 for the second of two."""


class CheckpointedOutput(NamedTuple):
    """An operator with a function or sink that is notified of complete checkpoints."""

    vertex: int
    name: str
    """Name of the operator, for people."""
    can_withdraw: bool
    """Whether it can withdraw output that it published with a checkpoint that is lost."""


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A job: vertices in topological order, ``vertices[i].id == i``, and the edges between them."""

    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    types: tuple[type, ...] = ()
    """Classes of objects that records may contain, see ``RecordTypes``."""
    auto_watermark_interval_ms: int = 200
    """Interval at which subtasks that create watermarks emit them; 0 for never."""
    latency_interval_ms: int | None = None
    """Interval at which sources emit latency markers, 0 for never; None stands for the workers'
    configuration."""
    checkpointing: JobCheckpointingConfig | None = None
    """Configuration of the checkpoints; None for a job without checkpoints."""
    restart: RestartStrategy = NO_RESTART
    """Whether, and how, the job restarts after a failure."""
    state_backend: StateBackendName | None = None
    """Backend of keyed state; None stands for the workers' configuration."""

    python_files: tuple[str, ...] = ()
    """Paths of modules, zips and wheels that are sent to the workers with the job."""
    archives: tuple[str, ...] = ()
    """Paths of archives sent likewise, each with ``#NAME`` to set the name of its directory."""
    warning_filters: tuple[WarningFilter, ...] = ()
    """Warning filters of the program, which the workers apply to its functions."""
    cluster_options: tuple[tuple[str, str], ...] = ()
    """Cluster options that the program sets, by Flink's names. They apply to a cluster that is
    started for this job."""

    def slots_by_group(self) -> dict[str, int]:
        """Return the number of slots of each slot sharing group, its highest parallelism."""
        slots: dict[str, int] = {}
        for vertex in self.vertices:
            group = vertex.slot_sharing_group
            slots[group] = max(slots.get(group, 0), vertex.parallelism)
        return slots

    def slots_required(self) -> int:
        """Return the number of slots that the job needs; subtasks of a group share slots."""
        return sum(self.slots_by_group().values())

    def two_phase_sinks(self) -> list[tuple[ChainedOperator, TwoPhaseSink]]:
        """Return the sinks that commit their output when every subtask has finished."""
        operators = [operator for vertex in self.vertices for operator in vertex.operators]
        made = [(operator, operator.factory()) for operator in operators]
        return [
            (operator, one.sink)
            for operator, one in made
            if isinstance(one, SinkOperator) and isinstance(one.sink, TwoPhaseSink)
        ]

    def checkpointed_outputs(self) -> tuple[CheckpointedOutput, ...]:
        """Return the operators that are notified of complete checkpoints.

        A job without checkpoints has none.
        """
        if self.checkpointing is None:
            return ()
        made = [
            (vertex.id, operator.name, operator.factory().output_of_checkpoints())
            for vertex in self.vertices
            for operator in vertex.operators
        ]
        return tuple(
            CheckpointedOutput(vertex, name, isinstance(told, WithdrawableOutput))
            for vertex, name, told in made
            if told is not None
        )

    def is_silent_beside_time(self, edge: JobEdge) -> bool:
        """Return whether an edge lacks timestamps that another input of its target has."""
        into = [other for other in self.edges if other.target == edge.target]
        return not edge.stamped and any(other.stamped for other in into)

    def to_bytes(self) -> bytes:
        """Serialise the graph with its functions.

        Raises ConfigurationError, which names an operator that cannot be serialised.
        """
        try:
            data: bytes = dumps_to_run(self)
        except Exception as error:
            raise ConfigurationError(self._not_serialisable(error)) from error
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> JobGraph:
        """Return the graph in such bytes.

        This runs code of the sender, so the sender must be authenticated.
        """
        graph = pickle.loads(data)  # noqa: S301 - the sender is authenticated
        if not isinstance(graph, cls):
            raise ConfigurationError(f"these bytes are a {type(graph).__name__}, not a job graph")
        return graph

    def _not_serialisable(self, error: Exception) -> str:
        for vertex in self.vertices:
            for operator in vertex.operators:
                try:
                    dumps_to_run(operator)
                except Exception as reason:
                    return (
                        f'the function of operator "{operator.name}" cannot be sent to the '
                        f"workers: {text_of(reason)}; create the objects that it refers to in its "
                        "open() method"
                    )
        return f'job "{self.name}" cannot be sent to the workers: {text_of(error)}'
