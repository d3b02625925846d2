"""The job graph: what a job consists of, ready to be deployed (Flink's JobGraph).

A vertex is a chain of operators that runs in one task per subtask. The chain is a tree: its first
operator reads the vertex's inputs (or is a source), and every other operator reads one operator
before it. An edge carries the records of one operator of its source vertex to all subtasks of its
target.

A graph is made of plain values and of user functions. It travels as bytes on the control plane
only.
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
    """Finds the operator's state again in another version of the job."""
    factory: OperatorFactory
    """Makes the operator of one subtask."""
    input: int | None
    """Index in the chain of the operator that feeds this one; None for the first."""
    tag: str | None = None
    """Which side output of that operator this one reads; None for its main output."""
    stamped: bool = False
    """Whether what it emits has timestamps."""
    splits_outputs: bool = False
    """Whether it may emit ``(tag, value)``, for a side output."""
    output_type: TypeInformation | None = None
    """What the program has declared its records to be."""
    converts: bool = False
    """Whether they are made so; else they are so already."""
    input_types: tuple[InputType, ...] = ()
    """What the records of each of its inputs are, if they come over the network."""


MAX_PARALLELISM = 1 << 15
"""Most key groups, so most subtasks, of an operator (Flink's UPPER_BOUND_MAX_PARALLELISM)."""


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain of operators and how many subtasks run it."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    operators: tuple[ChainedOperator, ...]
    object_reuse: bool = False
    """Whether functions leave alone what they get, so that operators share records."""
    task_threads: bool = True
    """Whether each subtask runs its chain in a thread of its own, so that its functions may block;
    a chain that awaits something for every record is run by the event loop."""

    def own_operators(self) -> tuple[ChainedOperator, ...]:
        """Return a copy of the operators with user functions of its own, for one subtask."""
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
    """Index in the source's chain of the operator whose records the edge carries."""
    name: str
    """The partitioner's name, ``"HASH"``."""
    partitioner: PartitionerFactory
    """Makes the partitioner of one subtask, in its process."""
    pointwise: bool
    """Whether a subtask is connected with some subtasks of the other side, not with all."""
    buffer_timeout_ms: BufferTimeout | None
    """None takes the timeout of the worker's configuration."""
    exchange_mode: ExchangeMode
    """When the target may read what the source writes."""
    tag: str | None = None
    """The side output of the operator that the edge carries; None for its main output."""
    stamped: bool = False
    """Whether records are tuples ``(timestamp, value)``, with watermarks between them."""
    input: int = 0
    """Which of its inputs it is for the target: 0, or 1 for the second of two."""


class CheckpointedOutput(NamedTuple):
    """An operator whose function or sink is told which checkpoints are complete."""

    vertex: int
    name: str
    """The operator's, for people."""
    can_withdraw: bool
    """Whether it can take back what it has made visible with a checkpoint that is lost."""


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A job: vertices in topological order, ``vertices[i].id == i``, and the edges between them."""

    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    types: tuple[type, ...] = ()
    """The classes whose objects may be in records, see ``RecordTypes``."""
    auto_watermark_interval_ms: int = 200
    """How often subtasks that make watermarks say how far event time has come; 0 for never."""
    latency_interval_ms: int | None = None
    """How often sources emit a latency marker, 0 for never; None takes what the workers'
    configuration says."""
    checkpointing: JobCheckpointingConfig | None = None
    """How its checkpoints are taken; None for none."""
    restart: RestartStrategy = NO_RESTART
    """Whether the job is run again after a failure."""
    state_backend: StateBackendName | None = None
    """Where keyed state is kept; None takes what the workers' configuration says."""

    python_files: tuple[str, ...] = ()
    """Paths of modules, zips and wheels that go to the workers with the job."""
    archives: tuple[str, ...] = ()
    """Paths of archives that do, each with ``#NAME`` if its directory is to be called so."""
    warning_filters: tuple[WarningFilter, ...] = ()
    """The program's, which hold for its functions in the workers, too."""
    cluster_options: tuple[tuple[str, str], ...] = ()
    """Options of the cluster that the program sets, by Flink's names: they hold for a cluster that
    is started for this job."""

    def slots_by_group(self) -> dict[str, int]:
        """Return how many slots each slot sharing group needs: its highest parallelism."""
        slots: dict[str, int] = {}
        for vertex in self.vertices:
            group = vertex.slot_sharing_group
            slots[group] = max(slots.get(group, 0), vertex.parallelism)
        return slots

    def slots_required(self) -> int:
        """Return how many slots the job needs: subtasks of one group share slots."""
        return sum(self.slots_by_group().values())

    def two_phase_sinks(self) -> list[tuple[ChainedOperator, TwoPhaseSink]]:
        """Return the sinks whose output is committed when every subtask has finished."""
        operators = [operator for vertex in self.vertices for operator in vertex.operators]
        made = [(operator, operator.factory()) for operator in operators]
        return [
            (operator, one.sink)
            for operator, one in made
            if isinstance(one, SinkOperator) and isinstance(one.sink, TwoPhaseSink)
        ]

    def checkpointed_outputs(self) -> tuple[CheckpointedOutput, ...]:
        """Return the operators that are told which checkpoints are complete; none in a job
        without checkpoints."""
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
        """Whether the records of an edge have no timestamps, and those of another input of its
        target do."""
        into = [other for other in self.edges if other.target == edge.target]
        return not edge.stamped and any(other.stamped for other in into)

    def to_bytes(self) -> bytes:
        """Serialise the graph with its functions; ConfigurationError names one that cannot be."""
        try:
            data: bytes = dumps_to_run(self)
        except Exception as error:
            raise ConfigurationError(self._not_serialisable(error)) from error
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> JobGraph:
        """Inverse of ``to_bytes``; runs the sender's code, so only for who is authenticated."""
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
                        f"workers: {text_of(reason)}; make what it refers to in its open() method"
                    )
        return f'job "{self.name}" cannot be sent to the workers: {text_of(error)}'
