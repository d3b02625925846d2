"""The timers of an operator, and the calls of ``on_timer`` (Flink's Triggerable).

Theory of operation. Event-time timers fire when the operator advances the watermark. Timers of
processing time fire when the subtask's clock calls back, always between two batches. The current
key is set before a call, so ``on_timer`` sees the state of the timer's key. Results of many calls
are emitted together.

As many timers may be due at once as there are keys. They fire in slices of about half a
millisecond. Between two slices, other subtasks get a turn and a checkpoint may be taken, because
pending timers are state (Flink: InternalTimeServiceManager, interruptible timers).
"""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from flinknet.functions.calls import is_awaiting, records_in
from flinknet.functions.context import OnTimerContext, RuntimeContext
from flinknet.net.task_clock import task_time
from flinknet.operators.record_slices import SliceSize
from flinknet.operators.timestamped_batch import (
    NextTimestamps,
    ResultTimestamps,
    Timestamp,
    no_timestamps,
    same,
)
from flinknet.state.timer_queue import DueTimer, TimerQueue
from flinknet.state.timer_service import TimeDomain, Timers, TimerService
from flinknet.wire.events import MAX_WATERMARK

__all__ = ["TimerCalls"]


class EmitResults(Protocol):
    """Function that calls ``call`` and emits its results; errors name ``where()``."""

    def __call__(
        self,
        where: Callable[[], str],
        call: Callable[..., Any],
        *arguments: Any,
        stamps: NextTimestamps = no_timestamps,
    ) -> Awaitable[None]: ...


class TimerCalls:
    """The timers of one operator in one subtask, and the calls of ``on_timer``.

    Args:
        on_timer: the user's function.
        context: the context of the operator in its subtask.
        emit_results: emits the results of calls.
        view: the timer's context, updated before each call.
        shown: passed to ``on_timer`` in place of ``view``, as another view of the same context.
        stamped: whether results have timestamps.
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
        self._noted = ResultTimestamps() if stamped else None
        self._timers = Timers(context.state.keyed, context.processing_time, self._fire_by_clock)
        self._place.timers = view.timers = TimerService(self._timers, self._place)

    def start(self) -> None:
        """Set the clock for restored timers; called once the function is open."""
        self._timers.set_clock()

    async def advance_watermark(self, timestamp_ms: int) -> None:
        """Advance event time, and fire the timers registered up to ``timestamp_ms``."""
        self._place.current_watermark = timestamp_ms
        await self._fire(TimeDomain.EVENT_TIME, timestamp_ms)

    async def end_of_input(self) -> None:
        """Advance event time to its end; processing-time timers do not fire any more."""
        self.close()
        await self.advance_watermark(MAX_WATERMARK)

    def close(self) -> None:
        """Stop processing-time timers. Idempotent."""
        self._timers.close()

    async def _fire_by_clock(self) -> None:
        passed_ms = self._timers.clock.get_passed_time()
        await self._fire(TimeDomain.PROCESSING_TIME, passed_ms)
        self._timers.set_clock()

    async def _fire(self, domain: TimeDomain, until_ms: int) -> None:
        """Fire all timers up to ``until_ms``, including those registered meanwhile."""
        queue, view = self._timers.of(domain), self._view
        waits = is_awaiting(self._on_timer)
        while (deadline_ms := queue.deadline_ms) is not None and deadline_ms <= until_ms:
            # Between two slices, timers of the other time domain may have fired.
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
                stamps = no_timestamps if self._noted is None else self._noted.take
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
                results
                if self._noted is None
                else self._noted.with_timestamp(self._stamp(), results)
            )
        self._slice.took(fired, task_time() - began)

    def _stamp(self) -> Timestamp:
        """Return the timestamp for the results of a call of ``on_timer``."""
        view = self._view
        return view.current_timestamp if view.domain is TimeDomain.EVENT_TIME else None

    def _show(self, due: DueTimer) -> None:
        self._view.current_timestamp = due.timestamp_ms
        self._view.current_key = self._place.current_key = due.key

    def _at_timer(self) -> str:
        key = reprlib.repr(self._view.current_key)
        return f"in on_timer() at {self._view.current_timestamp} for the key {key}"
