"""Events that wait to be sent and that a newer one makes superfluous.

Theory of operation. A reader that is held up takes no events, and its writer goes on: a watermark
every few milliseconds would fill the queue with events of which only the last says anything. So a
new event takes the place of one that waits:

- A watermark takes the place of a watermark directly before it, a status that of a status. A
  watermark that does not rise says nothing, nor does *active* behind a watermark, which only an
  active channel has: they are dropped. *Active* behind *idle* behind a watermark is dropped with
  the *idle*. So between two data buffers wait three of them at most: a status, a watermark, *idle*.
- A cancel marker takes the place of the one before it, wherever that waits. It cancels the earlier
  checkpoints, too, and barriers that stand between mean nothing, before it or behind it.

Nothing else moves: no watermark or status passes data, a barrier or another event.
"""

from __future__ import annotations

from collections import deque

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.wire.events import (
    CancelCheckpointMarker,
    DecodedEvent,
    Event,
    Watermark,
    WatermarkStatus,
    said_in,
)

__all__ = ["supersede"]

_EVENT = DataType.EVENT_BUFFER


def supersede(queue: deque[Buffer], event: Buffer) -> list[Buffer]:
    """Put an event in the place of one that it makes superfluous, if there is any.

    Return the buffers that are not to be sent any more, the event among them if it says nothing
    new. If there are none the event is still to be queued. Only an EVENT_BUFFER may come here.
    """
    said = _said(event) if queue else None
    if isinstance(said, CancelCheckpointMarker):
        return _supersede_cancel(queue, event, said)
    if not isinstance(said, Watermark | WatermarkStatus):
        return []
    last = queue[-1]
    before = _said(last)
    if isinstance(said, Watermark):
        if not isinstance(before, Watermark):
            return []
        if said.timestamp_ms <= before.timestamp_ms:
            return [event]
    elif isinstance(before, Watermark):
        return [] if said.idle else [event]
    elif not isinstance(before, WatermarkStatus):
        return []
    elif before.idle and not said.idle and _is_watermark_before_last(queue):
        queue.pop()
        return [last, event]
    queue[-1] = event
    return [last]


def _is_watermark_before_last(queue: deque[Buffer]) -> bool:
    return len(queue) > 1 and isinstance(_said(queue[-2]), Watermark)


def _supersede_cancel(
    queue: deque[Buffer], event: Buffer, said: CancelCheckpointMarker
) -> list[Buffer]:
    for place, waiting in enumerate(queue):
        before = _said(waiting)
        if isinstance(before, CancelCheckpointMarker):
            if said.checkpoint_id <= before.checkpoint_id:
                return [event]
            queue[place] = event
            return [waiting]
    return []


def _said(buffer: Buffer) -> DecodedEvent | None:
    """Return what a buffer says, None if it is no ordinary event."""
    if buffer.data_type is not _EVENT:
        return None
    return said_in(Event(_EVENT, bytes(buffer.view())))
