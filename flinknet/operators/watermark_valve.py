"""What the watermarks of many channels say about all of them (after Flink's StatusWatermarkValve).

Theory of operation. Event time at a task is the lowest watermark of its channels. A channel that is
*idle* does not count, and neither does one that has *finished*: its last watermark says that
nothing comes after it, which is no reason to give up what an idle channel may still send. One that
becomes active again is *aligned*, and counts, only when it has caught up with what was said before,
so that event time never goes back and is not held either.

- What comes out are watermarks that rise, and changes between idle and active; both only if they
  say something new. Watermarks come out while the output is active.
- A watermark below the channel's last one is ignored, and so is one on an idle channel, unless it
  is the last.
- When no channel is active any more and some are idle, nothing is waited for: the highest watermark
  that any channel has had comes out, and then IDLE. The last watermark of a channel that has
  finished is not among them.
- When all channels have finished, event time has: MAX_WATERMARK comes out.
- A *silent* channel, whose records have no timestamps, counts only there: its MAX_WATERMARK says
  that no record comes after it. Otherwise timers would fire, and windows close, before its records.

In Flink the last watermark of a finished channel counts as any other. So it is the highest when the
others are idle, and all that these send later is late and dropped (FLINK-38477, not released; the
rule there is this one). Releases of Flink also leave out to look for a new lowest watermark when a
channel becomes active (FLINK-40475).

Owned by the valve: per channel its watermark, whether it is idle and whether it has finished; the
last watermark and the last status that came out. Invariants: unless all channels with event time
have finished, the output is idle if, and only if, none of them is active; of the active ones that
are aligned, the lowest is at the last output.
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
    """What one channel has said."""

    __slots__ = ("finished", "idle", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK
        """The last one; of a channel that has finished, the one before MAX_WATERMARK."""
        self.idle = False
        self.finished = False


class StatusWatermarkValve:
    """The valve of ``channels`` channels.

    ``silent`` are those that carry no event time: they hold back nothing but its end.
    """

    def __init__(self, channels: int, silent: Collection[int] = ()) -> None:
        self._channels = [ChannelStatus() for _ in range(channels)]
        without_time = frozenset(silent)
        self._timed = [one for n, one in enumerate(self._channels) if n not in without_time]
        self._last = MIN_WATERMARK
        self._idle = not self._timed

    @property
    def watermark(self) -> int:
        """The last one that came out, in milliseconds; MIN_WATERMARK before that."""
        return self._last

    def input_watermark(self, index: int, timestamp_ms: int) -> list[WatermarkElement]:
        """A watermark came on a channel; return what is to be said behind the valve."""
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
                return []  # another channel is the lowest, and stays so: not worth a look at all
        return self._news()

    def input_status(self, index: int, *, idle: bool) -> list[WatermarkElement]:
        """A channel became idle or active; return what is to be said behind the valve."""
        channel = self._channels[index]
        if channel.idle == idle:
            return []
        channel.idle = idle
        return self._news()

    def _news(self) -> list[WatermarkElement]:
        """Return what has changed since something was said last."""
        timed = self._timed
        active = [one.watermark for one in timed if not (one.idle or one.finished)]
        if active:
            # Those that are behind what was said have not caught up.
            aligned = [one for one in active if one >= self._last]
            return [*self._turn(idle=False), *self._rise_to(min(aligned, default=MIN_WATERMARK))]
        if all(one.finished for one in timed):
            if not timed or not all(one.finished for one in self._channels):
                return []
            return [*self._turn(idle=False), *self._rise_to(MAX_WATERMARK)]
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
        """Raise AssertionError if the accounts do not add up."""
        timed = self._timed
        active = [one.watermark for one in timed if not (one.idle or one.finished)]
        have_finished = bool(timed) and all(one.finished for one in timed)
        aligned = [one for one in active if one >= self._last]
        assert min(aligned, default=self._last) == self._last, "event time is behind"
        assert have_finished or self._idle == (not active), "idle while one is active"
        assert (self._last == MAX_WATERMARK) <= all(one.finished for one in self._channels), (
            "event time has ended, and a channel has not"
        )
