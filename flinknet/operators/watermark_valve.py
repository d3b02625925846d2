"""Combined event time of many input channels (after Flink's StatusWatermarkValve).

Theory of operation. The watermark of a task is the lowest watermark of its channels. *Idle* and
*finished* channels do not count. A channel that becomes active again counts only when it is
*aligned*, that is, when its watermark has reached the last output. So event time neither goes back
nor is held back.

- The outputs are rising watermarks, and changes between idle and active. Watermarks are only
  emitted while the output is active.
- A watermark that is not above the channel's last one is ignored. A watermark on an idle channel is
  ignored, unless it is MAX_WATERMARK.
- When no channel is active and some are idle, the highest watermark of any channel is emitted, then
  IDLE. The MAX_WATERMARK of a finished channel is not considered: the end of one channel does not
  make the later records of an idle channel late.
- When all channels have finished, MAX_WATERMARK is emitted.
- A *silent* channel has records without timestamps. It only counts for that last rule. Otherwise
  timers would fire, and windows close, before its records.

In Flink, the MAX_WATERMARK of a finished channel counts like any other. If the other channels are
idle, it is the highest, and their later records are all late and dropped (FLINK-38477, not
released, introduces the rule used here). Releases of Flink also do not look for a new lowest
watermark when a channel becomes active (FLINK-40475).

Invariants: unless all channels with event time have finished, the output is idle if and only if
none of them is active; the lowest watermark of the active, aligned channels is the last output.
"""

from __future__ import annotations

from collections.abc import Collection

from flinknet.wire.events import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    Watermark,
    WatermarkElement,
    WatermarkStatus,
)

__all__ = ["StatusWatermarkValve"]


class ChannelStatus:
    """The state of one channel."""

    __slots__ = ("finished", "idle", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK
        """Last watermark of the channel; for a finished channel, the one before MAX_WATERMARK."""
        self.idle = False
        self.finished = False


class StatusWatermarkValve:
    """The valve of ``channels`` input channels.

    ``silent`` are the channels without event time; they hold back MAX_WATERMARK only.
    """

    def __init__(self, channels: int, silent: Collection[int] = ()) -> None:
        self._channels = [ChannelStatus() for _ in range(channels)]
        without_time = frozenset(silent)
        self._timed = [one for n, one in enumerate(self._channels) if n not in without_time]
        self._last = MIN_WATERMARK
        self._idle = not self._timed

    @property
    def watermark(self) -> int:
        """Last watermark that was emitted, in milliseconds; MIN_WATERMARK before the first."""
        return self._last

    def input_watermark(self, index: int, timestamp_ms: int) -> list[WatermarkElement]:
        """Take a watermark of a channel; return the elements to emit."""
        channel = self._channels[index]
        if channel.finished:
            return []
        if timestamp_ms == MAX_WATERMARK:
            channel.finished = True
        elif channel.idle or timestamp_ms <= channel.watermark:
            return []
        else:
            held_back = channel.watermark <= self._last
            channel.watermark = timestamp_ms
            if not held_back:
                return []  # Another channel is the lowest, so the output does not change.
        return self._news()

    def input_status(self, index: int, *, idle: bool) -> list[WatermarkElement]:
        """Take a status of a channel; return the elements to emit."""
        channel = self._channels[index]
        if channel.idle == idle:
            return []
        channel.idle = idle
        return self._news()

    def _news(self) -> list[WatermarkElement]:
        """Return the elements that the current state of the channels adds to the output."""
        timed = self._timed
        active = [one.watermark for one in timed if not (one.idle or one.finished)]
        if active:
            # A channel below the last output has not caught up, and is not aligned.
            aligned = [one for one in active if one >= self._last]
            return [*self._turn(idle=False), *self._rise_to(min(aligned, default=MIN_WATERMARK))]
        if all(one.finished for one in timed):
            # Silent channels hold back the end: timers must not fire before their records.
            if not timed or not all(one.finished for one in self._channels):
                return []
            return [*self._turn(idle=False), *self._rise_to(MAX_WATERMARK)]
        # A finished channel counts with the watermark before its MAX_WATERMARK. Otherwise the later
        # records of the idle channels would all be late.
        highest = max(one.watermark for one in timed)
        return [*self._rise_to(highest), *self._turn(idle=True)]

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
        """Raise AssertionError if the state of the valve is inconsistent."""
        timed = self._timed
        active = [one.watermark for one in timed if not (one.idle or one.finished)]
        have_finished = bool(timed) and all(one.finished for one in timed)
        aligned = [one for one in active if one >= self._last]
        assert min(aligned, default=self._last) == self._last, "event time is behind"
        assert have_finished or self._idle == (not active), "idle while one is active"
        assert (self._last == MAX_WATERMARK) <= all(one.finished for one in self._channels), (
            "event time has ended, and a channel has not"
        )
