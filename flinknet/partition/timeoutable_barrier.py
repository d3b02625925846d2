"""The timeoutable barrier: a barrier that waits in a partition's queues for a limited time.

This implements Flink's alignmentTimeout. The barrier is broadcast like any blocking event. In each
subpartition, one of three things happens first. The reader *takes* the barrier, which then has
overtaken nothing. Its *time* is over: it becomes unaligned, moves in front of the queue, and the
data it overtakes is state of the output. Or the reader is *gone*. When every subpartition is
settled, the overtaken data is passed once to the task's checkpoint. The clock is not here: the task
reports the timeout, and the reader of a local channel may do so for its queue.

A checkpoint can be aborted first: by its task, by a later barrier, or by the release of the
partition. It then gets None instead of data. The barrier stays in its place and blocks its reader
like any other.

Life cycle::

    QUEUED   SETTLE -> QUEUED, COMPLETE -> SETTLED, ABORT -> ABORTED
    SETTLED  ABORT -> SETTLED
    ABORTED  ABORT -> ABORTED

Invariant: each settled subpartition has a list of buffers. This object holds a reference to each
buffer until the data is passed on or recycled.
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
"""Data that a barrier has overtaken, by subpartition and in order. Its receiver recycles the
buffers."""

OnOvertakenData: TypeAlias = Callable[[OvertakenData | None], None]
"""Called exactly once, inside the call that settles the barrier; with None if it is aborted."""


class BarrierState(Enum):
    """Whether the data that the barrier overtakes is known."""

    QUEUED = "it is queued in at least one subpartition"
    SETTLED = "it was taken or has overtaken the data in every subpartition"
    ABORTED = "its checkpoint or its partition has ended"


class BarrierEvent(Enum):
    """Event in the life of the barrier."""

    SETTLE = (
        "it was taken, has overtaken the data, or lost its reader in one of several subpartitions"
    )
    COMPLETE = "the same in the last subpartition"
    ABORT = "its checkpoint or its partition ends"


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
        """Append the barrier to every subpartition; settle a released one immediately."""
        for subpartition in self._subpartitions:
            subpartition.add_event(self.event)
        for subpartition in self._subpartitions:
            if subpartition.released:
                self.settle(subpartition.index, [])

    def is_waiting(self, index: int) -> bool:
        """Whether the barrier of a live checkpoint waits in a subpartition."""
        return self.state is BarrierState.QUEUED and index not in self._overtaken

    def settle(self, index: int, overtaken: list[Buffer]) -> None:
        """Record that the barrier has left a subpartition's queue, and the data it overtook there.

        Only allowed while it ``is_waiting``.
        """
        assert self.is_waiting(index), "a barrier was settled that was not queued"
        self._overtaken[index] = overtaken
        complete = len(self._overtaken) == len(self._subpartitions)
        self.state = TRANSITIONS[self.state, _E.COMPLETE if complete else _E.SETTLE]
        if complete:
            by_subpartition, self._overtaken = self._overtaken, {}
            self._on_overtaken([by_subpartition[part.index] for part in self._subpartitions])

    def time_out(self, index: int) -> bool:
        """Let the barrier overtake all data in a subpartition; return whether it waited there."""
        if not self.is_waiting(index):
            return False
        subpartition = self._subpartitions[index]
        self.settle(index, subpartition.prioritize(self.event, self._unaligned_body))
        return True

    def time_out_everywhere(self) -> None:
        """Let the barrier overtake all data in each subpartition where it still waits."""
        for subpartition in self._subpartitions:
            self.time_out(subpartition.index)

    def abort(self) -> None:
        """Recycle the overtaken data, and report that the rest will not be known.

        Does nothing if the barrier is settled or aborted already.
        """
        was_queued = self.state is BarrierState.QUEUED
        self.state = TRANSITIONS[self.state, _E.ABORT]
        if was_queued:
            given_back, self._overtaken = self._overtaken, {}
            for buffers in given_back.values():
                for buffer in buffers:
                    buffer.recycle()
            self._on_overtaken(None)

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        settled = len(self._overtaken)
        if self.state is BarrierState.QUEUED:
            assert settled < len(self._subpartitions), (
                "a barrier is queued in no subpartition, and is not settled"
            )
        else:
            assert not settled, "overtaken data is kept after the barrier has ended"
