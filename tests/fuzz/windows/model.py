"""A model of windows that checks everything at every moment.

It keeps all records of all windows in lists, and all timers in a set. It has no state, key group,
slice or batch. The output of an action is a list in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.windows.cases import Action, Case

__all__ = ["FIRST_WATERMARK", "LATE", "Model"]

FIRST_WATERMARK = -(2**63)
LATE = "late"
"""Marks the output of a late record, in place of its window."""

Window = tuple[int, int] | None
"""A span; None is the global window."""


@dataclass
class _Pane:
    records: list[tuple[int, int]] = field(default_factory=list)
    """Timestamp and number of each record."""
    count: int = 0
    timers: set[int] = field(default_factory=set)
    next_ms: int | None = None
    """The next firing of a continuous trigger."""


class Model:
    """A model of one window operator."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._panes: dict[tuple[str, Window], _Pane] = {}
        self._watermark = FIRST_WATERMARK
        self._clock = 0
        self._said: list[Any] = []

    def take(self, action: Action) -> list[Any]:
        """Return the output of an action."""
        self._said = []
        match action.kind:
            case "record":
                self._add(action)
            case "watermark":
                self._watermark = action.time_ms
                self._fire_due()
            case _:
                self._advance_clock(action.time_ms)
        return self._said

    # -- records ----------------------------------------------------------------------------------

    def _add(self, action: Action) -> None:
        case = self._case
        time_ms = action.time_ms if case.is_event_time else self._clock
        skipped = True
        for window in self._windows(action, time_ms):
            if case.assigner.endswith("session"):
                assert window is not None, "a session is a span"
                window = self._merged(action.key, window)
            if self._is_gone(window):
                continue
            skipped = False
            pane = self._panes.setdefault((action.key, window), _Pane())
            pane.records.append((action.time_ms, action.n))
            if (cleanup := self._cleanup(window)) is not None:
                pane.timers.add(cleanup)
            self._on_element(action.key, window, pane, time_ms)
        is_late = action.time_ms + case.lateness_ms <= self._watermark
        if skipped and is_late and case.is_event_time and case.late_output:
            self._said.append((LATE, action.key, action.n))

    def _windows(self, action: Action, time_ms: int) -> list[Window]:
        case = self._case
        match case.assigner:
            case "global":
                return [None]
            case "session":
                return [(time_ms, time_ms + case.size_ms)]
            case "dynamic session":
                return [(time_ms, time_ms + gap_of(action.n))]
            case "tumbling":
                slide = case.size_ms
            case _:
                slide = case.slide_ms
        starts = range(time_ms - case.size_ms + 1, time_ms + 1)
        return [
            (start, start + case.size_ms)
            for start in starts
            if (start - case.offset_ms) % slide == 0
        ]

    def _merged(self, key: str, window: tuple[int, int]) -> tuple[int, int]:
        """Merge a session with all sessions that it touches."""
        touched = [
            other
            for one, other in self._panes
            if one == key and other and other[0] <= window[1] and window[0] <= other[1]
        ]
        start = min([window[0], *(one for one, _ in touched)])
        end = max([window[1], *(one for _, one in touched)])
        if touched and touched != [(start, end)]:
            merged = _Pane()
            for one in sorted(touched):
                pane = self._panes.pop((key, one))
                merged.records += pane.records
                merged.count += pane.count
            self._panes[key, (start, end)] = merged
            if (cleanup := self._cleanup((start, end))) is not None:
                merged.timers.add(cleanup)
            self._on_merge(merged, (start, end))
        return start, end

    def _is_gone(self, window: Window) -> bool:
        cleanup = self._cleanup(window)
        return self._case.is_event_time and cleanup is not None and cleanup <= self._watermark

    def _cleanup(self, window: Window) -> int | None:
        return None if window is None else window[1] - 1 + self._case.lateness_ms

    # -- triggers ---------------------------------------------------------------------------------

    def _on_element(self, key: str, window: Window, pane: _Pane, time_ms: int) -> None:
        case = self._case
        if case.trigger == "count":
            pane.count += 1
            if pane.count >= case.trigger_size:
                pane.count = 0
                self._fire(key, window, pane)
        elif window is not None:
            end = window[1] - 1
            if case.is_event_time and end <= self._watermark:
                self._fire(key, window, pane)
                return
            if case.is_event_time or case.trigger == "default":
                pane.timers.add(end)
            if case.trigger == "continuous" and pane.next_ms is None:
                self._set_next(pane, window, time_ms)

    def _on_merge(self, pane: _Pane, window: tuple[int, int]) -> None:
        case = self._case
        if case.trigger == "count":
            return
        now = self._watermark if case.is_event_time else self._clock
        if not case.is_event_time or window[1] - 1 > now:
            if case.is_event_time or case.trigger == "default":
                pane.timers.add(window[1] - 1)
            if case.trigger == "continuous":
                self._set_next(pane, window, max(now, window[0]) if case.is_event_time else now)

    def _set_next(self, pane: _Pane, window: tuple[int, int], behind_ms: int) -> None:
        size = self._case.trigger_size
        pane.next_ms = min(behind_ms - behind_ms % size + size, window[1] - 1)
        pane.timers.add(pane.next_ms)

    def _on_timer(self, key: str, window: tuple[int, int], pane: _Pane, time_ms: int) -> None:
        case = self._case
        if case.trigger == "default" and time_ms == window[1] - 1:
            self._fire(key, window, pane)
        elif case.trigger == "continuous":
            if time_ms == pane.next_ms and time_ms < window[1] - 1:
                self._set_next(pane, window, time_ms)
                self._fire(key, window, pane)
            elif time_ms == window[1] - 1:
                self._fire(key, window, pane)

    # -- time -------------------------------------------------------------------------------------

    def _advance_clock(self, until_ms: int) -> None:
        while self._clock < until_ms:
            self._clock += 1
            self._fire_due()

    def _fire_due(self) -> None:
        """Fire all due timers.

        Event-time timers are due at the watermark, processing-time timers before this millisecond.
        """
        case = self._case
        due_ms = self._watermark if case.is_event_time else self._clock - 1
        while True:
            due = [
                (time_ms, key, window)
                for (key, window), pane in self._panes.items()
                if window is not None
                for time_ms in pane.timers
                if time_ms <= due_ms
            ]
            if not due:
                return
            time_ms, key, window = min(due)
            pane = self._panes[key, window]
            pane.timers.discard(time_ms)
            self._on_timer(key, window, pane, time_ms)
            if time_ms == self._cleanup(window):
                del self._panes[key, window]

    # -- firing -----------------------------------------------------------------------------------

    def _fire(self, key: str, window: Window, pane: _Pane) -> None:
        case = self._case
        if pane.records:
            seen = pane.records if case.evicts_after else self._left(pane.records)
            numbers = [n for _, n in seen]
            if case.contents != "elements" and numbers:
                numbers = [sum(numbers)]
            if numbers or case.contents == "elements":
                self._said.append((key, window, numbers))
            if case.evictor != "none":
                pane.records = self._left(seen) if case.evicts_after else list(seen)
        if case.is_purging:
            pane.records = []

    def _left(self, records: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the records that an evictor leaves."""
        size = self._case.evictor_size
        match self._case.evictor:
            case "count":
                return records[-size:]
            case "time":
                latest = max(stamp for stamp, _ in records)
                return [one for one in records if one[0] > latest - size]
            case "delta":
                return [one for one in records if delta_of(one[1], records[-1][1]) < size]
            case _:
                return list(records)


def gap_of(n: int) -> int:
    """Return the gap of a record's session."""
    return 1 + n * 7 % 30


def delta_of(n: int, last: int) -> int:
    """Return the distance of a record from the last one."""
    return abs(n - last) * 3 % 17
