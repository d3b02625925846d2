"""The timeoutable barrier: one that waits in the output queues of a partition, for a time.

Theory of operation (Flink's alignmentTimeout). The barrier is broadcast like any event that blocks.
In each subpartition one of three things comes first: its reader *takes* it, and it has overtaken
nothing; the *time* is over, it becomes unaligned, moves in front of everything that is queued, and
the data that it overtakes there is state of the output; or the reader is *gone*. When that is
settled for every subpartition, the data overtaken is handed to whoever takes the checkpoint, once.
The clock is not here: the task says when the time is over, and so may the reader of a local
channel, whose queue this is.

A checkpoint that is aborted before, by its task, by a barrier that comes later, or because the
partition is released, hands out nothing (None instead); the barrier stays where it is, and blocks
its reader as any other.

Life cycle::

    QUEUED   SETTLE -> QUEUED, COMPLETE -> SETTLED, ABORT -> ABORTED
    SETTLED  ABORT -> SETTLED
    ABORTED  ABORT -> ABORTED

Invariant: the subpartitions that are settled have a list of buffers each, with a reference of this
object's until they are handed out or given back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

from flinknet.buffer.buffer import Buffer
from flinknet.partition.subpartition import ResultSubpartition
from flinknet.transitions import Transitions
from flinknet.wire.events import CheckpointBarrier

__all__ = [
    "TRANSITIONS",
    "BarrierEvent",
    "BarrierState",
    "OnOvertakenData",
    "OvertakenData",
    "TimeoutableBarrier",
]

OvertakenData: TypeAlias = list[list[Buffer]]
"""What a barrier has overtaken, by subpartition, in order; whoever gets it recycles the buffers."""

OnOvertakenData: TypeAlias = Callable[[OvertakenData | None], None]
"""Called exactly once, inside the call that settles it; None if that will never be known."""


class BarrierState(Enum):
    """Whether it is known what the barrier overtakes."""

    QUEUED = "it waits in one subpartition at least"
    SETTLED = "it was taken, or has overtaken, in every subpartition"
    ABORTED = "nobody wants to know any more"


class BarrierEvent(Enum):
    """What happens to the barrier."""

    SETTLE = "it was taken, has overtaken, or lost its reader in one subpartition of several"
    COMPLETE = "so it has in the last one"
    ABORT = "its checkpoint is over before, or its partition"


_S, _E = BarrierState, BarrierEvent

TRANSITIONS: Transitions[BarrierState, BarrierEvent] = Transitions(
    {
        (_S.QUEUED, _E.SETTLE): _S.QUEUED,
        (_S.QUEUED, _E.COMPLETE): _S.SETTLED,
        (_S.QUEUED, _E.ABORT): _S.ABORTED,
        (_S.SETTLED, _E.ABORT): _S.SETTLED,
        (_S.ABORTED, _E.ABORT): _S.ABORTED,
    }
)


class TimeoutableBarrier:
    """One barrier in all subpartitions of one partition."""

    def __init__(
        self,
        barrier: CheckpointBarrier,
        subpartitions: Sequence[ResultSubpartition],
        on_overtaken: OnOvertakenData,
    ) -> None:
        self.checkpoint_id = barrier.checkpoint_id
        self.state = BarrierState.QUEUED
        self.event = Buffer.event(*barrier.event(), references=len(subpartitions))
        self._unaligned_body = barrier.to_unaligned().event().body
        self._subpartitions = subpartitions
        self._on_overtaken = on_overtaken
        self._overtaken: dict[int, list[Buffer]] = {}

    def queue(self) -> None:
        """Append the barrier to every subpartition; one that nobody reads is settled at once."""
        for subpartition in self._subpartitions:
            subpartition.add_event(self.event)
        for subpartition in self._subpartitions:
            if subpartition.released:
                self.settle(subpartition.index, [])

    def is_waiting(self, index: int) -> bool:
        """Whether the barrier waits in a subpartition, of a checkpoint that is not aborted."""
        return self.state is BarrierState.QUEUED and index not in self._overtaken

    def settle(self, index: int, overtaken: list[Buffer]) -> None:
        """The barrier waits no more in a subpartition, where it has overtaken this; only while it
        ``is_waiting``."""
        assert self.is_waiting(index), "a barrier was settled that did not wait"
        self._overtaken[index] = overtaken
        complete = len(self._overtaken) == len(self._subpartitions)
        self.state = TRANSITIONS[self.state, _E.COMPLETE if complete else _E.SETTLE]
        if complete:
            by_subpartition, self._overtaken = self._overtaken, {}
            self._on_overtaken([by_subpartition[part.index] for part in self._subpartitions])

    def time_out(self, index: int) -> bool:
        """Let the barrier overtake everything in a subpartition; whether it waited there."""
        if not self.is_waiting(index):
            return False
        subpartition = self._subpartitions[index]
        self.settle(index, subpartition.prioritize(self.event, self._unaligned_body))
        return True

    def time_out_everywhere(self) -> None:
        """Let the barrier overtake everything, wherever it still waits."""
        for subpartition in self._subpartitions:
            self.time_out(subpartition.index)

    def abort(self) -> None:
        """Give back what was overtaken so far, and say that the rest will not be known; nothing if
        it is known already, or aborted."""
        was_queued = self.state is BarrierState.QUEUED
        self.state = TRANSITIONS[self.state, _E.ABORT]
        if was_queued:
            given_back, self._overtaken = self._overtaken, {}
            for buffers in given_back.values():
                for buffer in buffers:
                    buffer.recycle()
            self._on_overtaken(None)

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        settled = len(self._overtaken)
        if self.state is BarrierState.QUEUED:
            assert settled < len(self._subpartitions), "a barrier waits nowhere, and is not settled"
        else:
            assert not settled, "data is kept that a barrier has overtaken, for nobody"
