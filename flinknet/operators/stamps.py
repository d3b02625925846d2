"""Operators on records with timestamps: tuples ``(timestamp, value)`` inside the runtime.

Theory of operation. An operator knows nothing of timestamps. Where the job graph says that its
records have some, its function is wrapped: it gets the value, and what it returns gets the
timestamp of what it came from. So streams without timestamps pay nothing.

| results of | have the timestamp of |
|---|---|
| map, flat_map, filter, process | the record |
| reduce, aggregate | the record that was added last |
| on_timer | the timer, if it is one of event time |
| map_batch, process_batch | the latest record of the batch |
| finish() | nothing: it is None |

Sinks get values. Key selectors and partitioners look at the value.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

from flinknet.errors import ConfigurationError
from flinknet.functions.calls import bound_function, each_of, is_awaiting, of_chain
from flinknet.functions.context import OnTimerContext, ProcessContext, RuntimeContext
from flinknet.functions.functions import (
    AggregateFunction,
    Function,
    find_attributes_fast,
    key_of_value,
)
from flinknet.operators.batch_operators import MapBatchOperator, ProcessBatchOperator
from flinknet.operators.keyed_operators import (
    AggregateOperator,
    EmitMode,
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ReduceOperator,
)
from flinknet.operators.operators import (
    CallableSinkOperator,
    Emit,
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    Operator,
    OperatorFactory,
    PassOn,
    ProcessOperator,
)
from flinknet.operators.sink import Sink, SinkOperator
from flinknet.state.timer_service import TimeDomain

__all__ = ["Stamped", "StampedFunction", "latest", "stamped_timer", "with_timestamps"]

Stamped = tuple[int | None, Any]
"""A value with its timestamp, None if it has none."""


def latest(timestamps: Iterable[int | None]) -> int | None:
    """Return the latest of timestamps, None if there is none."""
    return max((one for one in timestamps if one is not None), default=None)


class StampedFunction(Function):
    """A user's function whose ``method`` is replaced by ``call``, with the same life."""

    on_timer: Callable[..., Any]
    """Only that of a keyed process function has one."""

    def __init__(self, function: Any, method: str, call: Callable[..., Any]) -> None:
        self._function = function
        self.wrapped = function
        find_attributes_fast(function)
        setattr(self, method, call)

    def open(self, runtime_context: RuntimeContext) -> Any:
        if isinstance(self._function, Function):
            return self._function.open(runtime_context)
        return None

    @of_chain
    async def finish(self) -> AsyncGenerator[Stamped, None]:
        if isinstance(self._function, Function):
            async with aclosing(each_of(self._function.finish)) as values:
                async for value in values:
                    yield None, value

    def close(self) -> Any:
        return self._function.close() if isinstance(self._function, Function) else None


def _stamped_map(function: Any) -> StampedFunction:
    call = bound_function(function, "map")

    async def map_awaiting(record: Stamped) -> Stamped:
        return record[0], await call(record[1])

    def map_(record: Stamped) -> Stamped:
        return record[0], call(record[1])

    method = map_awaiting if is_awaiting(call) else map_
    return StampedFunction(function, "map", method)


def _map(function: Any) -> Operator:
    return MapOperator(_stamped_map(function))


def _keyed_map(function: Any, key_of: Callable[[Any], Any]) -> Operator:
    return KeyedMapOperator(_stamped_map(function), key_of_value(key_of))


def _stamped_filter(function: Any) -> StampedFunction:
    call = bound_function(function, "filter")

    async def filter_awaiting(record: Stamped) -> Any:
        return await call(record[1])

    def filter_(record: Stamped) -> Any:
        return call(record[1])

    method = filter_awaiting if is_awaiting(call) else filter_
    return StampedFunction(function, "filter", method)


def _filter(function: Any) -> Operator:
    return FilterOperator(_stamped_filter(function))


def _keyed_filter(function: Any, key_of: Callable[[Any], Any]) -> Operator:
    return KeyedFilterOperator(_stamped_filter(function), key_of_value(key_of))


def _stamped_flat_map(function: Any) -> StampedFunction:
    call = bound_function(function, "flat_map")

    @of_chain
    async def flat_map_awaiting(record: Stamped) -> AsyncGenerator[Stamped, None]:
        stamp, value = record
        async with aclosing(each_of(call, value)) as results:
            async for result in results:
                yield stamp, result

    def flat_map(record: Stamped) -> Iterator[Stamped]:
        stamp, value = record
        for result in call(value) or ():
            yield stamp, result

    method = flat_map_awaiting if is_awaiting(call) else flat_map
    return StampedFunction(function, "flat_map", method)


def _flat_map(function: Any) -> Operator:
    return FlatMapOperator(_stamped_flat_map(function))


def _keyed_flat_map(function: Any, key_of: Callable[[Any], Any]) -> Operator:
    return KeyedFlatMapOperator(_stamped_flat_map(function), key_of_value(key_of))


def _stamped_process(function: Any) -> StampedFunction:
    call = bound_function(function, "process_element")

    @of_chain
    async def process_awaiting(
        record: Stamped, view: ProcessContext
    ) -> AsyncGenerator[Stamped, None]:
        stamp, value = record
        view.current_timestamp = stamp
        async with aclosing(each_of(call, value, view)) as results:
            async for result in results:
                yield stamp, result

    def process(record: Stamped, view: ProcessContext) -> Iterator[Stamped]:
        stamp, value = record
        view.current_timestamp = stamp
        for result in call(value, view) or ():
            yield stamp, result

    method = process_awaiting if is_awaiting(call) else process
    return StampedFunction(function, "process_element", method)


def _process(function: Any) -> Operator:
    return ProcessOperator(_stamped_process(function))


def _keyed_process(function: Any, key_of: Callable[[Any], Any]) -> Operator:
    stamped = _stamped_process(function)
    on_timer = getattr(function, "on_timer", None)
    if on_timer is not None:
        stamped.on_timer = stamped_timer(on_timer)
    return KeyedProcessOperator(stamped, key_of_value(key_of))


def stamped_timer(call: Callable[..., Any]) -> Callable[..., Any]:
    """Give what ``on_timer`` returns the time of the timer; None if that is processing time."""

    @of_chain
    async def on_timer_awaiting(
        timestamp: int, view: OnTimerContext
    ) -> AsyncGenerator[Stamped, None]:
        async with aclosing(each_of(call, timestamp, view)) as results:
            async for result in results:
                yield _stamp(view), result

    def on_timer(timestamp: int, view: OnTimerContext) -> Iterator[Stamped]:
        for result in call(timestamp, view) or ():
            yield _stamp(view), result

    return on_timer_awaiting if is_awaiting(call) else on_timer


def _stamp(view: OnTimerContext) -> int | None:
    return view.timestamp() if view.time_domain() is TimeDomain.EVENT_TIME else None


def _stamped_batches(function: Any, method: str) -> StampedFunction:
    """Wrap a function whose last argument is a list of records."""
    call = bound_function(function, method)

    @of_chain
    async def batch_of(*arguments: Any) -> AsyncGenerator[Stamped, None]:
        *others, records = arguments
        stamp = latest(stamp for stamp, _ in records)
        values = [value for _, value in records]
        async with aclosing(each_of(call, *others, values)) as results:
            async for result in results:
                yield stamp, result

    return StampedFunction(function, method, batch_of)


def _map_batch(function: Any) -> Operator:
    return MapBatchOperator(_stamped_batches(function, "map_batch"))


def _process_batch(function: Any, key_of: Callable[[Any], Any]) -> Operator:
    return ProcessBatchOperator(_stamped_batches(function, "process_batch"), key_of_value(key_of))


def _reduce(
    function: Any, key_of: Callable[[Any], Any], emit_mode: EmitMode | None = None
) -> Operator:
    call = bound_function(function, "reduce")

    def reduce(before: Stamped, record: Stamped) -> Stamped:
        return record[0], call(before[1], record[1])

    stamped = StampedFunction(function, "reduce", reduce)
    return ReduceOperator(stamped, key_of_value(key_of), emit_mode)


class _StampedAggregate(StampedFunction, AggregateFunction):
    """An aggregate function whose accumulator keeps the last timestamp beside the user's own."""

    def __init__(self, function: AggregateFunction) -> None:
        super().__init__(function, "aggregate_function", function.add)
        self._aggregate = function

    def create_accumulator(self) -> Stamped:
        return None, self._aggregate.create_accumulator()

    def add(self, value: Stamped, accumulator: Stamped) -> Stamped:
        return value[0], self._aggregate.add(value[1], accumulator[1])

    def get_result(self, accumulator: Stamped) -> Stamped:
        return accumulator[0], self._aggregate.get_result(accumulator[1])


class _StampedAggregateOperator(AggregateOperator):
    """Emits ``(timestamp, (key, result))`` where it would emit ``(key, (timestamp, result))``."""

    def connect(self, emit: Emit, pass_on: PassOn | None = None) -> None:
        async def emit_stamped(results: list[Any]) -> None:
            await emit([_outwards(result) for result in results])

        super().connect(emit_stamped, pass_on)


def _outwards(result: Any) -> Stamped:
    key, (stamp, value) = result
    return stamp, (key, value)


def _aggregate(
    function: AggregateFunction,
    key_of: Callable[[Any], Any],
    emit_mode: EmitMode | None = None,
) -> Operator:
    return _StampedAggregateOperator(_StampedAggregate(function), key_of_value(key_of), emit_mode)


def _values_only(operator: Operator) -> Operator:
    process = operator.process

    async def process_values(records: list[Any]) -> None:
        await process([value for _, value in records])

    operator.process = process_values
    operator.iterates_once = True
    return operator


def _sink(sink: Sink) -> Operator:
    return _values_only(SinkOperator(sink))


def _callable_sink(function: Any) -> Operator:
    return _values_only(CallableSinkOperator(function))


_WRAPPED: dict[Any, Callable[..., Operator]] = {
    AggregateOperator: _aggregate,
    CallableSinkOperator: _callable_sink,
    FilterOperator: _filter,
    FlatMapOperator: _flat_map,
    KeyedFilterOperator: _keyed_filter,
    KeyedFlatMapOperator: _keyed_flat_map,
    KeyedMapOperator: _keyed_map,
    KeyedProcessOperator: _keyed_process,
    MapBatchOperator: _map_batch,
    MapOperator: _map,
    ProcessBatchOperator: _process_batch,
    ProcessOperator: _process,
    ReduceOperator: _reduce,
    SinkOperator: _sink,
}


def with_timestamps(
    factory: OperatorFactory, name: str, inputs: tuple[bool, ...]
) -> OperatorFactory:
    """Return the factory of an operator that does the same to records with timestamps, where
    ``inputs`` says which of its inputs have some.

    Raises ConfigurationError for an operator that cannot.
    """
    made: Callable[..., Operator] = factory
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}
    if isinstance(factory, partial):
        made, arguments, keywords = factory.func, factory.args, factory.keywords
    if getattr(made, "takes_timestamps", False):
        stamped = inputs if len(inputs) > 1 else inputs[0]
        return partial(made, *arguments, **keywords, stamped=stamped)
    if made not in _WRAPPED:
        raise ConfigurationError(
            f'operator "{name}" cannot take records with timestamps: put it before '
            "assign_timestamps_and_watermarks"
        )
    return partial(_WRAPPED[made], *arguments, **keywords)
