"""The calls of ``on_timer``: what every operator with timers has of one (Flink's Triggerable).

Theory of operation. Timers of event time fire when the operator says how far that has come,
processing time's when the subtask's clock calls back, always between two batches. A call sees the
state of the timer's key, since the key in progress is set before it. The results of many calls are
emitted together. Many timers may be due at once, as many as there are keys: they fire in slices of
about half a millisecond, and between two of them others have their turn, and a checkpoint may be
taken, since what has not fired is state (Flink: InternalTimeServiceManager, interruptible timers).

Owned: the timers, and the view that ``on_timer`` gets.
"""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from flinknet.functions.calls import is_awaiting, records_in
from flinknet.functions.context import OnTimerContext, RuntimeContext
from flinknet.net.task_clock import task_time
from flinknet.operators.record_slices import SliceSize
from flinknet.operators.stamps import NotedStamps, Stamp, Stamps, same, without_time
from flinknet.state.timer_queue import DueTimer, TimerQueue
from flinknet.state.timer_service import TimeDomain, Timers, TimerService
from flinknet.wire.events import MAX_WATERMARK

__all__ = ["TimerCalls"]


class EmitResults(Protocol):
    """Calls a function, and emits what it returns; ``where`` is said of errors."""

    def __call__(
        self,
        where: Callable[[], str],
        call: Callable[..., Any],
        *arguments: Any,
        stamps: Stamps = without_time,
    ) -> Awaitable[None]: ...


class TimerCalls:
    """The timers of one operator in one subtask, and ``on_timer``, which is called for each.

    ``view`` is brought up to date before a call, which gets ``shown`` if that is another view of
    the same. ``stamped`` says that results have timestamps.
    """

    def __init__(
        self,
        on_timer: Callable[..., Any],
        context: RuntimeContext,
        emit_results: EmitResults,
        *,
        view: OnTimerContext,
        shown: Any = None,
        stamped: bool = False,
    ) -> None:
        self._on_timer = on_timer
        self._view = view
        self._shown = view if shown is None else shown
        self._place = context.process_context
        self._emit_results = emit_results
        self._interrupt = context.interrupt
        self._slice = SliceSize()
        self._noted = NotedStamps() if stamped else None
        self._timers = Timers(context.state.keyed, context.processing_time, self._fire_by_clock)
        self._place.timers = view.timers = TimerService(self._timers, self._place)

    def start(self) -> None:
        """Let timers that were restored fire by the clock, now that the function is open."""
        self._timers.set_clock()

    async def advance_watermark(self, timestamp_ms: int) -> None:
        """Event time has come to there: what was registered until then fires."""
        self._place.current_watermark = timestamp_ms
        await self._fire(TimeDomain.EVENT_TIME, timestamp_ms)

    async def end_of_input(self) -> None:
        """Event time has come to its end; by processing time nothing fires any more."""
        self.close()
        await self.advance_watermark(MAX_WATERMARK)

    def close(self) -> None:
        """Let nothing fire by processing time any more; idempotent."""
        self._timers.close()

    async def _fire_by_clock(self) -> None:
        passed_ms = self._timers.clock.get_passed_time()
        await self._fire(TimeDomain.PROCESSING_TIME, passed_ms)
        self._timers.set_clock()

    async def _fire(self, domain: TimeDomain, until_ms: int) -> None:
        """Have all timers fire until then, also those that are registered meanwhile."""
        queue, view = self._timers.of(domain), self._view
        waits = is_awaiting(self._on_timer)
        while (deadline_ms := queue.deadline_ms) is not None and deadline_ms <= until_ms:
            # Those of the other domain may have fired meanwhile.
            view.domain, view.current_watermark = domain, self._place.current_watermark
            if waits:
                due = queue.pop_due(until_ms)
                assert due is not None, "a timer is due"
                self._show(due)
                time_ms = view.current_timestamp
                await self._emit_results(
                    self._at_timer,
                    self._on_timer,
                    time_ms,
                    self._shown,
                    stamps=same(self._stamp()),
                )
            else:
                stamps = without_time if self._noted is None else self._noted.take
                await self._emit_results(
                    self._at_timer, self._some_fired, queue, until_ms, stamps=stamps
                )
            await self._interrupt()

    def _some_fired(self, queue: TimerQueue, until_ms: int) -> Iterator[Any]:
        call, shown, fired, began = self._on_timer, self._shown, 0, task_time()
        while fired < self._slice.records and (due := queue.pop_due(until_ms)) is not None:
            fired += 1
            self._show(due)
            results = records_in(call(due.timestamp_ms, shown))
            yield from (
                results if self._noted is None else self._noted.with_stamp(self._stamp(), results)
            )
        self._slice.took(fired, task_time() - began)

    def _stamp(self) -> Stamp:
        """Return the timestamp of what the call of ``on_timer`` returns."""
        view = self._view
        return view.current_timestamp if view.domain is TimeDomain.EVENT_TIME else None

    def _show(self, due: DueTimer) -> None:
        self._view.current_timestamp = due.timestamp_ms
        self._view.current_key = self._place.current_key = due.key

    def _at_timer(self) -> str:
        key = reprlib.repr(self._view.current_key)
        return f"in on_timer() at {self._view.current_timestamp} for the key {key}"
