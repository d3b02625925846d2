"""Dispatch of checkpoint events from a subtask's reader to its barrier handler."""

from __future__ import annotations

from typing import Protocol

from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.wire.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    DecodedEvent,
    EndOfPartition,
    EventAnnouncement,
)

__all__ = ["CheckpointBarriers", "handle_event"]


class CheckpointBarriers(Protocol):
    """Interface of ``BarrierHandler`` and, for at-least-once processing, of ``BarrierTracker``.

    Times are milliseconds since 1970.
    """

    deadline_ms: int | None

    def on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Handle a barrier with a timeout that has arrived on a channel, behind queued data."""

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Handle a delivered barrier. Raises RemoteProtocolError if it is illegal."""

    def on_cancellation(self, channel: int, checkpoint_id: int, now_ms: int) -> None:
        """Handle a delivered cancel marker: the barrier will not come."""

    def on_end_of_partition(self, channel: int, now_ms: int) -> None:
        """Handle the end of a channel: no more barriers come."""

    def on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Take a checkpoint at the request of the coordinator, after the inputs have finished."""

    def on_time(self, now_ms: int) -> None:
        """Handle the arrival of ``deadline_ms``."""

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Abort a checkpoint, even a future one; ignored if it has ended here."""


def handle_event(
    barriers: CheckpointBarriers, channel: int, event: DecodedEvent | None, now_ms: int
) -> bool:
    """Handle an event if it concerns checkpoints; return False if others need it, too.

    Raises RemoteProtocolError for an illegal barrier.
    """
    match event:
        case CheckpointBarrier():
            barriers.on_barrier(channel, event, now_ms)
        case EventAnnouncement():
            barriers.on_announcement(channel, event.barrier, now_ms)
        case CancelCheckpointMarker():
            barriers.on_cancellation(channel, event.checkpoint_id, now_ms)
        case EndOfPartition():
            barriers.on_end_of_partition(channel, now_ms)
            return False
        case _:
            return False
    return True
