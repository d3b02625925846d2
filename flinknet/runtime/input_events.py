"""What a subtask does with the events among its records.

Theory of operation. Events come while the next batch is read, between two batches, where nothing
can be awaited. So a watermark is put through the valve at once, and what comes out of it waits in
``pending`` for the subtask, which gets its turn before any record behind the watermark is read. A
latency marker waits there as it is.
"""

from __future__ import annotations

from flinknet.errors import RemoteProtocolError
from flinknet.operators.operators import StreamElement
from flinknet.operators.watermark_valve import StatusWatermarkValve
from flinknet.wire.events import Event, LatencyMarker, Watermark, WatermarkStatus, decode_event

__all__ = ["InputEvents"]


class InputEvents:
    """The event handler of a subtask whose records have timestamps, or with latency markers among
    them."""

    def __init__(self, valve: StatusWatermarkValve) -> None:
        self.pending: list[StreamElement] = []
        self._valve = valve

    @property
    def watermark(self) -> int:
        """Event time behind the valve, in milliseconds, whether it was taken or is pending."""
        return self._valve.watermark

    def on_event(self, channel: int, event: Event) -> bool:
        """Return whether there is something to be told to the operators.

        Raises RemoteProtocolError for what is no event, or one that nobody here would resume."""
        if event.data_type.is_blocking_upstream:
            what = event.data_type.name
            raise RemoteProtocolError(
                f"channel {channel} delivered {what}, which nobody here would resume"
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
        """Return what is pending, in order, which is the caller's from now on."""
        pending, self.pending = self.pending, []
        return pending
