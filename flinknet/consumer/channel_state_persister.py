"""The channel state persister: selects an input channel's data for an unaligned checkpoint.

This is Flink's ChannelStatePersister. A checkpoint goes unaligned when the task's first barrier has
come. On each other channel, it stores the data in front of that channel's own barrier: data that
has arrived already, and data that arrives before the barrier. On a remote channel, data *arrives*
from the connection. On a local channel, it arrives when it is polled, because the queue belongs to
the producer. Each buffer in front of the barrier is thus passed on once, before or after it is
processed, and no buffer behind the barrier is.

A channel's barrier may come before the checkpoint starts here: aligned, with a timeout, or with
priority. The persister remembers the last one and its place. A barrier is ignored if it is older
than the stored checkpoint, or than a barrier that has come.

Life cycle::

    IDLE              AWAIT -> AWAITING_BARRIER, STOP -> IDLE
    AWAITING_BARRIER  AWAIT -> AWAITING_BARRIER, BARRIER -> IDLE, STOP -> IDLE
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.transitions import Transitions
from flinknet.wire.events import Event, barrier_in

__all__ = [
    "BARRIERS",
    "TRANSITIONS",
    "ChannelStatePersister",
    "Persist",
    "PersisterEvent",
    "PersisterState",
]

Persist: TypeAlias = Callable[[Buffer], None]
"""Takes a buffer of a channel, with a reference that it must recycle; buffers come in order."""

BARRIERS = frozenset(
    (
        DataType.PRIORITIZED_EVENT_BUFFER,
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
    )
)
"""Types of events that may be a barrier that ends the stored data of its channel."""


class PersisterState(Enum):
    """Whether arriving data is stored."""

    IDLE = "no checkpoint stores arriving buffers"
    AWAITING_BARRIER = "arriving buffers are stored until the barrier arrives"


class PersisterEvent(Enum):
    """Event in the life of a persister."""

    AWAIT = "a checkpoint starts whose barrier has not arrived"
    BARRIER = "its barrier arrives, or one that comes after it"
    STOP = "the checkpoint is complete, or aborted"


_S, _E = PersisterState, PersisterEvent

TRANSITIONS: Transitions[PersisterState, PersisterEvent] = Transitions(
    {
        (_S.IDLE, _E.AWAIT): _S.AWAITING_BARRIER,
        (_S.IDLE, _E.STOP): _S.IDLE,
        (_S.AWAITING_BARRIER, _E.AWAIT): _S.AWAITING_BARRIER,
        (_S.AWAITING_BARRIER, _E.BARRIER): _S.IDLE,
        (_S.AWAITING_BARRIER, _E.STOP): _S.IDLE,
    }
)


class ChannelStatePersister:
    """Barrier state of one channel.

    ``persist`` takes each arriving buffer; it is None while no checkpoint needs them.
    """

    __slots__ = ("_barrier", "_checkpoint_id", "persist", "state")

    def __init__(self) -> None:
        self.state = PersisterState.IDLE
        self.persist: Persist | None = None
        self._checkpoint_id = -1
        self._barrier: tuple[int, int] | None = None

    def on_event(self, event: Event, sequence: int) -> None:
        """Handle an arrived event that may be a barrier."""
        barrier = barrier_in(event)
        if barrier is None:
            return
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id < self._newest:
            return
        self._barrier = checkpoint_id, sequence
        if self.state is _S.AWAITING_BARRIER:
            self._become(_E.BARRIER)

    def start(self, checkpoint_id: int, persist: Persist) -> bool:
        """Start a checkpoint that goes unaligned.

        Returns False if it is older than an arrived barrier or a started checkpoint.
        """
        if checkpoint_id < self._newest:
            return False
        self._checkpoint_id = checkpoint_id
        if self._barrier is None or self._barrier[0] < checkpoint_id:
            self._become(_E.AWAIT, persist)
        else:
            # The barrier has arrived already, so later data is not stored.
            self._become(_E.STOP)
        return True

    def place_of_barrier(self) -> int | None:
        """Return the sequence number of the started checkpoint's barrier; None if not arrived."""
        barrier = self._barrier
        return barrier[1] if barrier is not None and barrier[0] == self._checkpoint_id else None

    def stop(self, checkpoint_id: int) -> None:
        """Stop a checkpoint; do nothing if a later one has started."""
        if checkpoint_id == self._checkpoint_id:
            self._become(_E.STOP)

    @property
    def _newest(self) -> int:
        barrier = self._barrier
        return max(self._checkpoint_id, -1 if barrier is None else barrier[0])

    def _become(self, event: PersisterEvent, persist: Persist | None = None) -> None:
        self.state = TRANSITIONS[self.state, event]
        self.persist = persist
