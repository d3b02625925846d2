"""A submitted job: its shape for the coordinator, and its graph as opaque bytes.

The graph contains user functions, and unpickling it runs the sender's code. Only workers unpickle
it. The coordinator plans with the *shape*, which is the graph without its functions, and forwards
the bytes.
"""

from __future__ import annotations

import reprlib
import struct
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn, TypeVar, get_args

import msgpack

from flinknet.cluster.control.job_files import check_files, pack_job, read_job_files
from flinknet.cluster.control.software import SOFTWARE
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.config.restart_strategy import RestartStrategy
from flinknet.errors import ConfigurationError
from flinknet.graph.graph import (
    MAX_PARALLELISM,
    ChainedOperator,
    CheckpointedOutput,
    JobEdge,
    JobGraph,
    JobVertex,
)
from flinknet.partition.exchange_mode import ExchangeMode

__all__ = ["RestoreSettings", "Submission"]

_LENGTH = struct.Struct(">I")
"""The length of the shape in bytes, at the start of the body. The shape and the graph follow."""

_WAIT_MS_MAX = 365 * 24 * 3_600_000
"""A year in milliseconds; timers of many years overflow."""

T = TypeVar("T")

_RESTART_STRATEGIES: dict[str, Any] = {kind.__name__: kind for kind in get_args(RestartStrategy)}


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    """The checkpoint from which a job continues (Flink's SavepointRestoreSettings)."""

    path: str
    """The directory, or URL, of one checkpoint or savepoint."""
    allow_non_restored_state: bool = False
    """Whether state of operators that the job does not have may be left behind."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The submission of a client. The ``shape`` has no operators or partitioners that can run."""

    shape: JobGraph
    graph: bytes = field(repr=False)
    """The pickled graph, after the files that come with it (``job_files.py``)."""
    commits: bool = False
    """Whether the job has two-phase sinks."""
    restore: RestoreSettings | None = None
    """None for a job that starts from the beginning."""
    outputs: tuple[CheckpointedOutput, ...] = ()
    """Sinks and functions that are notified of completed checkpoints of the job."""
    wants_printed: bool = False
    """Whether the client asks for the lines that functions print."""
    wait_for_slots_ms: float = 0.0
    """Time for which the job waits for slots if there are too few; 0 to be refused instead."""
    software: str = SOFTWARE
    """The versions of the program that has pickled the graph."""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.shape.name

    @classmethod
    def of_graph(cls, graph: JobGraph, restore: RestoreSettings | None = None) -> Submission:
        """Prepare a job and the files that come with it.

        Raises ConfigurationError for a function that cannot be sent, or a file that cannot be read.
        """
        files = read_job_files(graph.python_files, graph.archives)
        commits, outputs = bool(graph.two_phase_sinks()), graph.checkpointed_outputs()
        return cls(graph, pack_job(files, graph.to_bytes()), commits, restore, outputs)

    def without_graph(self) -> Submission:
        """Return the submission without its graph, which is not needed after the end of the job."""
        return replace(self, graph=b"")

    def to_bytes(self) -> bytes:
        """Return the body of the request."""
        vertices = [
            (
                v.id,
                v.name,
                v.parallelism,
                v.max_parallelism,
                v.slot_sharing_group,
                [(operator.uid, operator.name) for operator in v.operators],
            )
            for v in self.shape.vertices
        ]
        edges = [
            (
                e.source,
                e.target,
                e.operator,
                e.name,
                e.pointwise,
                e.exchange_mode,
                e.tag,
                e.stamped,
                e.input,
            )
            for e in self.shape.edges
        ]
        header: bytes = msgpack.packb(
            [self.shape.name, vertices, edges, self._settings(), self.commits]
        )
        return _LENGTH.pack(len(header)) + header + self.graph

    def _settings(self) -> dict[str, Any]:
        restart = self.shape.restart
        checkpointing = self.shape.checkpointing
        return {
            "checkpointing": None if checkpointing is None else asdict(checkpointing),
            "restart": [type(restart).__name__, asdict(restart)],
            "restore": None if self.restore is None else asdict(self.restore),
            "outputs": self.outputs,
            "software": self.software,
            "wants_printed": self.wants_printed,
            "wait_for_slots_ms": self.wait_for_slots_ms,
        }

    @classmethod
    def from_bytes(
        cls, body: bytes, shape_bytes_max: int | None = None, *, has_ended: bool = False
    ) -> Submission:
        """Return the submission that ``to_bytes`` has packed.

        The length of the shape is compared with ``shape_bytes_max`` before the shape is decoded.
        The submission of a job that ``has_ended`` needs no graph. Raises ConfigurationError if the
        body is no submission, or its shape is too large.
        """
        header, graph = _parts_of(body)
        if shape_bytes_max is not None and len(header) > shape_bytes_max:
            raise ConfigurationError(
                f"the job's vertices and edges take {len(header)} bytes, more than "
                f"cluster.job_shape_bytes_max = {shape_bytes_max}: give it fewer, with shorter "
                "names, or raise that option"
            )
        try:
            name, vertices, edges, settings, commits = msgpack.unpackb(header)
            shape = JobGraph(
                name=_a(str, name),
                vertices=tuple(_vertex(*fields) for fields in vertices),
                edges=tuple(_edge(*fields) for fields in edges),
                checkpointing=_checkpointing(settings["checkpointing"]),
                restart=_restart_strategy(*settings["restart"]),
            )
            restore = _restore_settings(settings["restore"])
            outputs = tuple(_output(*fields) for fields in settings["outputs"])
            wants_printed = bool(settings.get("wants_printed", False))
            waits_ms = float(settings.get("wait_for_slots_ms", 0.0))
            software = _a(str, settings.get("software", ""))
            ends = {end for edge in shape.edges for end in (edge.source, edge.target)}
            senders = {(edge.source, edge.operator) for edge in shape.edges}
        except Exception as error:
            raise ConfigurationError(f"the request's body is not a job: {error}") from error
        if not shape.vertices or not (graph or has_ended):
            raise ConfigurationError("the request's body is not a job: no vertex or no graph")
        if not 0 <= waits_ms <= _WAIT_MS_MAX:
            raise ConfigurationError(
                f"the request's body is not a job: it would wait for slots for {waits_ms:g} ms"
            )
        ids = [vertex.id for vertex in shape.vertices]
        operators = {(v.id, index) for v in shape.vertices for index in range(len(v.operators))}
        ends |= {output.vertex for output in outputs}
        if ids != list(range(len(ids))) or not (ends <= set(ids) and senders <= operators):
            raise ConfigurationError("the request's body is not a job: its edges lead nowhere")
        if any(edge.source >= edge.target for edge in shape.edges):
            raise ConfigurationError("the request's body is not a job: its edges lead back")
        # Damaged files are refused here, before a worker unpacks them.
        check_files(graph, shape_bytes_max)
        return cls(shape, graph, bool(commits), restore, outputs, wants_printed, waits_ms, software)


def _parts_of(body: bytes) -> tuple[memoryview, bytes]:
    if len(body) < _LENGTH.size:
        raise ConfigurationError("the request's body is not a job: it ends too early")
    (length,) = _LENGTH.unpack_from(body)
    end = _LENGTH.size + length
    return memoryview(body)[_LENGTH.size : end], body[end:]


def _a(kind: type[T], value: object) -> T:
    """Return the value; raise TypeError unless its type is exactly ``kind``."""
    if type(value) is not kind:
        raise TypeError(f"{reprlib.repr(value)} is not of type {kind.__name__}")
    return value


def _checkpointing(fields: dict[str, Any] | None) -> JobCheckpointingConfig | None:
    return None if fields is None else JobCheckpointingConfig(**fields)


def _restore_settings(fields: dict[str, Any] | None) -> RestoreSettings | None:
    if fields is None:
        return None
    settings = RestoreSettings(**fields)
    _a(str, settings.path)
    _a(bool, settings.allow_non_restored_state)
    return settings


def _restart_strategy(name: str, fields: dict[str, Any]) -> RestartStrategy:
    strategy: RestartStrategy = _RESTART_STRATEGIES[name](**fields)
    return strategy


def _vertex(
    id: int,
    name: str,
    parallelism: int,
    max_parallelism: int,
    slot_sharing_group: str,
    named: list[tuple[str, str]],
) -> JobVertex:
    for count in (parallelism, max_parallelism):
        if not 1 <= _a(int, count) <= MAX_PARALLELISM:
            raise ValueError(f"a vertex has {count} subtasks: choose 1 to {MAX_PARALLELISM}")
    operators = tuple(
        ChainedOperator(_a(str, name), _a(str, uid), _no_operator, None) for uid, name in named
    )
    ends = _a(int, id), _a(str, name), parallelism, max_parallelism
    return JobVertex(*ends, _a(str, slot_sharing_group), operators)


def _no_operator() -> NoReturn:
    raise AssertionError("the shape of a job has no functions")


def _edge(
    source: int,
    target: int,
    operator: int,
    name: str,
    pointwise: bool,
    exchange_mode: str,
    tag: str | None,
    stamped: bool,
    input: int,
) -> JobEdge:
    mode = ExchangeMode(exchange_mode)
    ends = _a(int, source), _a(int, target), _a(int, operator), _a(str, name)
    tag = None if tag is None else _a(str, tag)
    reads = tag, _a(bool, stamped), _a(int, input)
    return JobEdge(*ends, _no_partitioner, _a(bool, pointwise), None, mode, *reads)


def _output(vertex: int, name: str, can_withdraw: bool) -> CheckpointedOutput:
    return CheckpointedOutput(_a(int, vertex), _a(str, name), _a(bool, can_withdraw))


def _no_partitioner() -> NoReturn:
    raise AssertionError("the shape of a job has no functions")
