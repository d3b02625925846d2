"""Windows on keyed and non-keyed streams (Flink's WindowOperator).

Theory of operation. Every key and window has a *pane*, which holds the contents of the window and
the memory of its trigger. A record is added to the panes of its windows, and the trigger is called
after each addition and when a timer of the window is due. A window that fires passes its contents
to the window function, in the order in which windows fired; the results have the timestamp of the
window's end. The results that a watermark causes are emitted before the watermark itself. As many
windows may be due as there are keys. They are processed in slices; between two slices other
subtasks get a turn, and a checkpoint may be taken.

A window exists until its *cleanup time*: its end plus the allowed lateness in event time, its end
in processing time. A record is *late* if all its windows are gone. Late records go to the side
output for late data, or are dropped and counted (``late_records_dropped`` in the metrics).
Session windows merge before a record is added: all windows that the record's window touches become
one window with one pane, and the timers of the merged windows are deleted. Windows of processing
time with an end after the end of the input do not fire, as in Flink.

The panes are state, in a form that can be written to a checkpoint: per key a dict from windows, as
tuples, to lists (``Pane``). The order of the timers is not state; ``open`` derives it from the
panes. Invariants: each stored key has a pane, and each timer is recorded in its pane.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Literal

from flinknet.environment.processing_time import ScheduledTimer
from flinknet.functions.calls import BATCH_RECORDS, bound_function, pieces_of, value_of
from flinknet.functions.context import RuntimeContext
from flinknet.functions.functions import Function, find_attributes_fast
from flinknet.functions.triggers import Trigger, TriggerResult
from flinknet.functions.window_functions import WindowContents, WindowContext
from flinknet.functions.windows import CountWindow, GlobalWindow, TimeWindow, Window, WindowAssigner
from flinknet.net.task_clock import task_time
from flinknet.operators.operators import Operator, on_records
from flinknet.operators.record_slices import SliceSize
from flinknet.operators.side_outputs import OutputTag
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch, as_pairs
from flinknet.operators.window_timers import WindowTimers
from flinknet.records.detached import detached, each_detached
from flinknet.records.key_normalization import comparable_key
from flinknet.records.record_iterator import ArrivedRecords
from flinknet.state.descriptors import StateDescriptor, StateKind
from flinknet.state.timer_service import check_time
from flinknet.state.trigger_state import merged_memory, merged_state, state_in
from flinknet.state.window_state import GlobalStateStore, WindowStateStore
from flinknet.wire.events import MAX_WATERMARK, Watermark

__all__ = ["WindowOperator"]

WindowMethod = Literal["process", "apply"]

Pane = list[Any]
"""The contents of a window of a key (a list with one item, or empty), the memory of its trigger,
the times of its event-time timers, and the times of its processing-time timers."""

KEPT, STATE, EVENT_TIMERS, PROCESSING_TIMERS = range(4)

_SPOKEN = "windows spoken"
"""Key in a trigger's memory for the number of count windows that have been emitted."""

Panes = dict[tuple[int, ...], Pane]


def _new_pane() -> Pane:
    return [[], {}, [], []]


def _time_window(place: tuple[int, ...]) -> TimeWindow:
    return TimeWindow(*place)


def _window_of(place: tuple[int, ...]) -> Window:
    return TimeWindow(*place) if place else GlobalWindow()


class PaneContext:
    """The pane of a window, as its trigger sees it."""

    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator
        self.state: dict[str, Any] = {}
        self.key: Any = None
        self.window: Window = TimeWindow(0, 0)
        self.pane: Pane = _new_pane()
        self.merged: Sequence[dict[str, Any]] = ()
        """The trigger's memories of the windows that were just merged into this one."""

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return state_in(self.state, state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        kept = merged_state(self.merged, state_descriptor)
        if kept is not None:
            self.state[state_descriptor.name] = kept

    def get_current_watermark(self) -> int:
        return self._operator.watermark

    def get_current_processing_time(self) -> int:
        return self._operator.now_ms()

    def register_event_time_timer(self, time: int) -> None:
        check_time(time)
        if time not in self.pane[EVENT_TIMERS]:
            self.pane[EVENT_TIMERS].append(time)
            self._operator.event_timers.register(time, self.key, self.window)

    def register_processing_time_timer(self, time: int) -> None:
        check_time(time)
        if time not in self.pane[PROCESSING_TIMERS]:
            self.pane[PROCESSING_TIMERS].append(time)
            self._operator.register_processing_timer(time, self.key, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        check_time(time)
        if time in self.pane[EVENT_TIMERS]:
            self.pane[EVENT_TIMERS].remove(time)
            self._operator.event_timers.delete(time, self.key, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        check_time(time)
        if time in self.pane[PROCESSING_TIMERS]:
            self.pane[PROCESSING_TIMERS].remove(time)
            self._operator.processing_timers.delete(time, self.key, self.window)


class WindowOperator(Operator):
    """The windows of one subtask.

    The ``method`` of ``function`` is called with the key (if the stream is ``keyed``), with the
    context or the window, and with the elements. Without a function, the elements themselves are
    emitted.
    """

    iterates_once = True

    def __init__(
        self,
        assigner: WindowAssigner,
        trigger: Trigger,
        contents: WindowContents,
        function: Any,
        method: WindowMethod,
        key_of: Callable[[Any], Any],
        *,
        keyed: bool = True,
        lateness_ms: int = 0,
        late_tag: OutputTag | None = None,
    ) -> None:
        self._assigner = assigner
        self._trigger = trigger
        self._contents = contents
        self._call = None if function is None else bound_function(function, method)
        self._gets_window = method == "apply"
        self._clear: Callable[..., Any] | None = (
            None if self._gets_window else getattr(function, "clear", None)
        )
        self._key_of = key_of
        self._keyed = keyed
        self._lateness_ms = lateness_ms
        self._late_tag = late_tag
        self._late_records_dropped = 0
        self._functions = [one for one in (contents.function, function) if one is not None]
        for one in (*self._functions, key_of):
            find_attributes_fast(one)
        self._entries: dict[Any, Panes] = {}
        """The live part of the state table, which replaces this attribute."""
        self.event_timers = WindowTimers()
        self.processing_timers = WindowTimers()
        self._alarm: ScheduledTimer | None = None
        self._fired: list[tuple[Any, Window, list[Any]]] = []
        self._results = TimestampedBatch([], [])
        self._slice = SliceSize()
        self._pane_context = PaneContext(self)
        self.process = self._process

    # -- life cycle -------------------------------------------------------------------------------

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        self._clock = context.processing_time
        keyed, view = context.state.keyed, context.process_context
        self._window_state = WindowStateStore(keyed, view, merges=self._assigner.merges)
        self._global_state = GlobalStateStore(keyed, view)
        self._table = keyed.table("_windows", StateKind.MAP)
        self._table.attach(self)
        self._restore_timers()
        for function in self._functions:
            try:
                context.state.initialize(function)
            except BaseException as error:
                self.fail(error, "in initialize_state()")
            if isinstance(function, Function):
                try:
                    await value_of(function.open(context))
                except BaseException as error:
                    self.fail(error, "in open()")

    def _restore_timers(self) -> None:
        # The heaps of timers are not state. The panes hold all that they need.
        for key, panes in self._table.entries():
            for place, pane in panes.items():
                window = _window_of(place)
                for time_ms in pane[EVENT_TIMERS]:
                    self.event_timers.register(time_ms, key, window)
                for time_ms in pane[PROCESSING_TIMERS]:
                    self.processing_timers.register(time_ms, key, window)
        self._set_alarm()

    async def end_of_input(self) -> None:
        for function in self._functions:
            if isinstance(function, Function):
                try:
                    await self._emit_each(None, function.finish)
                except BaseException as error:
                    self.fail(error, "in finish()")
        await self._emit_results()

    async def close(self) -> None:
        if self._alarm is not None:
            self._clock.cancel(self._alarm)
        failure: BaseException | None = None
        for function in self._functions:
            if isinstance(function, Function):
                try:
                    await value_of(function.close())
                except BaseException as error:
                    failure = failure or error
        if failure is not None:
            self.fail(failure, "in close()")

    # -- records ----------------------------------------------------------------------------------

    async def _process(self, records: Batch | ArrivedRecords) -> None:
        for stamp, value in as_pairs(records):
            try:
                late = self._add(stamp, value)
            except BaseException as error:
                self.fail(error, on_records((value,)))
            if late:
                self._on_late(stamp, value)
            if self._fired:
                await self._emit_due()
        await self._emit_results()

    def _add(self, stamp: int | None, value: Any) -> bool:
        """Add a record to its windows; return True if it is in none because it is late."""
        assigner, contents = self._assigner, self._contents
        if not assigner.is_event_time:
            time_ms = self.now_ms()
        elif stamp is None:
            raise ValueError(
                "it has no timestamp: records that a function's finish() emits have none"
            )
        else:
            time_ms = stamp
        key, panes = self._panes_of(self._key_of(value))
        # Windows that slide by more than their size leave gaps. A record in a gap has no window and
        # is dropped; it is late only if its own time is over (Flink: WindowOperator.isElementLate).
        late = assigner.is_event_time and time_ms + self._lateness_ms <= self.watermark
        is_kept = False
        kept_of_it = (stamp, value) if contents.keeps_timestamps else value
        windows = assigner.assign_windows(value, time_ms)
        shares = [kept_of_it]
        if len(windows) > 1:
            # A function may change a record in one window; other windows must not see the change.
            # The last window takes the record itself.
            shares = [detached(kept_of_it, self.detachment) for _ in windows[1:]] + shares
        for assigned, share in zip(windows, shares, strict=False):
            window = assigned
            if assigner.merges and isinstance(assigned, TimeWindow):
                window = self._merged(key, panes, assigned)
            if self._is_gone(window):
                late = True
                continue
            is_kept = True
            pane = panes.get(window)
            if pane is None:
                pane = panes[tuple(window)] = _new_pane()
                self._set_cleanup(self._context_of(key, window, pane))
            context = self._context_of(key, window, pane)
            kept = pane[KEPT]
            kept[:] = [contents.add(kept[0], share) if kept else contents.first(share)]
            self._act(self._trigger.on_element(value, stamp, window, context), context)
        if not panes:
            self._entries.pop(key, None)
        return late and not is_kept

    def _panes_of(self, key: Any) -> tuple[Any, Panes]:
        entries = self._entries
        try:
            return key, entries[key]
        except (KeyError, TypeError):
            key = comparable_key(key)
            if key not in entries:
                entries[key] = {}
            return key, entries[key]

    def _merged(self, key: Any, panes: Panes, window: TimeWindow) -> TimeWindow:
        """Merge a window with the windows that it touches; return the merged window."""
        touched = sorted(one for one in map(_time_window, panes) if one.intersects(window))
        for one in touched:
            window = window.cover(one)
        if not touched or touched == [window]:
            return window
        merged = _new_pane()
        kept = merged[KEPT]
        remembered, left = list[dict[str, Any]](), list[dict[str, Any]]()
        for one in touched:
            pane = panes.pop(one)
            context = self._context_of(key, one, pane)
            # on_merge() sees the memories as they were before clear(). The trigger has no part in
            # the merge of numbers that clear() leaves, such as the count of emitted windows.
            remembered.append(pane[STATE].copy())
            self._trigger.clear(one, context)
            self._forget_timers(context)
            left.append(pane[STATE])
            both = [*kept, *pane[KEPT]]
            kept[:] = [self._contents.merge(*both)] if len(both) == 2 else both
        merged[STATE] = merged_memory(left)
        panes[tuple(window)] = merged
        context = self._context_of(key, window, merged)
        self._set_cleanup(context)
        context.merged = remembered
        self._trigger.on_merge(window, context)
        context.merged = ()
        return window

    def _on_late(self, stamp: int | None, value: Any) -> None:
        if self._late_tag is not None:
            self._results.add(stamp, [(self._late_tag, value)])
            return
        self._late_records_dropped += 1
        self._context.metrics["late_records_dropped"] = self._late_records_dropped

    @property
    def late_records_dropped(self) -> int:
        return self._late_records_dropped

    # -- time -------------------------------------------------------------------------------------

    @property
    def watermark(self) -> int:
        """Current event time in milliseconds."""
        return self._context.process_context.current_watermark

    def now_ms(self) -> int:
        """Return the current processing time in milliseconds."""
        return self._clock.get_current_processing_time()

    async def process_watermark(self, watermark: Watermark) -> None:
        self._context.process_context.current_watermark = watermark.timestamp_ms
        due = self.event_timers.due(watermark.timestamp_ms)
        # The windows first: behind the watermark, their results would be late.
        await self._run_timers(due, self._trigger.on_event_time, is_event_time=True)
        await super().process_watermark(watermark)

    def register_processing_timer(self, time_ms: int, key: Any, window: Window) -> None:
        """Set a processing-time timer, and set the subtask's alarm for the first of them."""
        self.processing_timers.register(time_ms, key, window)
        self._set_alarm()

    async def _on_alarm(self, time_ms: int) -> None:
        self._alarm = None
        due = self.processing_timers.due(max(time_ms, self._clock.get_passed_time()))
        await self._run_timers(due, self._trigger.on_processing_time, is_event_time=False)
        self._set_alarm()

    def _set_alarm(self) -> None:
        next_ms = self.processing_timers.next_ms()
        if self._alarm is not None:
            if next_ms is not None and self._alarm.timestamp_ms <= next_ms:
                return
            self._clock.cancel(self._alarm)
            self._alarm = None
        if next_ms is not None:
            self._alarm = self._clock.register_timer(next_ms, self._on_alarm)

    async def _run_timers(
        self,
        due: Iterable[tuple[int, Any, Window]],
        ask: Callable[[int, Window, PaneContext], TriggerResult],
        *,
        is_event_time: bool,
    ) -> None:
        asked, began = 0, task_time()
        for time_ms, key, window in due:
            panes = self._entries[key]
            pane, is_end = panes[window], False
            pane[EVENT_TIMERS if is_event_time else PROCESSING_TIMERS].remove(time_ms)
            try:
                context = self._context_of(key, window, pane)
                self._act(ask(time_ms, window, context), context)
                if is_event_time == self._assigner.is_event_time:
                    is_end = time_ms == self._cleanup_ms(window)
                if is_end:
                    self._trigger.clear(window, context)
                    self._forget_timers(context)
                    del panes[window]
                    if not panes:
                        self._entries.pop(key, None)
            except BaseException as error:
                self.fail(error, f"on window {window} of the key {reprlib.repr(key)}")
            if self._fired:
                await self._emit_due()
            if is_end:  # Only now: the window function has used the state above.
                await self._forget_state(key, window)
            asked += 1
            if asked >= self._slice.records:
                await self._emit_results()
                self._slice.took(asked, task_time() - began)
                await self._context.interrupt()
                asked, began = 0, task_time()
        await self._emit_results()

    async def _forget_state(self, key: Any, window: Window) -> None:
        """Clear the window function's state of a window that has fired for the last time."""
        place = self._place_of(key, window)
        if self._clear is not None:
            try:
                await value_of(self._clear(place))
            except BaseException as error:
                self.fail(error, f"in clear() of window {window} of the key {reprlib.repr(key)}")
        self._window_state.remove()

    def _place_of(self, key: Any, window: Window) -> WindowContext:
        self._context.process_context.current_key = key
        # All firings of a count window share the function's state. Nothing would ever remove the
        # state of a single firing.
        self._window_state.enter(() if isinstance(window, CountWindow) else window)
        return WindowContext(
            window, self.watermark, self.now_ms(), self._window_state, self._global_state
        )

    def _cleanup_ms(self, window: Window) -> int:
        """Return the time at which the window is removed; MAX_WATERMARK for never."""
        end_ms = window.max_timestamp()
        if not self._assigner.is_event_time:
            return end_ms
        return min(end_ms + self._lateness_ms, MAX_WATERMARK)

    def _is_gone(self, window: Window) -> bool:
        return self._assigner.is_event_time and self._cleanup_ms(window) <= self.watermark

    def _set_cleanup(self, context: PaneContext) -> None:
        time_ms = self._cleanup_ms(context.window)
        if time_ms == MAX_WATERMARK:
            return
        if self._assigner.is_event_time:
            context.register_event_time_timer(time_ms)
        else:
            context.register_processing_time_timer(time_ms)

    def _forget_timers(self, context: PaneContext) -> None:
        """Delete all timers of a window that is removed."""
        for time_ms in list(context.pane[EVENT_TIMERS]):
            context.delete_event_time_timer(time_ms)
        for time_ms in list(context.pane[PROCESSING_TIMERS]):
            context.delete_processing_time_timer(time_ms)

    # -- windows that fire ------------------------------------------------------------------------

    def _context_of(self, key: Any, window: Window, pane: Pane) -> PaneContext:
        context = self._pane_context
        context.key, context.window, context.pane, context.state = key, window, pane, pane[STATE]
        return context

    def _act(self, result: TriggerResult, context: PaneContext) -> None:
        kept = context.pane[KEPT]
        if result.is_fire() and kept:
            elements = self._contents.fire(kept, context.window, context)
            if elements is not None:
                # A trigger is called in plain code, but the window function may be a coroutine
                # function. So ``_emit_due`` calls it later.
                self._fired.append((context.key, self._window_for(context), elements))
        if result.is_purge():
            kept.clear()

    def _window_for(self, context: PaneContext) -> Window:
        if not self._assigner.counts:
            return context.window
        spoken = context.state.get(_SPOKEN, 0)
        context.state[_SPOKEN] = spoken + 1
        return CountWindow(spoken)

    async def _emit_due(self) -> None:
        """Call the window function for the windows that have fired, in order."""
        fired, self._fired = self._fired, []
        for key, window, elements in fired:
            stamp = window.max_timestamp()
            if self._call is None:
                self._results.add(stamp, list(each_detached(elements, self.detachment)))
                continue
            place: Any = window if self._gets_window else self._place_of(key, window)
            arguments = (key, place, elements) if self._keyed else (place, elements)
            try:
                await self._emit_each(stamp, self._call, *arguments)
            except BaseException as error:
                self.fail(error, f"on window {window} of the key {reprlib.repr(key)}")
        if len(self._results) >= BATCH_RECORDS:
            await self._emit_results()

    async def _emit_each(
        self, stamp: int | None, call: Callable[..., Any], *arguments: Any
    ) -> None:
        """Collect the results of any kind of function, and emit them when there are many."""
        async with aclosing(pieces_of(self.detachment, call, *arguments)) as pieces:
            async for piece in pieces:
                self._results.add(stamp, piece)
                if len(self._results) >= BATCH_RECORDS:
                    await self._emit_results()

    async def _emit_results(self) -> None:
        results, self._results = self._results, TimestampedBatch([], [])
        if len(results):
            await self._emit(results if self.is_timestamped else results.values)
