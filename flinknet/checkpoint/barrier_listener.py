"""What the barriers of a subtask's inputs tell the subtask (Flink's CheckpointableTask)."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from flinknet.buffer.buffer import Buffer
from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.wire.events import CheckpointBarrier

__all__ = ["AbortReason", "BarrierListener"]


class AbortReason(Enum):
    """Why a subtask gives a checkpoint up; the value is how messages say it."""

    CANCELLATION_BARRIER = "a subtask upstream could not take part in it"
    SUBSUMED = "the barrier of a newer one came before it was aligned"
    COORDINATOR = "the coordinator has aborted it"
    DECLINED = "this subtask could not take part in it"
    NOT_READY = "a producer has no place yet, or has begun a newer one: a channel cannot take part"


class BarrierListener(Protocol):
    """The subtask, as its barrier handler calls it.

    Of each checkpoint it hears in one of these orders, and of the next one only afterwards::

        trigger, complete                       aligned, or at least once
        trigger, persist ..., complete          unaligned, or after a time-out
        abort
        trigger, persist ..., abort

    All but ``persist`` come between two batches of records: from the reader's events, or from a
    mail. In each of them the subtask may abort the checkpoint (``BarrierHandler.abort``).
    """

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint now: what was processed belongs to it, what comes next does not.

        The subtask passes the barrier on through its writers first (its options say how; each
        exchange decides for itself whether it can be unaligned), then captures its state. If the
        alignment is UNALIGNED, the records that it has read and not begun, and the parts of records
        that its deserializers hold (``unconsumed`` of the reader, for every channel), are the
        beginning of the channels' state, to be taken here.
        """

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """This buffer of data is in flight: behind what came of the channel before, it is part of
        the checkpoint. It has a reference for the subtask, which recycles it; it is processed all
        the same.

        Inside ``trigger``'s caller for what has arrived, and afterwards as buffers arrive, whatever
        the subtask is doing then: so this only puts the buffer aside."""

    def complete(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """Every channel has had its barrier: nothing more is in flight, and the subtask can
        acknowledge the checkpoint as soon as its state is written."""

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """The checkpoint will not be, and what was captured for it can be dropped.

        The subtask tells those downstream by a CancelCheckpointMarker, and, unless the reason is
        COORDINATOR, the coordinator. Called once for a checkpoint, perhaps for one that no barrier
        has come of."""
