"""What the watermarks of many channels say about all of them (Flink's StatusWatermarkValve).

Theory of operation. Event time at a task is the lowest watermark of its channels. A channel that is
*idle* does not count. One that becomes active again is *aligned*, and counts, only when it has
caught up with what was said before, so that event time never goes back and is not held either.

- What comes out are watermarks that rise, and changes between idle and active; both only if they
  say something new.
- A watermark below the channel's last one, or on an idle channel, is ignored.
- When the last active channel becomes idle, nothing is waited for any more: if it was the one that
  held the others back, the highest watermark of all of them comes out; then IDLE does.

Owned by the valve: per channel its watermark, whether it is idle and whether it is aligned; the
last watermark and the last status that came out. Invariants: a channel that is idle is not aligned;
an aligned one is not behind the last output; no output is idle while a channel is active.
"""

from __future__ import annotations

from collections.abc import Collection

from flinknet.wire.events import Watermark, WatermarkStatus

__all__ = ["MAX_WATERMARK", "MIN_WATERMARK", "StatusWatermarkValve", "WatermarkElement"]

MIN_WATERMARK = -(1 << 63)
"""Before any event time."""
MAX_WATERMARK = (1 << 63) - 1
"""After all event time: what a source that has ended says."""

WatermarkElement = Watermark | WatermarkStatus


class ChannelStatus:
    """What one channel has said."""

    __slots__ = ("aligned", "idle", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK
        self.idle = False
        self.aligned = True


class StatusWatermarkValve:
    """The valve of ``channels`` channels.

    ``silent`` are those that carry no event time at all: they are idle from the start.
    """

    def __init__(self, channels: int, silent: Collection[int] = ()) -> None:
        self._channels = [ChannelStatus() for _ in range(channels)]
        for index in silent:
            self._channels[index].idle, self._channels[index].aligned = True, False
        self._last = MIN_WATERMARK
        self._idle = all(channel.idle for channel in self._channels)

    @property
    def watermark(self) -> int:
        """The last one that came out, in milliseconds; MIN_WATERMARK before that."""
        return self._last

    def input_watermark(self, index: int, timestamp_ms: int) -> list[WatermarkElement]:
        """A watermark came on a channel; return what is to be said behind the valve."""
        channel = self._channels[index]
        if channel.idle or timestamp_ms <= channel.watermark:
            return []
        channel.watermark = timestamp_ms
        if not channel.aligned and timestamp_ms >= self._last:
            channel.aligned = True
        return self._rise_to(self._lowest_aligned())

    def input_status(self, index: int, *, idle: bool) -> list[WatermarkElement]:
        """A channel became idle or active; return what is to be said behind the valve."""
        channel = self._channels[index]
        if channel.idle == idle:
            return []
        channel.idle = idle
        if not idle:
            channel.aligned = channel.watermark >= self._last
            return self._turn(idle=False)
        channel.aligned = False
        held_back = channel.watermark == self._last
        if not all(one.idle for one in self._channels):
            return self._rise_to(self._lowest_aligned()) if held_back else []
        highest = max(one.watermark for one in self._channels)
        return [*(self._rise_to(highest) if held_back else []), *self._turn(idle=True)]

    def _lowest_aligned(self) -> int:
        return min((one.watermark for one in self._channels if one.aligned), default=MIN_WATERMARK)

    def _rise_to(self, timestamp_ms: int) -> list[WatermarkElement]:
        if timestamp_ms <= self._last:
            return []
        self._last = timestamp_ms
        return [Watermark(timestamp_ms)]

    def _turn(self, *, idle: bool) -> list[WatermarkElement]:
        if self._idle == idle:
            return []
        self._idle = idle
        return [WatermarkStatus(idle)]

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        for channel in self._channels:
            assert not (channel.idle and channel.aligned), "an idle channel is aligned"
            assert not channel.aligned or channel.watermark >= self._last, (
                "an aligned one is behind"
            )
        assert self._idle == all(one.idle for one in self._channels), "idle while one is active"
