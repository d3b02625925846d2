"""The tree of all errors that flinknet raises on purpose.

    FlinknetError
    ├── ConfigurationError                 refused before anything starts
    │   ├── InsufficientNetworkBuffersError
    │   └── InsufficientSlotsError
    ├── LocalError                         this side failed or was misused
    │   ├── LocalProtocolError             the object's state does not allow the call
    │   ├── ClosedResourceError            this side has closed the resource
    │   ├── BufferPoolDestroyedError       a buffer was requested from a destroyed pool
    │   ├── SerializationError             a record cannot be written or read
    │   └── LocalTransportError            a socket of this side failed
    ├── RemoteError                        the peer failed or broke the protocol
    │   ├── RemoteTransportError           the connection is lost
    │   │   └── UnreadMessagesError        the peer does not read its messages
    │   ├── RemoteProtocolError            the peer sent an illegal message
    │   │   ├── BufferReorderingError
    │   │   └── CorruptedDataError         bytes were changed in transit
    │   ├── HandshakeError                 version, identity, job or attempt do not match
    │   ├── PartitionNotFoundError         the producer does not have the partition
    │   │   └── PartitionRequestTimeoutError
    │   ├── TooManyChannelsError           the peer's worker has reached its limit
    │   ├── ProducerFailedError            the producing task failed first
    │   ├── ConsumerCancelledError         the consuming task went away
    │   └── ConsumerNotFoundError          the consuming task never came
    ├── CheckpointError                    a checkpoint failed or cannot be used
    │   ├── CheckpointStorageError         the storage of checkpoints failed
    │   │   └── CheckpointStorageFullError
    │   ├── CheckpointNotFoundError
    │   ├── CheckpointCorruptedError       a file is missing, damaged, foreign or newer
    │   ├── CheckpointFencedError          a later attempt of the job has taken over
    │   └── StateError                     state cannot be written, or is not of this job
    ├── CoordinatorSupersededError         another coordinator has taken over
    └── JobError                           a job did not end normally
        ├── JobFailedError
        ├── JobFileError                   the job file failed outside of its jobs
        ├── WorkerLostError
        │   └── WorkerDrainedError         the worker was told to end
        └── JobCancelledError

Local and remote errors are distinct because the remedy differs: a local error is fixed here, a
remote one at the peer. Errors that are sent to a peer have a wire code (``ErrorCode``). Only the
code and at most ``WireLimits.error_text_bytes_max`` of text cross the network, never an object. A
programming error inside flinknet is an ``AssertionError`` and is never caught.
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
    "CoordinatorSupersededError",
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
    "WorkerDrainedError",
    "WorkerLostError",
    "remote_error",
]


class ErrorCode(IntEnum):
    """Cause of an ``ErrorResponse`` or of a refused handshake."""

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
    """The input channel that this error has ended; one cause may end several channels."""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.channel}: {text}" if self.channel is not None else text

    def of_channel(self, channel: str | None) -> Self:
        """Return a copy of this error that names an input channel, or none.

        The copy has the same type and cause. Returns the error itself if there is nothing to
        change, so that an error never names its channel twice.
        """
        if channel == self.channel or (channel is not None and channel in str(self)):
            return self
        # str() keeps the name of the channel that this error has ended before, if any.
        error = type(self)(*self.args) if channel is None else type(self)(str(self))
        error.__dict__.update(self.__dict__)
        error.__cause__ = self.__cause__
        error.channel = channel
        return error.with_traceback(self.__traceback__)


class ConfigurationError(FlinknetError):
    """A setting, an option or the shape of a job is invalid; nothing has been started."""


class InsufficientNetworkBuffersError(ConfigurationError):
    """The requested buffer pools do not fit the network memory."""


class InsufficientSlotsError(ConfigurationError):
    """The job needs more slots than the cluster has."""


class LocalError(FlinknetError):
    """This side failed, or was misused."""


class LocalProtocolError(LocalError):
    """The state of the object does not allow the call."""


class ClosedResourceError(LocalError):
    """This side has closed the resource."""


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
    """The peer sent an illegal message; its connection is closed.

    ``kind`` names the violation in metrics.
    """

    code = ErrorCode.PROTOCOL
    kind: str = "message"
    """The default: a message with a wrong form, with a wrong size, or at a wrong time."""

    def __init__(self, *args: object, kind: str | None = None) -> None:
        super().__init__(*args)
        if kind is not None:
            self.kind = kind


class BufferReorderingError(RemoteProtocolError):
    """A channel received a buffer out of sequence (Flink's BufferReorderingException)."""

    kind = "sequence"


class CorruptedDataError(RemoteProtocolError):
    """The checksum of a message was wrong, because bytes were changed in transit.

    The connection is closed before the message is used.
    """

    code = ErrorCode.CORRUPTED
    kind = "checksum"


class UnreadMessagesError(RemoteTransportError):
    """The peer does not read the data it has requested; its connection is closed."""


class HandshakeError(RemoteError):
    """The two sides do not agree on version, identity, job or attempt."""

    code = ErrorCode.IDENTITY
    may_pass: bool = False
    """Whether another try may succeed: the two are connected already or about to be, the peer has
    too many connections, or it has not answered."""
    unanswered: bool = False
    """Whether the peer's machine has accepted the connection and its process has not answered in
    time, because it is stopped or blocked."""


class PartitionNotFoundError(RemoteError):
    """The producer does not have the partition, or has released it."""

    code = ErrorCode.PARTITION_NOT_FOUND


class PartitionRequestTimeoutError(PartitionNotFoundError):
    """The partition was not registered within the time a request waits for it."""

    code = ErrorCode.PARTITION_REQUEST_TIMEOUT


class TooManyChannelsError(RemoteError):
    """The producer's worker already serves its maximum number of channels."""

    code = ErrorCode.TOO_MANY_CHANNELS


class ProducerFailedError(RemoteError):
    """The producing task failed; the text is the first cause."""

    code = ErrorCode.PRODUCER_FAILED


class ConsumerCancelledError(RemoteError):
    """Every consumer of the partition has gone away, so its data will not be read."""

    code = ErrorCode.CONSUMER_CANCELLED


class ConsumerNotFoundError(RemoteError):
    """No consumer connected to a writer that waits for one.

    Its present and later consumers get ProducerFailedError.
    """


class CheckpointError(FlinknetError):
    """A checkpoint failed or cannot be used; the job may continue without it."""


class CheckpointStorageError(CheckpointError):
    """The storage of checkpoints failed."""


class CheckpointStorageFullError(CheckpointStorageError):
    """The storage has no room: a full disk, a quota, or a limit on files.

    Nothing needs a restart once there is room again.
    """


class CheckpointNotFoundError(CheckpointError):
    """The checkpoint does not exist, or there is none at all."""


class CheckpointCorruptedError(CheckpointError):
    """A file of a checkpoint is missing, torn, damaged, foreign or of a newer version.

    The message names the file.
    """


class CheckpointFencedError(CheckpointError):
    """A later attempt of the job has claimed its checkpoints, so this one cannot complete any."""


class CoordinatorSupersededError(FlinknetError):
    """Another coordinator has taken over the state directory, so this one must end."""


class StateError(CheckpointError):
    """State cannot be written to a checkpoint, or a checkpoint's state is not of this job."""


class JobError(FlinknetError):
    """A job did not end normally."""


class JobFailedError(JobError):
    """A subtask failed; the message is the first cause, with worker, subtask and origin."""


class JobFileError(JobError):
    """The program that submits jobs could not be loaded, or raised an error of its own."""


class WorkerLostError(JobError):
    """A worker process ended or stopped answering while it had work."""


class WorkerDrainedError(WorkerLostError):
    """A worker was told to end; its jobs continue without it."""


class JobCancelledError(JobError):
    """The job was cancelled on request."""


@dataclass(frozen=True, slots=True)
class KeptError:
    """Type and text of an error that may be needed later.

    The error itself would keep the frames of its traceback alive, with a job's graph, its state and
    its records.
    """

    kind: type[RemoteError]
    text: str

    @classmethod
    def of(cls, error: RemoteError) -> KeptError:
        """Return the type and the text of an error."""
        return cls(type(error), text_of(error))

    def error(self) -> RemoteError:
        """Return a new error of that type and text."""
        return self.kind(self.text)


_BY_CODE: dict[int, type[RemoteError]] = {
    ErrorCode.PARTITION_NOT_FOUND: PartitionNotFoundError,
    ErrorCode.PARTITION_REQUEST_TIMEOUT: PartitionRequestTimeoutError,
    ErrorCode.PRODUCER_FAILED: ProducerFailedError,
    ErrorCode.CONSUMER_CANCELLED: ConsumerCancelledError,
    ErrorCode.TOO_MANY_CHANNELS: TooManyChannelsError,
}
"""The codes that end one channel; the others concern connections and handshakes."""


def remote_error(code: int, text: str) -> RemoteError:
    """Return the error that a peer has reported for one channel.

    Unknown codes, and codes that do not concern a channel, become RemoteError.
    """
    return _BY_CODE.get(code, RemoteError)(text)
