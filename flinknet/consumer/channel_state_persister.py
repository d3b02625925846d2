"""The channel state persister: which data of one input channel an unaligned checkpoint stores.

Theory of operation (Flink's ChannelStatePersister). A checkpoint goes unaligned when the first
barrier of the task has come. On each other channel it stores the data in front of that channel's
own barrier: what has arrived already, and what arrives until the barrier does. *Arrives* is, for a
remote channel, from the connection; for a local one, whose queue is its producer's, being polled.
So each buffer in front of the barrier is handed out once, before or after it is processed, and none
behind it.

A channel's barrier may come before the checkpoint starts here, aligned, with a time-out or with
priority: the last one is remembered with its place. A barrier of an older checkpoint than the one
that is being stored, or than one that has come, changes nothing.

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
"""Takes a buffer of a channel, with a reference of its own to be recycled; buffers come in
order."""

BARRIERS = frozenset(
    (
        DataType.PRIORITIZED_EVENT_BUFFER,
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
    )
)
"""Types of events that may be a barrier with data of a checkpoint in front of it."""


class PersisterState(Enum):
    """Whether data that arrives is handed out."""

    IDLE = "no checkpoint stores what arrives"
    AWAITING_BARRIER = "what arrives is stored, until the barrier does"


class PersisterEvent(Enum):
    """What happens to a persister."""

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
    """What one channel knows of barriers. ``persist`` is what takes a buffer that arrives, None
    while nobody does."""

    __slots__ = ("_barrier", "_checkpoint_id", "persist", "state")

    def __init__(self) -> None:
        self.state = PersisterState.IDLE
        self.persist: Persist | None = None
        self._checkpoint_id = -1
        self._barrier: tuple[int, int] | None = None

    def on_event(self, event: Event, sequence: int) -> None:
        """An event has arrived that may be a barrier."""
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
        """A checkpoint goes unaligned; False if it is older than a barrier that has arrived, or
        than a checkpoint that was started."""
        if checkpoint_id < self._newest:
            return False
        self._checkpoint_id = checkpoint_id
        if self._barrier is None or self._barrier[0] < checkpoint_id:
            self._become(_E.AWAIT, persist)
        else:
            self._become(_E.STOP)
        return True

    def place_of_barrier(self) -> int | None:
        """Sequence number of the barrier of the checkpoint that was started, None if it has not
        arrived."""
        barrier = self._barrier
        return barrier[1] if barrier is not None and barrier[0] == self._checkpoint_id else None

    def stop(self, checkpoint_id: int) -> None:
        """A checkpoint is over; nothing happens if it was not the last one that started."""
        if checkpoint_id == self._checkpoint_id:
            self._become(_E.STOP)

    @property
    def _newest(self) -> int:
        barrier = self._barrier
        return max(self._checkpoint_id, -1 if barrier is None else barrier[0])

    def _become(self, event: PersisterEvent, persist: Persist | None = None) -> None:
        self.state = TRANSITIONS[self.state, event]
        self.persist = persist
