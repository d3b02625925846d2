"""The event handler of a subtask for watermarks, statuses and latency markers.

Theory of operation. Events arrive while the next batch is read, between two batches, where the code
cannot await. So a watermark passes the valve at once, and the resulting elements wait in
``pending``. The subtask takes them before it reads any record behind the watermark. Latency markers
wait there unchanged.
"""

from __future__ import annotations

from flinknet.errors import RemoteProtocolError
from flinknet.operators.operators import StreamElement
from flinknet.operators.watermark_valve import StatusWatermarkValve
from flinknet.wire.events import Event, LatencyMarker, Watermark, WatermarkStatus, decode_event

__all__ = ["InputEvents"]


class InputEvents:
    """Event handler for channels with timestamps or latency markers."""

    def __init__(self, valve: StatusWatermarkValve) -> None:
        self.pending: list[StreamElement] = []
        self._valve = valve

    @property
    def watermark(self) -> int:
        """Event time behind the valve, in milliseconds, including pending watermarks."""
        return self._valve.watermark

    def on_event(self, channel: int, event: Event) -> bool:
        """Handle an event; return whether elements are pending for the operators.

        Raises RemoteProtocolError for an invalid event, and for one that blocks the producer,
        because nothing on this side would resume it.
        """
        if event.data_type.is_blocking_upstream:
            what = event.data_type.name
            raise RemoteProtocolError(
                f"channel {channel} delivered {what}, which this reader would never resume"
            )
        element = decode_event(event)
        if isinstance(element, Watermark):
            self.pending += self._valve.input_watermark(channel, element.timestamp_ms)
        elif isinstance(element, WatermarkStatus):
            self.pending += self._valve.input_status(channel, idle=element.idle)
        elif isinstance(element, LatencyMarker):
            self.pending.append(element)
        return bool(self.pending)

    def take(self) -> list[StreamElement]:
        """Return the pending elements in order, and forget them."""
        pending, self.pending = self.pending, []
        return pending
