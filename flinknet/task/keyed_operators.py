"""Operators on a keyed stream: every record meets the state of its key.

The key selector has already run in the producer, to find the subtask; here it runs again, to find
the state. Keys are compared as Python compares them, so 1, 1.0 and True are one key; but NaN is
one, too, and a list is the tuple of its parts (``comparable_key``), for which is looked when a key
is not found as it is.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

from flinknet.errors import ConfigurationError
from flinknet.records.cooperative_budget import yield_to_loop
from flinknet.records.key_forms import comparable_key
from flinknet.task.context import OnTimerContext, RuntimeContext
from flinknet.task.functions import AggregateFunction, find_attributes_fast
from flinknet.task.operators import (
    FunctionOperator,
    in_batches,
    is_awaiting,
    records_in,
    results_of,
)
from flinknet.task.state.descriptors import StateKind
from flinknet.task.state.keyed_state import KeyedState
from flinknet.task.timers.timer_queue import DueTimer, TimerQueue
from flinknet.task.timers.timer_service import TimeDomain, Timers, TimerService
from flinknet.task.watermark_valve import MAX_WATERMARK
from flinknet.wire.events import Watermark

__all__ = [
    "AggregateOperator",
    "EmitMode",
    "FoldOperator",
    "KeyedOperator",
    "KeyedProcessOperator",
    "ReduceOperator",
    "StatefulOperator",
]

TIMERS_AT_ONCE = 256
"""Timers that fire before other subtasks get their turn."""

EmitMode = Literal["every_record", "end_of_input"]
"""When a fold speaks: after every record, as a stream does, or once per key, as a batch job
does."""


class KeyedOperator(FunctionOperator):
    """An operator with keyed state."""

    state: KeyedState
    """Known when the operator is opened."""

    def __init__(self, function: Any, method: str, key_of: Callable[[Any], Any]) -> None:
        super().__init__(function, method)
        find_attributes_fast(key_of)
        self._key_of = key_of


class StatefulOperator(KeyedOperator):
    """A keyed operator whose function may ask for state of its own, of the current key."""

    async def open(self, context: RuntimeContext) -> None:
        self.state = context.state.keyed
        await super().open(replace(context, keyed_state=self.state))


class KeyedProcessOperator(StatefulOperator):
    """As process, with keyed state and timers."""

    def __init__(self, function: Any, key_of: Callable[[Any], Any]) -> None:
        super().__init__(function, "process_element", key_of)
        self._on_timer: Callable[..., Any] | None = getattr(function, "on_timer", None)
        self._timers: Timers | None = None
        self._timer_view = OnTimerContext()

    async def open(self, context: RuntimeContext) -> None:
        view = context.process_context
        if self._on_timer is not None:
            timers = Timers(context.state.keyed, context.processing_time, self._fire_by_clock)
            self._timers = timers
            view.timers = self._timer_view.timers = TimerService(timers, view)
        await super().open(context)
        if self._timers is not None:
            self._timers.set_clock()

    async def process_watermark(self, watermark: Watermark) -> None:
        await self.advance_watermark(watermark.timestamp_ms)
        await super().process_watermark(watermark)

    async def advance_watermark(self, timestamp_ms: int) -> None:
        """Event time has come to there: what was registered until then fires."""
        self._context.process_context.current_watermark = timestamp_ms
        await self._fire(TimeDomain.EVENT_TIME, timestamp_ms)

    async def end_of_input(self) -> None:
        if self._timers is not None:
            self._timers.close()
        await self.advance_watermark(MAX_WATERMARK)
        await super().end_of_input()

    async def close(self) -> None:
        if self._timers is not None:
            self._timers.close()
        await super().close()

    async def _fire_by_clock(self) -> None:
        assert self._timers is not None, "the clock was set for timers"
        now_ms = self._timers.clock.get_current_processing_time()
        await self._fire(TimeDomain.PROCESSING_TIME, now_ms)
        self._timers.set_clock()

    async def _fire(self, domain: TimeDomain, until_ms: int) -> None:
        """Have all timers fire until then, also those that are registered meanwhile; other subtasks
        get a turn after every TIMERS_AT_ONCE."""
        if self._timers is None or self._on_timer is None:
            return
        queue, view = self._timers.of(domain), self._timer_view
        view.domain = domain
        view.current_watermark = self._context.process_context.current_watermark
        waits = is_awaiting(self._on_timer)
        while (deadline_ms := queue.deadline_ms) is not None and deadline_ms <= until_ms:
            if waits:
                self._show(queue.pop_due(until_ms))
                await self._emit_results(
                    self._at_timer, self._on_timer, view.current_timestamp, view
                )
            else:
                await self._emit_results(self._at_timer, self._some_fired, queue, until_ms)
            await yield_to_loop()

    def _some_fired(self, queue: TimerQueue, until_ms: int) -> Iterator[Any]:
        call, view = self._on_timer, self._timer_view
        assert call is not None, "timers fire"
        for _ in range(TIMERS_AT_ONCE):
            due = queue.pop_due(until_ms)
            if due is None:
                return
            self._show(due)
            yield from records_in(call(due.timestamp_ms, view))

    def _show(self, due: DueTimer | None) -> None:
        assert due is not None, "a timer is due"
        view = self._timer_view
        view.current_timestamp = due.timestamp_ms
        view.current_key = self._context.process_context.current_key = due.key

    def _at_timer(self) -> str:
        view = self._timer_view
        key = reprlib.repr(view.current_key)
        return f"in on_timer() at {view.current_timestamp} for the key {key}"

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        return in_batches(self._call, self._results(records))

    def _results(self, records: Iterator[Any]) -> Iterator[Any]:
        call, key_of, view = self._call, self._key_of, self._context.process_context
        for record in records:
            view.current_key = key_of(record)
            yield call(record, view)

    async def _apply_awaiting(self, record: Any) -> Iterable[Any]:
        view = self._context.process_context
        view.current_key = self._key_of(record)
        return await results_of(self._call(record, view))


class FoldOperator(KeyedOperator):
    """What reduce and aggregate share: one value per key, and when results are emitted.

    A value is changed by a plain function only, so that a batch is folded in one loop. Which dict
    the values are in may change from one batch to the next (``state_table.py``).
    """

    awaits = False
    kind: StateKind

    def __init__(
        self, function: Any, method: str, key_of: Callable[[Any], Any], emit_mode: EmitMode
    ) -> None:
        super().__init__(function, method, key_of)
        if emit_mode not in get_args(EmitMode):
            raise ConfigurationError(
                f'emit is {emit_mode!r}: choose "every_record" or "end_of_input"'
            )
        self._every_record = emit_mode == "every_record"

    async def open(self, context: RuntimeContext) -> None:
        self.state = context.state.keyed
        self._table = self.state.table("value", self.kind)
        await super().open(context)

    async def end_of_input(self) -> None:
        if not self._every_record:
            await self._emit_results(lambda: "at the end of its input", self._results)
        await super().end_of_input()

    def _results(self) -> Iterator[Any]:
        """Generate the final result of every key."""
        raise NotImplementedError


class ReduceOperator(FoldOperator):
    """Reduces the records of a key to one record."""

    kind = StateKind.REDUCING

    def __init__(
        self, function: Any, key_of: Callable[[Any], Any], emit_mode: EmitMode = "every_record"
    ) -> None:
        super().__init__(function, "reduce", key_of, emit_mode)

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        reduce, key_of, values = self._call, self._key_of, self._table.live
        every_record = self._every_record
        results: list[Any] = []
        for record in records:
            key = key_of(record)
            try:
                before = values[key]
            except (KeyError, TypeError):
                key = comparable_key(key)
                after = reduce(values[key], record) if key in values else record
            else:
                after = reduce(before, record)
            values[key] = after
            if every_record:
                results.append(after)
        yield results

    def _results(self) -> Iterator[Any]:
        for _, value in self._table.entries():
            yield value


class AggregateOperator(FoldOperator):
    """Folds the records of a key into an accumulator; a result is emitted as (key, result)."""

    kind = StateKind.AGGREGATING

    def __init__(
        self,
        function: AggregateFunction,
        key_of: Callable[[Any], Any],
        emit_mode: EmitMode = "every_record",
    ) -> None:
        if not isinstance(function, AggregateFunction):
            raise ConfigurationError(
                f"aggregate needs an AggregateFunction, not {type(function).__name__}"
            )
        super().__init__(function, "add", key_of, emit_mode)
        self._create = function.create_accumulator
        self._result_of = function.get_result

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        add, key_of, values = self._call, self._key_of, self._table.live
        result_of, every_record = self._result_of, self._every_record
        results: list[Any] = []
        for record in records:
            key = key_of(record)
            try:
                before = values[key]
            except (KeyError, TypeError):
                key = comparable_key(key)
                if key not in values:
                    values[key] = self._create()
                before = values[key]
            after = add(record, before)
            if after is not before:
                values[key] = after
            if every_record:
                results.append((key, result_of(after)))
        yield results

    def _results(self) -> Iterator[Any]:
        result_of = self._result_of
        for key, accumulator in self._table.entries():
            yield key, result_of(accumulator)
