"""Calls from a subtask's barrier handler to the subtask (Flink's CheckpointableTask)."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from flinknet.buffer.buffer import Buffer
from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.wire.events import CheckpointBarrier

__all__ = ["AbortReason", "BarrierListener"]


class AbortReason(Enum):
    """Why a subtask gives a checkpoint up; the value is the text in messages."""

    CANCELLATION_BARRIER = "a subtask upstream could not take part in it"
    SUBSUMED = "the barrier of a newer checkpoint arrived before it was aligned"
    COORDINATOR = "the coordinator has aborted it"
    DECLINED = "this subtask could not take part in it"
    NOT_READY = (
        "a producer is not located yet, or has begun a newer checkpoint: a channel cannot take part"
    )


class BarrierListener(Protocol):
    """The subtask, as its barrier handler calls it.

    For each checkpoint the calls come in one of these orders, and the next checkpoint follows only
    afterwards::

        trigger, complete                       aligned, or at least once
        trigger, persist ..., complete          unaligned, or after a time-out
        abort
        trigger, persist ..., abort

    All calls but ``persist`` come between two batches of records, from the reader's events or from
    a mail. The subtask may abort the checkpoint within any of them (``BarrierHandler.abort``).
    """

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint now: it includes all processed records, and no later ones.

        The subtask first passes the barrier on through its writers, as its options say; each
        exchange decides whether it can be unaligned. Then the subtask captures its state. If the
        alignment is UNALIGNED, the channel state begins with the records that it has read and not
        begun, and with the partial records in its deserializers (``unconsumed`` of the reader, for
        every channel). The subtask must take them here.
        """

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """Store a buffer in flight, after all earlier data of the channel.

        The buffer carries a reference, which the subtask recycles. The data is processed
        nevertheless. The handler passes data that has arrived directly after ``trigger``, and later
        buffers as they arrive, even in the middle of a batch. So an implementation must only put
        the buffer aside.
        """

    def complete(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """End the channel state: every channel has delivered its barrier.

        The subtask can acknowledge the checkpoint as soon as its state is written.
        """

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Drop the checkpoint and its captured state.

        The subtask tells its consumers by a CancelCheckpointMarker and, unless the reason is
        COORDINATOR, tells the coordinator. Called once per checkpoint, possibly for one without any
        barrier.
        """
