"""The control messages between coordinator and workers, and their encoding.

A worker keeps one websocket to the coordinator. Each binary websocket message is one msgpack array
``[name, field, ...]`` of a message below, with exactly its fields. Only small messages are sent
here, so that a heartbeat never queues behind a megabyte: job graphs, deployments and results are
HTTP bodies (``client_routes.py``, ``worker_routes.py``). The registry is closed: an unknown name, a
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

    * Finished and Answer are HTTP uploads: of a subtask's result, and of the answer to a request
      with a number; see worker_routes.py.
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
    """The first message of a worker: its identity, address and offer."""

    worker_id: str
    pid: int
    address: str
    slots: int
    metrics_address: str = ""
    """Address of its /metrics endpoint; empty if it has none."""
    text_hash: int = field(default_factory=text_hash)
    """Hash of a fixed text, which must be equal to the coordinator's (``hash_seed.py``)."""
    process: str = ""
    """A random name of this process, the same at each registration."""
    state_id: str = ""
    epoch: int = 0
    """Epoch, in the directory ``state_id``, of the last coordinator that it has served."""
    software: str = SOFTWARE
    """Its versions, which must be the coordinator's (``software.py``)."""


@dataclass(frozen=True, slots=True)
class Registered:
    """Confirmation of a registration; the worker must send heartbeats at this interval."""

    heartbeat_interval_ms: float
    progress_interval_ms: float
    return_ms: float = 0.0
    """Time for which to retry the registration after a loss of the connection; 0 for no retry."""
    state_id: str = ""
    """Id of the coordinator's state directory; empty if it has none."""
    epoch: int = 0
    """The coordinator's epoch in that directory; the coordinator with the highest one rules."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Refusal of a worker that cannot join the cluster; the connection closes."""

    reason: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign that the sender's event loop runs.

    The coordinator answers each heartbeat of a worker, so that both watch each other.
    """

    step_of: str = ""
    """From a worker: the subtask with the longest current call of user code."""
    step_s: float = 0.0
    """Seconds that this call has lasted."""
    sent_s: float = 0.0
    """Time of sending by a monotonic clock of the worker; the answer repeats it."""
    wall_s: float = 0.0
    """In an answer: the coordinator's time of day, in seconds since 1970."""
    clock_offset_s: float = 0.0
    """From a worker: seconds by which its clock is ahead of the coordinator's
    (``clock_offset.py``)."""
    clock_error_s: float = -1.0
    """Error bound of ``clock_offset_s``; below 0 if the offset is not known."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Notice of a worker that was told to end; it waits until its jobs have left, then for Stop."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Counters of running subtasks: rows of vertex, index and the counters of its IOMetrics."""

    job_id: str
    attempt: int
    rows: list[Any]


@dataclass(frozen=True, slots=True)
class Printed:
    """Lines that functions of a job have printed, if its submitter asks for them."""

    job_id: str
    lines: list[Any]


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """A request for the current statistics, with up to ``channels_max`` channels."""

    request: int
    channels_max: int


@dataclass(frozen=True, slots=True)
class StatisticsReport:
    """Statistics of the worker (``metrics/worker_statistics.py``).

    ``request`` is the number of the request that they answer, or 0 for a regular report.
    """

    request: int
    statistics: bytes


@dataclass(frozen=True, slots=True)
class SampleStacks:
    """An order to sample the stacks of a vertex's subtasks.

    ``looks`` samples are taken, ``delay_ms`` apart. The answer is ``StackSamples.pack``
    (``metrics/stack_samples.py``).
    """

    request: int
    job_id: str
    attempt: int
    vertex: int
    looks: int
    delay_ms: float


@dataclass(frozen=True, slots=True)
class DumpThreads:
    """A request for the stacks of all threads and tasks; the answer is a list of ``ThreadInfo``."""

    request: int


@dataclass(frozen=True, slots=True)
class ListOutput:
    """A request for the list of kept logs and output; the answer is a list of ``KeptFile``."""

    request: int


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """A request for a kept text by its name; the answer is the text, or None in msgpack."""

    request: int
    name: str


@dataclass(frozen=True, slots=True)
class Deploy:
    """An order to fetch the deployment of this attempt and open its subtasks."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Opened:
    """Notice that the subtasks of the attempt are open: their partitions and gates exist."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Run:
    """An order to run the subtasks, because every worker has opened its own."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Failure of a subtask or, with vertex and index -1, to open the attempt on this worker."""

    job_id: str
    attempt: int
    vertex: int
    index: int
    cause: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cancel:
    """An order to stop and release the attempt on this worker, or only some of its subtasks.

    ``subtasks`` are rows of vertex and index; the others go on. Empty for the whole attempt.
    """

    job_id: str
    attempt: int
    subtasks: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Released:
    """The last message of a worker about an attempt: nothing of it runs or holds memory there.

    With ``subtasks``, rows of vertex and index, it covers only these, which were to be cancelled.
    """

    job_id: str
    attempt: int
    subtasks: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Settle:
    """An order to commit or abort the prepared output of the attempt's two-phase sinks.

    It is sent when nothing of the attempt runs any more.
    """

    job_id: str
    attempt: int
    commit: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of ``Settle``: the cause of a failure, empty for success."""

    job_id: str
    attempt: int
    cause: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """An order to start a checkpoint at these subtasks, which are rows of vertex and index."""

    job_id: str
    attempt: int
    checkpoint_id: int
    timestamp_ms: int
    kind: int
    """A ``CheckpointKind``."""
    subtasks: list[Any]
    directory: str = ""
    """Directory or URL of a savepoint, which every worker of the attempt must know. Empty for the
    job's own checkpoint directory."""


@dataclass(frozen=True, slots=True)
class AcknowledgeCheckpoint:
    """Notice that a subtask has written its state: handle and values of its ``SubtaskReport``."""

    job_id: str
    attempt: int
    checkpoint_id: int
    vertex: int
    index: int
    handle: bytes
    metrics: list[Any]


@dataclass(frozen=True, slots=True)
class DeclineCheckpoint:
    """Notice that a subtask could not take part, for this ``CheckpointFailureReason``."""

    job_id: str
    attempt: int
    checkpoint_id: int
    vertex: int
    index: int
    reason: str
    explanation: str


@dataclass(frozen=True, slots=True)
class AwaitCheckpoint:
    """Notice that a finished subtask waits for a checkpoint after number ``taken``."""

    job_id: str
    attempt: int
    vertex: int
    index: int
    taken: int


@dataclass(frozen=True, slots=True)
class CompleteCheckpoint:
    """Notice that a checkpoint is complete: its metadata is written."""

    job_id: str
    attempt: int
    checkpoint_id: int
    commits: bool = True
    """Whether sinks commit and functions are notified. They are not for a savepoint after which the
    job goes on, because a restart after a failure continues from an earlier checkpoint."""


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Notice that a checkpoint has failed; nothing more of it may be written."""

    job_id: str
    attempt: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Stop:
    """An order to cancel everything and exit: the cluster ends, or the worker has drained."""

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
    """Return the bytes of one websocket message."""
    name = type(message).__name__
    values = [getattr(message, one.name) for one in fields(message)]
    packed: bytes = msgpack.packb([name, *values], unicode_errors="backslashreplace")
    return packed


def decode(data: bytes) -> Message:
    """Return the message in a websocket message; raise RemoteProtocolError if it is malformed."""
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
