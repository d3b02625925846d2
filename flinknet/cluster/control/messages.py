"""The control messages between coordinator and workers, and their bytes.

A worker keeps one websocket to the coordinator; each binary websocket message is one msgpack array
``[name, field, ...]`` of a message below, with exactly its fields. Only small messages travel here,
so that a heartbeat never queues behind a megabyte: job graphs, deployments and results are HTTP
bodies (``client_routes.py``, ``worker_routes.py``). The registry is closed: an unknown name, a
missing field or a wrong type is a ``RemoteProtocolError`` and ends the connection.

::

    worker -> coordinator                      coordinator -> worker
    Register                                   Registered | Refused
    Heartbeat                                  Heartbeat, in answer to each
    Progress, Printed, Drain                   Deploy, Run, Cancel
    StatisticsReport                           StatisticsRequest
    Answer*                                    SampleStacks, DumpThreads
                                               ListOutput, ReadOutput
    Opened, Finished*, Failed, Released        Settle, Stop
    Settled
    AcknowledgeCheckpoint                      TriggerCheckpoint
    DeclineCheckpoint, AwaitCheckpoint         CompleteCheckpoint, AbortCheckpoint

    * Finished and Answer are HTTP uploads: of a subtask's result, and of what a request with a
      number asked for; see worker_routes.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import msgpack

from flinknet.cluster.control.hash_seed import text_hash
from flinknet.cluster.control.software import SOFTWARE
from flinknet.errors import RemoteProtocolError

__all__ = [
    "AbortCheckpoint",
    "AcknowledgeCheckpoint",
    "AwaitCheckpoint",
    "Cancel",
    "CompleteCheckpoint",
    "DeclineCheckpoint",
    "Deploy",
    "Drain",
    "DumpThreads",
    "Failed",
    "Heartbeat",
    "ListOutput",
    "Message",
    "Opened",
    "Printed",
    "Progress",
    "ReadOutput",
    "Refused",
    "Register",
    "Registered",
    "Released",
    "Run",
    "SampleStacks",
    "Settle",
    "Settled",
    "StatisticsReport",
    "StatisticsRequest",
    "Stop",
    "TriggerCheckpoint",
    "decode",
    "encode",
]


@dataclass(frozen=True, slots=True)
class Register:
    """First message of a worker: who it is, where its data plane listens, what it offers."""

    worker_id: str
    pid: int
    address: str
    slots: int
    metrics_address: str = ""
    """Where it serves /metrics; empty if it does not."""
    text_hash: int = field(default_factory=text_hash)
    """How it hashes text, which must be as the coordinator does (``hash_seed.py``)."""
    process: str = ""
    """A random name of this process, the same each time that it registers."""
    state_id: str = ""
    epoch: int = 0
    """Of the last coordinator that it has served."""
    software: str = SOFTWARE
    """Its versions, which must be the coordinator's (``software.py``)."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The worker is part of the cluster and must send a heartbeat at this pace."""

    heartbeat_interval_ms: float
    progress_interval_ms: float
    return_ms: float = 0.0
    """How long to try to register again when the connection is lost; 0: not at all."""
    state_id: str = ""
    """Of the coordinator's state directory; empty if it has none."""
    epoch: int = 0
    """The coordinator's number among those that have had the directory: the highest one rules."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker cannot be part of the cluster; the connection closes."""

    reason: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The sender's event loop turns. A worker's is answered, so that each watches the other."""

    step_of: str = ""
    """Of a worker, which subtask's thread has been at one call for longest."""
    step_s: float = 0.0
    """For how many seconds."""
    sent_s: float = 0.0
    """When the worker has sent it, by a clock of its own; the answer repeats it."""
    wall_s: float = 0.0
    """Of an answer, the coordinator's time of day, in seconds since 1970."""
    clock_offset_s: float = 0.0
    """Of a worker, by how much its clock is ahead of the coordinator's (``clock_offset.py``)."""
    clock_error_s: float = -1.0
    """By how much that may be wrong; below 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The worker was told to end, and does so once its jobs have left it: it waits for ``Stop``."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Counters of running subtasks: rows of vertex, index and those of its IOMetrics."""

    job_id: str
    attempt: int
    rows: list[Any]


@dataclass(frozen=True, slots=True)
class Printed:
    """Lines that functions of a job have printed, whose submitter wants them."""

    job_id: str
    lines: list[Any]


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """Report what can be seen now, with up to so many channels."""

    request: int
    channels_max: int


@dataclass(frozen=True, slots=True)
class StatisticsReport:
    """What can be seen of the worker (``metrics/worker_statistics.py``): in answer to a request, or
    unasked, which is request 0."""

    request: int
    statistics: bytes


@dataclass(frozen=True, slots=True)
class SampleStacks:
    """Look so often at what the subtasks of a vertex do, with so long in between; the answer is
    ``StackSamples.pack`` (``metrics/stack_samples.py``)."""

    request: int
    job_id: str
    attempt: int
    vertex: int
    looks: int
    delay_ms: float


@dataclass(frozen=True, slots=True)
class DumpThreads:
    """Tell where all threads and tasks are; the answer is a list of ``ThreadInfo``."""

    request: int


@dataclass(frozen=True, slots=True)
class ListOutput:
    """Tell what is kept of what was logged and printed; the answer is a list of ``KeptFile``."""

    request: int


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Tell the text of that name, which is the answer; None, in msgpack, if there is none."""

    request: int
    name: str


@dataclass(frozen=True, slots=True)
class Deploy:
    """Fetch the deployment of this attempt and open its subtasks."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Opened:
    """Every subtask of the attempt on this worker is open: its partitions and gates exist."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Run:
    """Every worker has opened its subtasks: run them."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A subtask failed, or (vertex and index -1) the attempt could not be opened on this worker."""

    job_id: str
    attempt: int
    vertex: int
    index: int
    cause: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop and release whatever is left of the attempt on this worker, or these subtasks of it,
    rows of vertex and index; the others go on."""

    job_id: str
    attempt: int
    subtasks: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Released:
    """Last word of a worker on an attempt: nothing of it runs or holds memory here any more. With
    rows of vertex and index it is its last word on these subtasks, which were to be cancelled."""

    job_id: str
    attempt: int
    subtasks: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Settle:
    """Commit what the two-phase sinks of the attempt have prepared, or abort it: nothing of the
    attempt runs any more."""

    job_id: str
    attempt: int
    commit: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """What ``Settle`` asked for is done, or has failed with this cause; an empty one is none."""

    job_id: str
    attempt: int
    cause: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Have these subtasks, rows of vertex and index, begin a checkpoint."""

    job_id: str
    attempt: int
    checkpoint_id: int
    timestamp_ms: int
    kind: int
    """A ``CheckpointKind``."""
    subtasks: list[Any]
    directory: str = ""
    """Where a savepoint is written, a directory or URL; every worker of the attempt hears of it.
    Empty for the place of the job's own checkpoints."""


@dataclass(frozen=True, slots=True)
class AcknowledgeCheckpoint:
    """A subtask has written its state: where, and the numbers of its ``SubtaskReport``."""

    job_id: str
    attempt: int
    checkpoint_id: int
    vertex: int
    index: int
    handle: bytes
    metrics: list[Any]


@dataclass(frozen=True, slots=True)
class DeclineCheckpoint:
    """A subtask could not take part in a checkpoint, for this ``CheckpointFailureReason``."""

    job_id: str
    attempt: int
    checkpoint_id: int
    vertex: int
    index: int
    reason: str
    explanation: str


@dataclass(frozen=True, slots=True)
class AwaitCheckpoint:
    """A subtask has come to its end, and waits for a checkpoint behind ``taken``."""

    job_id: str
    attempt: int
    vertex: int
    index: int
    taken: int


@dataclass(frozen=True, slots=True)
class CompleteCheckpoint:
    """A checkpoint is complete: its metadata is written."""

    job_id: str
    attempt: int
    checkpoint_id: int
    commits: bool = True
    """Whether sinks commit with it, and functions hear of it: not with a savepoint beside which the
    job goes on, as what comes after a failure continues from a checkpoint before it."""


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """A checkpoint will not come about: write nothing more of it."""

    job_id: str
    attempt: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The cluster ends, or the worker has drained: it cancels what it runs and exits."""

    reason: str


Message: TypeAlias = (
    Register
    | Registered
    | Refused
    | Heartbeat
    | Drain
    | Progress
    | Printed
    | StatisticsRequest
    | StatisticsReport
    | SampleStacks
    | DumpThreads
    | ListOutput
    | ReadOutput
    | Deploy
    | Opened
    | Run
    | Failed
    | Cancel
    | Released
    | Settle
    | Settled
    | TriggerCheckpoint
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | AwaitCheckpoint
    | CompleteCheckpoint
    | AbortCheckpoint
    | Stop
)

_MESSAGES: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Message)}


def _field_types(kind: type[Any]) -> tuple[type[Any], ...]:
    hints = get_type_hints(kind)
    return tuple(get_origin(hints[one.name]) or hints[one.name] for one in fields(kind))


_FIELD_TYPES = {name: _field_types(kind) for name, kind in _MESSAGES.items()}


def encode(message: Message) -> bytes:
    """The bytes of one websocket message."""
    name = type(message).__name__
    values = [getattr(message, one.name) for one in fields(message)]
    packed: bytes = msgpack.packb([name, *values], unicode_errors="backslashreplace")
    return packed


def decode(data: bytes) -> Message:
    """The message in one websocket message; RemoteProtocolError if it is none."""
    try:
        array = msgpack.unpackb(data)
    except Exception as error:
        raise RemoteProtocolError(f"control message is not msgpack: {error}") from error
    is_array = isinstance(array, list) and array and isinstance(array[0], str)
    if not is_array or array[0] not in _MESSAGES:
        raise RemoteProtocolError(f"control message of unknown kind: {_summary(array)}")
    name, *values = array
    types = _FIELD_TYPES[name]
    if len(values) != len(types) or not all(map(_matches, values, types)):
        raise RemoteProtocolError(f"control message {name} with wrong fields: {_summary(values)}")
    message: Message = _MESSAGES[name](*values)
    return message


def _matches(value: Any, expected: type[Any]) -> bool:
    if expected is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is expected


def _summary(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + " ..."
