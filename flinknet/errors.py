"""Every error flinknet raises on purpose, as one tree.

::

    FlinknetError
    ├── ConfigurationError                 refused before anything starts
    │   ├── InsufficientNetworkBuffersError
    │   └── InsufficientSlotsError
    ├── LocalError                         this side could not do it, or was misused
    │   ├── LocalProtocolError             a call that the object's state does not allow
    │   ├── ClosedResourceError            the resource was closed by this side
    │   ├── BufferPoolDestroyedError       a buffer was asked of a destroyed pool
    │   ├── SerializationError             a record cannot be written or read
    │   └── LocalTransportError            a socket of this side failed
    ├── RemoteError                        the peer failed, or broke the protocol
    │   ├── RemoteTransportError           the connection is gone
    │   │   └── UnreadMessagesError        the peer does not read what it is sent
    │   ├── RemoteProtocolError            the peer sent what the protocol forbids
    │   │   ├── BufferReorderingError
    │   │   └── CorruptedDataError         bytes were changed on their way
    │   ├── HandshakeError                 no agreement on who talks to whom
    │   ├── PartitionNotFoundError         the producer does not have the partition
    │   │   └── PartitionRequestTimeoutError
    │   ├── TooManyChannelsError           the peer's worker serves as many as it may
    │   ├── ProducerFailedError            the producing task failed first
    │   ├── ConsumerCancelledError         the consuming task went away
    │   └── ConsumerNotFoundError          the consuming task never came
    ├── CheckpointError                    a checkpoint was not made, or cannot be used
    │   ├── CheckpointStorageError         where checkpoints are kept did not take or give one
    │   │   └── CheckpointStorageFullError
    │   ├── CheckpointNotFoundError
    │   ├── CheckpointCorruptedError       a file of it is missing, damaged, foreign or newer
    │   ├── CheckpointFencedError          a later attempt of the job has taken over
    │   └── StateError                     state cannot be written, or is not of this job
    └── JobError                           a job did not end well
        ├── JobFailedError
        ├── JobFileError                   the job file failed before, between or after its jobs
        ├── WorkerLostError
        └── JobCancelledError

Local and remote are kept apart because the remedy differs: a local error is fixed here, a remote
one at the peer. Errors that travel have a wire code (``ErrorCode``); only the code and at most
``WireLimits.error_text_bytes_max`` of text cross the network, never an object. A programming error
inside flinknet is an ``AssertionError`` and is never caught.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from flinknet.texts import text_of

__all__ = [
    "BufferPoolDestroyedError",
    "BufferReorderingError",
    "CheckpointCorruptedError",
    "CheckpointError",
    "CheckpointFencedError",
    "CheckpointNotFoundError",
    "CheckpointStorageError",
    "CheckpointStorageFullError",
    "ClosedResourceError",
    "ConfigurationError",
    "ConsumerCancelledError",
    "ConsumerNotFoundError",
    "CorruptedDataError",
    "ErrorCode",
    "FlinknetError",
    "HandshakeError",
    "InsufficientNetworkBuffersError",
    "InsufficientSlotsError",
    "JobCancelledError",
    "JobError",
    "JobFailedError",
    "JobFileError",
    "KeptError",
    "LocalError",
    "LocalProtocolError",
    "LocalTransportError",
    "PartitionNotFoundError",
    "PartitionRequestTimeoutError",
    "ProducerFailedError",
    "RemoteError",
    "RemoteProtocolError",
    "RemoteTransportError",
    "SerializationError",
    "StateError",
    "TooManyChannelsError",
    "UnreadMessagesError",
    "WorkerLostError",
    "remote_error",
]


class ErrorCode(IntEnum):
    """What an ``ErrorResponse`` or a refused handshake says went wrong."""

    PROTOCOL = 1
    VERSION = 2
    IDENTITY = 3
    PARTITION_NOT_FOUND = 4
    PARTITION_REQUEST_TIMEOUT = 5
    PRODUCER_FAILED = 6
    CONSUMER_CANCELLED = 7
    INTERNAL = 8
    CORRUPTED = 9
    TOO_MANY_CHANNELS = 10


class FlinknetError(Exception):
    """Base of every error that flinknet raises on purpose."""

    channel: str | None = None
    """The input channel that ended with this error, of all that one cause may end."""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.channel}: {text}" if self.channel is not None else text

    def of_channel(self, channel: str | None) -> Self:
        """Return this error, of the same type and cause, as an input channel's, or as nobody's.

        Itself if there is nothing to change: an error that names its channel does not do so twice.
        """
        if channel == self.channel or (channel is not None and channel in str(self)):
            return self
        error = type(self)(*self.args) if channel is None else type(self)(str(self))
        error.__dict__.update(self.__dict__)
        error.__cause__ = self.__cause__
        error.channel = channel
        return error.with_traceback(self.__traceback__)


class ConfigurationError(FlinknetError):
    """A setting, option or job shape that cannot work; nothing has been started."""


class InsufficientNetworkBuffersError(ConfigurationError):
    """The buffer pools that are asked for do not fit the network memory."""


class InsufficientSlotsError(ConfigurationError):
    """The job needs more slots than the cluster has."""


class LocalError(FlinknetError):
    """This side could not do what was asked, or was asked for the impossible."""


class LocalProtocolError(LocalError):
    """A call that the state of the object does not allow."""


class ClosedResourceError(LocalError):
    """The resource has been closed by this side."""


class BufferPoolDestroyedError(LocalError):
    """A buffer was requested from a pool that has been destroyed."""


class SerializationError(LocalError):
    """A record cannot be serialised or deserialised; nothing of it was written."""


class LocalTransportError(LocalError):
    """A socket operation of this side failed."""


class RemoteError(FlinknetError):
    """The peer failed, or broke the protocol."""

    code: ErrorCode = ErrorCode.INTERNAL


class RemoteTransportError(RemoteError):
    """The connection to a peer was lost; the peer itself may be lost too."""


class RemoteProtocolError(RemoteError):
    """The peer sent something that the protocol forbids; its connection is closed.

    ``kind`` is a word for metrics: what was forbidden about it.
    """

    code = ErrorCode.PROTOCOL
    kind: str = "message"
    """A message of a wrong form, of a wrong size, or at a wrong time."""

    def __init__(self, *args: object, kind: str | None = None) -> None:
        super().__init__(*args)
        if kind is not None:
            self.kind = kind


class BufferReorderingError(RemoteProtocolError):
    """A channel received a buffer out of sequence (Flink's BufferReorderingException)."""

    kind = "sequence"


class CorruptedDataError(RemoteProtocolError):
    """The checksum of a message was wrong: bytes were changed on their way, and the connection is
    closed before anything was done with them."""

    code = ErrorCode.CORRUPTED
    kind = "checksum"


class UnreadMessagesError(RemoteTransportError):
    """The peer does not read what it has asked for; its connection is closed."""


class HandshakeError(RemoteError):
    """The two sides do not agree on version, identity, job or attempt."""

    code = ErrorCode.IDENTITY
    may_pass: bool = False
    """Whether the peer may answer another try otherwise: the two are connected already, or about to
    be, the peer has too many connections, or it has not answered."""
    unanswered: bool = False
    """Whether the peer's machine has taken the connection, and its process has not answered in
    time: it is stopped, or held up."""


class PartitionNotFoundError(RemoteError):
    """The producer does not have the partition, or has released it."""

    code = ErrorCode.PARTITION_NOT_FOUND


class PartitionRequestTimeoutError(PartitionNotFoundError):
    """The partition was not registered within the time a request waits for it."""

    code = ErrorCode.PARTITION_REQUEST_TIMEOUT


class TooManyChannelsError(RemoteError):
    """The producer's worker serves as many channels as it may."""

    code = ErrorCode.TOO_MANY_CHANNELS


class ProducerFailedError(RemoteError):
    """The producing task failed; the text is the first cause."""

    code = ErrorCode.PRODUCER_FAILED


class ConsumerCancelledError(RemoteError):
    """Every consumer of the partition has gone away, so nobody will read what is written."""

    code = ErrorCode.CONSUMER_CANCELLED


class ConsumerNotFoundError(RemoteError):
    """Nobody came to read what the writer waits to write; its consumers get ProducerFailedError."""


class CheckpointError(FlinknetError):
    """A checkpoint was not made, or cannot be used; the job may go on without it."""


class CheckpointStorageError(CheckpointError):
    """Where checkpoints are kept did not take or give what was asked."""


class CheckpointStorageFullError(CheckpointStorageError):
    """There is no room for it: a full disk, a quota, a limit on files. Whoever makes room need not
    restart anything."""


class CheckpointNotFoundError(CheckpointError):
    """There is no such checkpoint, or none at all."""


class CheckpointCorruptedError(CheckpointError):
    """A file of a checkpoint is missing, torn, damaged, foreign or of a newer version; the message
    names it."""


class CheckpointFencedError(CheckpointError):
    """A later attempt of the job has taken over its checkpoints; this one completes none."""


class CoordinatorSupersededError(FlinknetError):
    """Another coordinator has taken this one's state directory over; this one must not go on."""


class StateError(CheckpointError):
    """State cannot be written to a checkpoint, or what a checkpoint has is not of this job."""


class JobError(FlinknetError):
    """A job did not end well."""


class JobFailedError(JobError):
    """A subtask failed; the message is the first cause, with worker, subtask and origin."""


class JobFileError(JobError):
    """The program that makes jobs could not be loaded, or raised an error of its own."""


class WorkerLostError(JobError):
    """A worker process ended or stopped answering while it had work."""


class WorkerDrainedError(WorkerLostError):
    """A worker was told to end, and its jobs go on without it."""


class JobCancelledError(JobError):
    """The job was cancelled on request."""


@dataclass(frozen=True, slots=True)
class KeptError:
    """What is kept of an error that may be asked for later: its type and its text.

    The error itself would keep, with its traceback, the frames that it came through and all that
    they hold: a job's graph, its state, its records.
    """

    kind: type[RemoteError]
    text: str

    @classmethod
    def of(cls, error: RemoteError) -> KeptError:
        """Keep the type and the text."""
        return cls(type(error), text_of(error))

    def error(self) -> RemoteError:
        """Make the error anew, for one who asks."""
        return self.kind(self.text)


_BY_CODE: dict[int, type[RemoteError]] = {
    ErrorCode.PARTITION_NOT_FOUND: PartitionNotFoundError,
    ErrorCode.PARTITION_REQUEST_TIMEOUT: PartitionRequestTimeoutError,
    ErrorCode.PRODUCER_FAILED: ProducerFailedError,
    ErrorCode.CONSUMER_CANCELLED: ConsumerCancelledError,
    ErrorCode.TOO_MANY_CHANNELS: TooManyChannelsError,
}
"""The codes that end one channel. The others are of connections and handshakes."""


def remote_error(code: int, text: str) -> RemoteError:
    """Make the error that a peer reported of one channel as ``code`` and ``text``; codes that are
    unknown, or mean no channel, are RemoteError."""
    return _BY_CODE.get(code, RemoteError)(text)
