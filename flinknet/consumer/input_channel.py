"""The input channel: one consumer's end of one subpartition, whatever carries the data.

Life cycle: a channel is made by its gate, *requested* once, delivers buffers until the end of the
partition or an error, and is *released* once. ``poll`` is only called by the gate. An error ends
the channel: it is raised by the gate's next poll, ahead of whatever else is queued, because a task
that has failed must not go on processing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

from flinknet.buffer.buffer import Buffer

__all__ = ["ChannelListener", "InputChannel", "InputChannelStatistics", "PartitionLocation"]


class PartitionLocation(NamedTuple):
    """Where a subpartition is produced: the worker's data address, the partition's name, the
    index."""

    address: str
    partition_id: str
    subpartition: int

    def __str__(self) -> str:
        return f"{self.partition_id}[{self.subpartition}] at {self.address}"


class InputChannelStatistics(NamedTuple):
    """Present state of one channel; buffers and bytes count from its start."""

    channel: int
    kind: str
    location: PartitionLocation
    queued_buffers: int
    buffers_in: int
    bytes_in: int
    backlog: int
    unannounced_credit: int
    exclusive_free: int
    floating_free: int
    required: int
    released: bool


class ChannelListener(Protocol):
    """What a channel tells its gate."""

    def notify_channel_non_empty(self, channel: InputChannel, *, priority: bool = False) -> None:
        """The channel has something to poll, or has failed."""


class InputChannel(ABC):
    """Base of local and remote channels."""

    def __init__(self, listener: ChannelListener, index: int, location: PartitionLocation) -> None:
        self.index = index
        self.location = location
        self.queued_in_gate = False
        self.finished = False
        self.released = False
        self.error: BaseException | None = None
        self.buffers_in = 0
        self.bytes_in = 0
        self._listener = listener

    @abstractmethod
    def poll(self) -> tuple[Buffer, bool] | None:
        """Take the next buffer and whether there is more. Raises the channel's error."""

    @abstractmethod
    def resume_consumption(self) -> None:
        """Let the producer go on after a buffer that blocked it."""

    @abstractmethod
    def acknowledge_all_data_processed(self) -> None:
        """Tell the producer that all records before the end of data have been processed."""

    @abstractmethod
    def release(self) -> None:
        """Stop, give every buffer back, and tell the producer; idempotent."""

    @abstractmethod
    def statistics(self) -> InputChannelStatistics:
        """Return the present counts."""

    @abstractmethod
    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""

    def fail(self, cause: BaseException) -> None:
        """End the channel with an error; the first one counts."""
        if self.error is None and not self.released and not self.finished:
            self.error = cause
            self._listener.notify_channel_non_empty(self)

    def _count(self, buffer: Buffer) -> None:
        self.buffers_in += 1
        self.bytes_in += buffer.size
