"""Operators with two inputs, which call one method of the user's function per input.

Theory of operation. The channel of a batch tells its input: the channels of the first input come
first. Such an operator is always the first of its chain. Event time is the minimum of both inputs.
An input without timestamps does not hold it back, and the results of its records have none.

On keyed streams the function may define ``on_timer``. Its results have the timestamp of the timer,
if it is an event-time timer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from flinknet.functions.broadcast_context import BroadcastContext, OnTimerBroadcastContext
from flinknet.functions.calls import BATCH_RECORDS, bound_function, pieces_of, value_of
from flinknet.functions.context import OnTimerContext, RuntimeContext
from flinknet.functions.functions import Function, find_attributes_fast
from flinknet.operators.operators import FunctionOperator, on_records
from flinknet.operators.timer_calls import TimerCalls
from flinknet.operators.timestamped_batch import Batch, Timestamp, TimestampedBatch, as_pairs
from flinknet.records.detached import each_detached
from flinknet.state.descriptors import MapStateDescriptor
from flinknet.wire.events import Watermark

__all__ = [
    "BroadcastProcessOperator",
    "CoFlatMapOperator",
    "CoMapOperator",
    "CoProcessOperator",
    "TwoInputOperator",
]

KeyOf = Callable[[Any], Any]


class TwoInputOperator(FunctionOperator):
    """Base of operators with two inputs.

    ``methods`` names the two methods of the user's function. ``keys`` are the key selectors of the
    inputs, None for an input without a key.
    """

    methods = ("", "")

    def __init__(
        self,
        function: Any,
        keys: tuple[KeyOf | None, KeyOf | None] = (None, None),
    ) -> None:
        super().__init__(function, self.methods[0])
        self._calls = [bound_function(function, method) for method in self.methods]
        for key_of in keys:
            find_attributes_fast(key_of)
        self._keys = keys
        self._out = TimestampedBatch([], [])
        self._timers: TimerCalls | None = None
        self.process = self._process_one_input

    async def open(self, context: RuntimeContext) -> None:
        if any(self._keys):  # Without a key there is neither keyed state nor a timer.
            context = replace(context, keyed_state=context.state.keyed)
            self._timers = self._timers_of(context)
        await super().open(context)
        if self._timers is not None:
            self._timers.start()

    def _timers_of(self, context: RuntimeContext) -> TimerCalls | None:
        """Return the timers of a function that defines ``on_timer``, else None."""
        on_timer = getattr(self._function, "on_timer", None)
        if on_timer is None:
            return None
        view = OnTimerContext()
        return TimerCalls(
            on_timer,
            context,
            self._emit_results,
            view=view,
            shown=self._timer_view(view),
            stamped=self.is_timestamped,
        )

    def _timer_view(self, view: OnTimerContext) -> Any:
        """Return the context that is passed to ``on_timer``."""
        return view

    async def process_watermark(self, watermark: Watermark) -> None:
        if self._timers is not None:
            await self._timers.advance_watermark(watermark.timestamp_ms)
        await super().process_watermark(watermark)

    async def close(self) -> None:
        if self._timers is not None:
            self._timers.close()
        await super().close()

    async def end_of_input(self) -> None:
        if self._timers is not None:
            await self._timers.end_of_input()
        if isinstance(self._function, Function):
            try:
                await self._take(None, pieces_of(self.detachment, self._function.finish))
            except BaseException as error:
                self.fail(error, "in finish()")
        await self._emit_out()

    def _pieces(self, side: int, value: Any) -> AsyncGenerator[list[Any], None]:
        """Call the method of the input ``side`` on a record, and generate its results in pieces."""
        return pieces_of(self.detachment, self._calls[side], value)

    async def _process_one_input(self, records: Batch) -> None:
        view = self._context.process_context
        # Channels are numbered input by input, and a batch comes from a single channel.
        side = int(view.channel >= self._context.channels_of_first_input)
        key_of = self._keys[side]
        for stamp, value in as_pairs(records):
            view.current_timestamp = stamp
            try:
                view.current_key = None if key_of is None else key_of(value)
                await self._take(stamp, self._pieces(side, value))
            except BaseException as error:
                self.fail(error, on_records((value,)))
        await self._emit_out()

    async def _take(self, stamp: Timestamp, pieces: AsyncGenerator[list[Any], None]) -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                # Collect the results of several records: an emission costs more than a record.
                self._out.add(stamp, piece)
                if len(self._out) >= BATCH_RECORDS:
                    await self._emit_out()

    async def _emit_out(self) -> None:
        out, self._out = self._out, TimestampedBatch([], [])
        if len(out):
            await self._emit(out if self.is_timestamped else out.values)


class CoMapOperator(TwoInputOperator):
    """Map each record to one record."""

    methods = ("map1", "map2")

    async def _pieces(self, side: int, value: Any) -> AsyncGenerator[list[Any], None]:
        result = [await value_of(self._calls[side](value))]
        yield list(each_detached(result, self.detachment))


class CoFlatMapOperator(TwoInputOperator):
    """Map each record to any number of records."""

    methods = ("flat_map1", "flat_map2")


class CoProcessOperator(TwoInputOperator):
    """Map each record to any number of records, with a view of the record's origin."""

    methods = ("process_element1", "process_element2")

    def _pieces(self, side: int, value: Any) -> AsyncGenerator[list[Any], None]:
        return pieces_of(self.detachment, self._calls[side], value, self._context.process_context)


class BroadcastProcessOperator(TwoInputOperator):
    """Process a stream with broadcast state.

    The first input is the stream. The second one reaches all subtasks and may change the state.
    """

    methods = ("process_element", "process_broadcast_element")

    def __init__(
        self,
        function: Any,
        keys: tuple[KeyOf | None, KeyOf | None],
        descriptors: tuple[MapStateDescriptor, ...],
    ) -> None:
        super().__init__(function, keys)
        self._descriptors = descriptors

    async def open(self, context: RuntimeContext) -> None:
        store = context.state.operator
        self._states = {one.name: store.get_broadcast_state(one) for one in self._descriptors}
        self._clock = context.processing_time
        # Only the broadcast input may change the state: it reaches all subtasks with the same
        # records, so that all of them keep the same state.
        self._views = [
            BroadcastContext(
                context.process_context, self._clock, self._states, read_only=read_only
            )
            for read_only in (True, False)
        ]
        await super().open(context)

    def _timer_view(self, view: OnTimerContext) -> Any:
        return OnTimerBroadcastContext(view, self._clock, self._states)

    def _pieces(self, side: int, value: Any) -> AsyncGenerator[list[Any], None]:
        return pieces_of(self.detachment, self._calls[side], value, self._views[side])
