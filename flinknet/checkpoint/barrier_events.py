"""Events about checkpoints: what a subtask's reader delivers, for whoever handles its barriers."""

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
    """What handles the barriers of a subtask: ``BarrierHandler``, or ``BarrierTracker`` if records
    are processed at least once. Times are milliseconds since 1970."""

    deadline_ms: int | None

    def on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """A barrier with a time-out has arrived on a channel, and waits there behind data."""

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """A channel delivers a barrier. Raises RemoteProtocolError for one that must not come."""

    def on_cancellation(self, channel: int, checkpoint_id: int, now_ms: int) -> None:
        """A channel delivers a cancel marker: its barrier will not come."""

    def on_end_of_partition(self, channel: int, now_ms: int) -> None:
        """A channel has ended: no barrier comes any more."""

    def on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """The coordinator has the subtask take a checkpoint, its inputs having finished."""

    def on_time(self, now_ms: int) -> None:
        """``deadline_ms`` has come."""

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Give up a checkpoint, also one that is still to come; nothing if it has ended here."""


def handle_event(
    barriers: CheckpointBarriers, channel: int, event: DecodedEvent | None, now_ms: int
) -> bool:
    """Handle an event if it is about checkpoints, and say whether nobody else needs it.

    Raises RemoteProtocolError for a barrier that must not come."""
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
