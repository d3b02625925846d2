"""Operators on a keyed stream, which give every record access to the state of its key.

The producer has already run the key selector, to find the subtask; the operator runs it again, to
find the state. Keys are compared as Python compares them, so 1, 1.0 and True are one key. In
addition, NaN equals itself, and a list equals the tuple of its items (``comparable_key``). That
form is used only when a key is not found as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

from flinknet.errors import ConfigurationError
from flinknet.functions.calls import in_pieces, results_of
from flinknet.functions.context import OnTimerContext, RuntimeContext
from flinknet.functions.functions import AggregateFunction, find_attributes_fast
from flinknet.operators.operators import (
    FilterOperator,
    FlatMapOperator,
    FunctionOperator,
    MapOperator,
)
from flinknet.operators.timer_calls import TimerCalls
from flinknet.operators.timestamped_batch import ResultTimestamps
from flinknet.records.detached import each_detached, each_result
from flinknet.records.key_normalization import comparable_key
from flinknet.state.descriptors import StateKind
from flinknet.state.keyed_state import KeyedState
from flinknet.wire.events import MAX_WATERMARK, Watermark

__all__ = [
    "AggregateOperator",
    "EmitMode",
    "FoldOperator",
    "KeyedFilterOperator",
    "KeyedFlatMapOperator",
    "KeyedMapOperator",
    "KeyedOperator",
    "KeyedProcessOperator",
    "ReduceOperator",
    "StatefulOperator",
]

EmitMode = Literal["every_record", "end_of_input"]
"""When a fold emits: after every record (streaming), or once per key at the end (batch).

Where None is allowed, it leaves the choice to the runtime mode. An operator treats None as
``"every_record"``.
"""


_NOTHING = object()


class KeyedOperator(FunctionOperator):
    """An operator with keyed state."""

    state: KeyedState
    """Set when the operator is opened."""

    def __init__(self, function: Any, method: str, key_of: Callable[[Any], Any]) -> None:
        super().__init__(function, method)
        find_attributes_fast(key_of)
        self._key_of = key_of


class StatefulOperator(KeyedOperator):
    """A keyed operator that lets its function keep state for the current key."""

    async def open(self, context: RuntimeContext) -> None:
        self.state = context.state.keyed
        await super().open(replace(context, keyed_state=self.state))


class RecordByRecord(StatefulOperator):
    """Mixin that sets the current key for each record of an operator without a key.

    A subclass also derives from the plain operator. Its function may use state of the record's key.
    """

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        return super()._apply(self._with_keys(records))

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        self._context.process_context.current_key = self._key_of(record)
        return await super()._apply_awaiting(record)

    def _with_keys(self, records: Iterator[Any]) -> Iterator[Any]:
        """Generate the records; a record's key stays current until the next record is taken."""
        key_of, view = self._key_of, self._context.process_context
        for record in records:
            view.current_key = key_of(record)
            yield record


class KeyedMapOperator(RecordByRecord, MapOperator):
    """Map with keyed state."""

    def __init__(self, function: Any, key_of: Callable[[Any], Any]) -> None:
        MapOperator.__init__(self, function)
        self._key_of = key_of


class KeyedFlatMapOperator(RecordByRecord, FlatMapOperator):
    """Flat map with keyed state."""

    def __init__(self, function: Any, key_of: Callable[[Any], Any]) -> None:
        FlatMapOperator.__init__(self, function)
        self._key_of = key_of


class KeyedFilterOperator(RecordByRecord, FilterOperator):
    """Filter with keyed state."""

    def __init__(self, function: Any, key_of: Callable[[Any], Any]) -> None:
        FilterOperator.__init__(self, function)
        self._key_of = key_of


class KeyedProcessOperator(StatefulOperator):
    """Process function with keyed state and timers."""

    def __init__(self, function: Any, key_of: Callable[[Any], Any]) -> None:
        super().__init__(function, "process_element", key_of)
        self._on_timer: Callable[..., Any] | None = getattr(function, "on_timer", None)
        self._timers: TimerCalls | None = None

    async def open(self, context: RuntimeContext) -> None:
        if self._on_timer is not None:
            self._timers = TimerCalls(
                self._on_timer,
                context,
                self._emit_results,
                view=OnTimerContext(),
                stamped=self.is_timestamped,
            )
        await super().open(context)
        if self._timers is not None:  # Restored timers may be due at once.
            self._timers.start()

    async def process_watermark(self, watermark: Watermark) -> None:
        # The timers first: behind the watermark, their results would be late.
        if self._timers is not None:
            await self._timers.advance_watermark(watermark.timestamp_ms)
        await super().process_watermark(watermark)

    async def end_of_input(self) -> None:
        if self._timers is not None:
            await self._timers.end_of_input()
        await super().end_of_input()

    async def close(self) -> None:
        if self._timers is not None:
            self._timers.close()
        await super().close()

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        results = each_result(self._results(records), self.detachment)
        return in_pieces(self._marked(results))

    def _results(self, records: Iterator[Any]) -> Iterator[Any]:
        call, key_of, view = self._call, self._key_of, self._context.process_context
        stamps = self._stamps
        for record in records:
            if stamps is not None:
                view.current_timestamp = stamps.stamp
            view.current_key = key_of(record)
            yield call(record, view)

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        view = self._context.process_context
        view.current_key = self._key_of(record)
        return await results_of(self._call(record, view), self.detachment)


class FoldOperator(KeyedOperator):
    """Base of reduce and aggregate: one value per key, and the choice of when to emit results.

    The function must be plain, so that a batch is folded in one loop. The dict with the values may
    be replaced between two batches (``state_table.py``). If records have timestamps, the timestamp
    of the last record is kept with the value: ``(timestamp, value)``.
    """

    awaits = False
    kind: StateKind

    def __init__(
        self, function: Any, method: str, key_of: Callable[[Any], Any], emit_mode: EmitMode | None
    ) -> None:
        super().__init__(function, method, key_of)
        if emit_mode is not None and emit_mode not in get_args(EmitMode):
            raise ConfigurationError(
                f'emit is {emit_mode!r}: choose "every_record" or "end_of_input"'
            )
        self._every_record = self.gives_one_each = emit_mode != "end_of_input"

    async def open(self, context: RuntimeContext) -> None:
        self.state = context.state.keyed
        self._table = self.state.table("value", self.kind)
        await super().open(context)

    async def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp_ms == MAX_WATERMARK and not self._every_record:
            # Emit before the watermark: after the end of event time the results would be late.
            # Then remove them from the state, so that a restart from here does not repeat them.
            await self._emit_final_results()
            values = self._table.live
            for key in [key for key, _ in self._table.entries()]:
                values.pop(key, None)
        await super().process_watermark(watermark)

    async def end_of_input(self) -> None:
        if not self._every_record:
            await self._emit_final_results()
        await super().end_of_input()

    async def _emit_final_results(self) -> None:
        noted = ResultTimestamps()
        results = self._timed_results(noted) if self.is_timestamped else self._results()
        await self._emit_results(
            lambda: "at the end of its input", lambda: results, stamps=noted.take
        )

    def _timed_results(self, noted: ResultTimestamps) -> Iterator[Any]:
        for key, (stamp, value) in self._table.entries():
            yield from noted.with_timestamp(stamp, [self._result(key, value)])

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        yield list(each_detached(self._folded(records), self.detachment))

    def _folded(self, records: Iterator[Any]) -> Iterator[Any]:
        """Fold the records; generate one result per record if each one is emitted."""
        raise NotImplementedError

    def _results(self) -> Iterator[Any]:
        """Generate the final result of every key."""
        for key, value in self._table.entries():
            yield self._result(key, value)

    def _result(self, key: Any, value: Any) -> Any:
        """Return the result for a key's value."""
        raise NotImplementedError


class ReduceOperator(FoldOperator):
    """Reduce the records of a key to one record."""

    kind = StateKind.REDUCING

    def __init__(
        self, function: Any, key_of: Callable[[Any], Any], emit_mode: EmitMode | None = None
    ) -> None:
        super().__init__(function, "reduce", key_of, emit_mode)

    def _folded(self, records: Iterator[Any]) -> Iterator[Any]:
        reduce, key_of, values = self._call, self._key_of, self._table.live
        every_record = self._every_record
        stamps = self._stamps
        for record in records:
            key = key_of(record)
            try:
                before = values[key]
            except (KeyError, TypeError):  # The key may be a list, which cannot be hashed.
                key = comparable_key(key)
                before = values.get(key, _NOTHING)
            if before is _NOTHING:
                after = record
            else:
                after = reduce(before if stamps is None else before[1], record)
            values[key] = after if stamps is None else (stamps.stamp, after)
            if every_record:
                yield after

    def _result(self, key: Any, value: Any) -> Any:
        return value


class AggregateOperator(FoldOperator):
    """Fold the records of a key into an accumulator; emit each result as (key, result)."""

    kind = StateKind.AGGREGATING

    def __init__(
        self,
        function: object,
        key_of: Callable[[Any], Any],
        emit_mode: EmitMode | None = None,
    ) -> None:
        if not isinstance(function, AggregateFunction):
            raise ConfigurationError(
                f"aggregate needs an AggregateFunction, not {type(function).__name__}"
            )
        super().__init__(function, "add", key_of, emit_mode)
        self._create = function.create_accumulator
        self._result_of = function.get_result

    def _folded(self, records: Iterator[Any]) -> Iterator[Any]:
        add, key_of, values = self._call, self._key_of, self._table.live
        result_of, every_record = self._result_of, self._every_record
        stamps = self._stamps
        for record in records:
            key = key_of(record)
            try:
                before = values[key]
            except (KeyError, TypeError):  # As in ReduceOperator, the key may be a list.
                key = comparable_key(key)
                if key not in values:
                    made = self._create()
                    values[key] = made if stamps is None else (None, made)
                before = values[key]
            if stamps is None:
                after = add(record, before)
                if after is not before:
                    values[key] = after
            else:
                after = add(record, before[1])
                values[key] = stamps.stamp, after
            if every_record:
                yield key, result_of(after)

    def _result(self, key: Any, value: Any) -> Any:
        return key, self._result_of(value)
