"""Waiting events that a newer event makes superfluous.

A blocked reader takes no events while its writer goes on. A watermark every few milliseconds would
fill the queue, although only the last one matters. A new event therefore replaces a waiting one:

- A watermark replaces a watermark directly before it, and a status replaces a status. Two kinds of
  events add no information and are dropped: a watermark that does not rise, and *active* behind a
  watermark, because only an active channel has watermarks. *Active* behind *idle* behind a
  watermark is dropped together with the *idle*. At most three of them therefore wait between two
  data buffers: a status, a watermark, and *idle*.
- A cancel marker replaces the previous cancel marker, wherever that one waits. It also cancels the
  earlier checkpoints, and barriers between the two are void on either side of it.

Other events do not move: no watermark or status passes data, a barrier or another event.
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
    decode_if_valid,
)

__all__ = ["supersede"]

_EVENT = DataType.EVENT_BUFFER


def supersede(queue: deque[Buffer], event: Buffer) -> list[Buffer]:
    """Put an event in the place of a waiting event that it makes superfluous.

    Returns the buffers that must not be sent any more, including the event itself if it adds no
    information. With an empty result, the caller must still queue the event. Only an EVENT_BUFFER
    is allowed.
    """
    decoded = _decoded(event) if queue else None
    if isinstance(decoded, CancelCheckpointMarker):
        return _supersede_cancel(queue, event, decoded)
    if not isinstance(decoded, Watermark | WatermarkStatus):
        return []
    last = queue[-1]
    before = _decoded(last)
    if isinstance(decoded, Watermark):
        if not isinstance(before, Watermark):
            return []
        # A watermark that does not rise adds no information.
        if decoded.timestamp_ms <= before.timestamp_ms:
            return [event]
    # Only an active channel has watermarks, so *active* behind one adds no information.
    elif isinstance(before, Watermark):
        return [] if decoded.idle else [event]
    elif not isinstance(before, WatermarkStatus):
        return []
    # Behind a watermark, *idle* and *active* cancel each other out.
    elif before.idle and not decoded.idle and _is_watermark_before_last(queue):
        queue.pop()
        return [last, event]
    queue[-1] = event
    return [last]


def _is_watermark_before_last(queue: deque[Buffer]) -> bool:
    return len(queue) > 1 and isinstance(_decoded(queue[-2]), Watermark)


def _supersede_cancel(
    queue: deque[Buffer], event: Buffer, decoded: CancelCheckpointMarker
) -> list[Buffer]:
    for place, waiting in enumerate(queue):
        before = _decoded(waiting)
        if isinstance(before, CancelCheckpointMarker):
            # The waiting marker cancels all earlier checkpoints too.
            if decoded.checkpoint_id <= before.checkpoint_id:
                return [event]
            queue[place] = event
            return [waiting]
    return []


def _decoded(buffer: Buffer) -> DecodedEvent | None:
    """Decode an ordinary event; None for any other buffer."""
    if buffer.data_type is not _EVENT:
        return None
    return decode_if_valid(Event(_EVENT, bytes(buffer.view())))
