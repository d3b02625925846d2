"""The input channel: the consumer's end of one subpartition, local or remote.

Life cycle of a gate's channel::

    NEW       ATTACH -> ATTACHED, FAIL -> FAILED, RELEASE -> RELEASED
    ATTACHED  FAIL -> FAILED, RELEASE -> RELEASED
    FAILED    RELEASE -> RELEASED
    RELEASED  RELEASE -> RELEASED

Only the gate calls ``poll``. An error ends the channel. The gate's next poll raises it, ahead of
all queued data, because a failed task must not go on processing.

The end of a channel follows the table in ``buffer/channel_end.py``. ``end`` is the task's progress:
the data it has taken and acknowledged. The end of the partition does not come before the task
acknowledges.

A *priority* event overtakes the channel's queue, and its channel overtakes others in the gate.
Flink numbers its priority notifications, because one may arrive after its event was polled. Here
the notification is part of the call that queues the event, so it is never stale.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import NamedTuple

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.channel_end import ChannelEnd, ChannelStep
from flinknet.consumer.channel_state_persister import ChannelStatePersister, Persist
from flinknet.errors import FlinknetError, LocalProtocolError
from flinknet.texts import text_of
from flinknet.transitions import Transitions
from flinknet.wire.events import decode_end_of_data

__all__ = [
    "TRANSITIONS",
    "ChannelEvent",
    "ChannelListener",
    "ChannelState",
    "InputChannel",
    "InputChannelStatistics",
    "PartitionLocation",
    "UnknownLocation",
]

log = logging.getLogger("flinknet.consumer")


class ChannelState(Enum):
    """Whether a channel has a producer to read."""

    NEW = "its data has not been requested"
    ATTACHED = "it has its producer's view, or a connection over which it has requested one"
    FAILED = "it has an error, which its gate raises"
    RELEASED = "its gate has released it"


class ChannelEvent(Enum):
    """Event in the life of a channel."""

    ATTACH = "it gets a view or a connection"
    FAIL = "its data cannot arrive completely"
    RELEASE = "its gate releases it"


_S, _E = ChannelState, ChannelEvent

TRANSITIONS: Transitions[ChannelState, ChannelEvent] = Transitions(
    {
        (_S.NEW, _E.ATTACH): _S.ATTACHED,
        (_S.NEW, _E.FAIL): _S.FAILED,
        (_S.NEW, _E.RELEASE): _S.RELEASED,
        (_S.ATTACHED, _E.FAIL): _S.FAILED,
        (_S.ATTACHED, _E.RELEASE): _S.RELEASED,
        (_S.FAILED, _E.RELEASE): _S.RELEASED,
        (_S.RELEASED, _E.RELEASE): _S.RELEASED,
    }
)

_LIVE = frozenset((_S.NEW, _S.ATTACHED))


class PartitionLocation(NamedTuple):
    """Location of a subpartition: the worker's data address, the partition's name and the index."""

    address: str
    partition_id: str
    subpartition: int

    def __str__(self) -> str:
        return f"{self.partition_id}[{self.subpartition}] at {self.address}"


class UnknownLocation(NamedTuple):
    """A subpartition of a producer without a location; the name may change with the location."""

    partition_id: str
    subpartition: int

    def __str__(self) -> str:
        return f"{self.partition_id}[{self.subpartition}], not yet located"


class InputChannelStatistics(NamedTuple):
    """Current state of one channel; buffers and bytes in are totals since its start.

    Values that do not apply to a kind of channel are 0.
    """

    channel: int
    kind: str
    location: PartitionLocation | UnknownLocation
    released: bool
    queued_buffers: int = 0
    queued_bytes: int = 0
    buffers_in: int = 0
    bytes_in: int = 0
    backlog: int = 0
    unannounced_credit: int = 0
    held_credit: int = 0
    """Part of the unannounced credit that the channel withholds while its gate is busy."""
    exclusive_total: int = 0
    exclusive_free: int = 0
    floating_free: int = 0
    required: int = 0
    is_short: bool = False
    """Whether the reader slows the producer down: the producer has more to send than its credit
    allows, while the reader has data to read or the channel holds credit."""


class ChannelListener:
    """The gate of a channel; base class of gates."""

    name: str

    def is_busy(self) -> bool:
        """Whether the reader has enough to do for the time it takes to get more."""
        raise NotImplementedError

    def notify_channel_non_empty(self, channel: InputChannel, priority: bool = False) -> None:
        """Handle that a channel has a buffer to poll, or has failed.

        With ``priority``, a priority event is first.
        """
        raise NotImplementedError

    def hold_credit(self, channel: InputChannel) -> None:
        """Hold the channel's credit.

        The gate announces it with other channels' credit when one of them is due, or when the gate
        is no longer busy.
        """
        raise NotImplementedError

    def announce_held_credit(self) -> None:
        """Have every channel with held credit announce it, in the same write."""
        raise NotImplementedError


class InputChannel:
    """Base of local, remote and unknown channels.

    ``drained`` tells how the data has ended: True if the producer had read all of its input, False
    if it was stopped (see ``wire/events.py``).
    """

    def __init__(
        self, listener: ChannelListener, index: int, location: PartitionLocation | UnknownLocation
    ) -> None:
        self.index = index
        self.location = location
        self.drained: bool | None = None
        self.queued_in_gate = False
        self.end = ChannelEnd.DATA
        self.state = ChannelState.NEW
        self.error: BaseException | None = None
        self.buffers_in = 0
        self.bytes_in = 0
        self._listener = listener
        self._persister = ChannelStatePersister()

    def __str__(self) -> str:
        return f"channel {self.index} ({self.location}) of gate {self._listener.name}"

    def poll(self) -> tuple[Buffer, DataType] | None:
        """Take the next buffer; return it with the type of the one behind it, or NONE.

        Raises the channel's error.
        """
        raise NotImplementedError

    @property
    def buffers_in_use(self) -> int:
        """Data buffers on their way to the consumer: queued here, or waiting at the producer."""
        raise NotImplementedError

    def announce_buffer_size(self, size_bytes: int) -> None:
        """Limit the size of the producer's new buffers; not allowed after release.

        A producer that is not attached yet is not told.
        """
        raise NotImplementedError

    def resume_consumption(self) -> None:
        """Let the producer continue after a blocking buffer.

        Raises:
            LocalProtocolError: After release.
        """
        raise NotImplementedError

    def acknowledge_all_data_processed(self) -> None:
        """Tell the producer that all records before the end of data have been processed.

        Raises:
            LocalProtocolError: Before the end of data is polled, on the second call, and after
                release.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Stop, return all buffers, and tell the producer; idempotent."""
        raise NotImplementedError

    def statistics(self) -> InputChannelStatistics:
        """Return the queue's length, the totals so far, and the credit."""
        raise NotImplementedError

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        raise NotImplementedError

    def announce_credit(self) -> None:
        """Announce held credit; only a remote channel has any."""

    def settle_held_credit(self) -> None:
        """Check whether held credit is due after a poll."""

    @property
    def released(self) -> bool:
        """Whether the gate has released the channel."""
        return self.state is ChannelState.RELEASED

    def start_persisting(self, checkpoint_id: int, persist: Persist) -> bool:
        """Start storing data for a checkpoint that goes unaligned.

        ``persist`` is called with the data in front of the channel's own barrier: immediately with
        buffers that have arrived and are not polled, and later with each buffer that arrives before
        the barrier. The buffers are polled all the same. In a local channel, data does not arrive
        before it is polled; the producer passes on the data that an event overtakes.

        Returns False, without a call, if the channel cannot take part: a later checkpoint has
        started, its barrier has come, or the producer has no location yet.
        """
        return self._persister.start(checkpoint_id, persist)

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Stop storing data for a complete or aborted checkpoint (Flink's checkpointStopped).

        Does nothing if a later checkpoint has started.
        """
        self._persister.stop(checkpoint_id)

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """Turn a checkpoint's announced barrier into an unaligned one after its timeout.

        It overtakes all queued data and does not block. Returns whether the barrier was still
        queued. A barrier that was polled as aligned blocks as usual.
        """
        return False

    @property
    def finished(self) -> bool:
        """Whether the end of the partition has been polled."""
        return self.end is ChannelEnd.END_OF_PARTITION

    def fail(self, cause: BaseException) -> None:
        """End the channel with an error, which then names the channel; the first error counts."""
        if self.state in _LIVE and not self.finished:
            if isinstance(cause, FlinknetError):
                cause = cause.of_channel(str(self))
            self.error = cause
            self._become(_E.FAIL)
            log.debug("%s failed: %s", self, text_of(cause))
            self._listener.notify_channel_non_empty(self)

    def _become(self, event: ChannelEvent) -> None:
        before, self.state = self.state, TRANSITIONS[self.state, event]
        log.debug("%s: %s -> %s", self, before.name, self.state.name)

    def _count(self, buffer: Buffer) -> None:
        self.buffers_in += 1
        self.bytes_in += buffer.size

    def _take_step(self, buffer: Buffer) -> None:
        """Check and record a buffer that the task takes."""
        data_type = buffer.data_type
        before = self.end
        self.end = self.end.after(ChannelStep.of(data_type), LocalProtocolError, self)
        if self.end is not before:
            log.debug("%s: %s", self, self.end.value)
        if data_type is DataType.END_OF_DATA:
            self.drained = decode_end_of_data(bytes(buffer.view()))

    def _take_acknowledgement(self) -> None:
        self._check_not_released("acknowledged")
        self.end = self.end.after(ChannelStep.ACKNOWLEDGEMENT, LocalProtocolError, self)

    def _check_not_released(self, what: str) -> None:
        if self.released:
            raise LocalProtocolError(f"{self} was {what} after its release")
