"""The input channel: one consumer's end of one subpartition, whatever carries the data.

Life cycle of what a gate has made::

    NEW       ATTACH -> ATTACHED, FAIL -> FAILED, RELEASE -> RELEASED
    ATTACHED  FAIL -> FAILED, RELEASE -> RELEASED
    FAILED    RELEASE -> RELEASED
    RELEASED  RELEASE -> RELEASED

``poll`` is only called by the gate. An error ends the channel: it is raised by the gate's next
poll, ahead of whatever else is queued, because a task that has failed must not go on processing.

How the data of a channel ends follows the table of ``buffer/channel_end.py``: ``end`` is what the
task has taken, and acknowledged, of it. Until the task acknowledges, the end of the partition does
not come.

A *priority* event overtakes what the channel has queued, and its channel overtakes others in the
gate. Flink numbers priority notices, because one may come too late, when its event has been polled.
Here a notice is part of the call that queues the event, so none is ever stale.
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

    NEW = "nobody has been asked for its data"
    ATTACHED = "it has its producer's view, or the connection over which it has asked for one"
    FAILED = "it has an error, which its gate raises"
    RELEASED = "nobody reads it any more"


class ChannelEvent(Enum):
    """What happens to a channel."""

    ATTACH = "it gets a view or a connection"
    FAIL = "its data cannot come, or not all of it"
    RELEASE = "its gate lets go of it"


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
    """Where a subpartition is produced: the worker's data address, the partition's name, the
    index."""

    address: str
    partition_id: str
    subpartition: int

    def __str__(self) -> str:
        return f"{self.partition_id}[{self.subpartition}] at {self.address}"


class UnknownLocation(NamedTuple):
    """A subpartition whose producer has no place yet; the name may change when it gets one."""

    partition_id: str
    subpartition: int

    def __str__(self) -> str:
        return f"{self.partition_id}[{self.subpartition}], not yet located"


class InputChannelStatistics(NamedTuple):
    """Present state of one channel; buffers and bytes count from its start. What a kind of channel
    does not have is 0."""

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
    """Of the unannounced, what the channel keeps from its producer while its gate is busy."""
    exclusive_total: int = 0
    exclusive_free: int = 0
    floating_free: int = 0
    required: int = 0
    is_short: bool = False
    """The producer has more to send than it is told that it may, and the reader is why: it has data
    to read, or holds credit back."""


class ChannelListener:
    """What a channel tells its gate, whose base this is."""

    name: str

    def is_busy(self) -> bool:
        """Whether the reader has enough to do for as long as it takes to get more."""
        raise NotImplementedError

    def notify_channel_non_empty(self, channel: InputChannel, priority: bool = False) -> None:
        """The channel has something to poll, a priority event first if ``priority``, or has
        failed."""
        raise NotImplementedError

    def hold_credit(self, channel: InputChannel) -> None:
        """Have the channel announce its credit with that of others: when one cannot wait, or when
        this is not busy any more."""
        raise NotImplementedError

    def announce_held_credit(self) -> None:
        """Have every channel that holds credit back announce it, in the same write."""
        raise NotImplementedError


class InputChannel:
    """Base of local, remote and unknown channels.

    ``drained`` says how the data ended, once it has: because the producer had read all of its
    input, or because it was stopped (see ``wire/events.py``).
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
        """Take the next buffer, and see the type of the one behind it, NONE for nothing. Raises the
        channel's error."""
        raise NotImplementedError

    @property
    def buffers_in_use(self) -> int:
        """Data buffers on their way to the consumer: queued here, and waiting at the producer."""
        raise NotImplementedError

    def announce_buffer_size(self, size_bytes: int) -> None:
        """Have the producer fill new buffers only up to a size; not after release. A producer that
        is not there yet does not learn of it."""
        raise NotImplementedError

    def resume_consumption(self) -> None:
        """Let the producer go on after a buffer that blocked it. Raises LocalProtocolError after
        release."""
        raise NotImplementedError

    def acknowledge_all_data_processed(self) -> None:
        """Tell the producer that all records before the end of data have been processed.

        Raises LocalProtocolError before that has been polled, the second time, and after
        release."""
        raise NotImplementedError

    def release(self) -> None:
        """Stop, give every buffer back, and tell the producer; idempotent."""
        raise NotImplementedError

    def statistics(self) -> InputChannelStatistics:
        """Say what is queued, what has come so far, and what credit there is."""
        raise NotImplementedError

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        raise NotImplementedError

    def announce_credit(self) -> None:
        """Announce the credit that is held back; only a remote channel has any."""

    def settle_held_credit(self) -> None:
        """Look whether the credit that is held back is due by now: less is left to poll."""

    @property
    def released(self) -> bool:
        """Whether its gate has let go of it."""
        return self.state is ChannelState.RELEASED

    def start_persisting(self, checkpoint_id: int, persist: Persist) -> bool:
        """A checkpoint goes unaligned: call ``persist`` with the data in front of the channel's own
        barrier, at once with what has arrived and not been polled, and with each buffer that
        arrives before the barrier does. It is polled all the same.

        In a local channel data does not arrive before it is polled: what an event overtakes there
        its producer hands out. False, and nothing is called, if the channel cannot take part: a
        barrier of a later checkpoint has come, or its producer has no place yet."""
        return self._persister.start(checkpoint_id, persist)

    def stop_persisting(self, checkpoint_id: int) -> None:
        """A checkpoint is complete or aborted: nothing is stored for it any more (Flink's
        checkpointStopped). Nothing happens if another one has started since."""
        self._persister.stop(checkpoint_id)

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """The time of a checkpoint is over: let its barrier, which has been announced, overtake
        everything that is queued, as an unaligned one, which blocks nobody. Whether it was still
        queued; one that has been polled as an aligned barrier blocks as ever."""
        return False

    @property
    def finished(self) -> bool:
        """Whether the end of the partition has been polled."""
        return self.end is ChannelEnd.END_OF_PARTITION

    def fail(self, cause: BaseException) -> None:
        """End the channel with an error, which names it from now on; the first one counts."""
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
        """The task takes a buffer: judge it by what was before."""
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
