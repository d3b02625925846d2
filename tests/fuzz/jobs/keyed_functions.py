"""Keyed functions of random jobs, with every type of state, polite and rude.

Each counts the records of a key, or chains their numbers where the order is determined
(``Meaning.next``). The state keeps the same object that a rude function emits. The function changes
that object in place at the next record of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import nan
from typing import Any

from flinknet.datastream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ProcessBatchFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from tests.fuzz.jobs.conduct import Conduct
from tests.fuzz.jobs.meaning import Mode, following, merged
from tests.fuzz.jobs.user_functions import SIDE, SIDE_MODULUS
from tests.fuzz.jobs.values import CHANGEABLE_SHAPES, fresh, make, parts, refill, shape_of

__all__ = [
    "LAST_MS",
    "STATES",
    "Accumulate",
    "CoCount",
    "Count",
    "CountBatches",
    "CountFilter",
    "CountFlatMap",
    "CountMap",
    "Reduce",
    "RuleCount",
    "Timers",
]

LAST_MS = 2**50
"""A timer for this time fires only at the end of the input."""

TTL = StateTtlConfig.new_builder(Time.days(1)).build()
"""A time to live longer than any run."""


class Reduce(ReduceFunction):
    """A function that folds a record into the reduced one; a rude one does so in place."""

    def __init__(self, mode: Mode, conduct: Conduct, *, is_rude: bool) -> None:
        self._mode, self._conduct, self._is_rude = mode, conduct, is_rude

    def reduce(self, value1: Any, value2: Any) -> Any:
        self._conduct.begin()
        k, before, x = parts(value1)
        n = following(self._mode, before, parts(value2)[1])
        if self._is_rude and shape_of(value1) in CHANGEABLE_SHAPES:
            refill(value1, k, n, x)
            return value1
        return make(shape_of(value1), fresh(k), n, fresh(x))


class Accumulate(AggregateFunction):
    """A fold of records into a record of a shape; a rude one returns the accumulator itself."""

    def __init__(self, mode: Mode, shape: str, conduct: Conduct, *, is_rude: bool) -> None:
        self._mode, self._shape, self._conduct = mode, shape, conduct
        self._is_rude = is_rude

    def create_accumulator(self) -> Any:
        return make(self._shape, None, 0, None)

    def add(self, value: Any, accumulator: Any) -> Any:
        self._conduct.begin()
        k, n, _ = parts(value)
        n = following(self._mode, parts(accumulator)[1], n)
        if self._is_rude and shape_of(accumulator) in CHANGEABLE_SHAPES:
            refill(accumulator, k, n, None)
            return accumulator
        return make(self._shape, fresh(k), n, None)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator if self._is_rude else fresh(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        k, n, _ = parts(acc_a)
        n = merged(self._mode, n, parts(acc_b)[1])
        if self._is_rude and shape_of(acc_a) in CHANGEABLE_SHAPES:
            refill(acc_a, k, n, None)
            return acc_a
        return make(self._shape, fresh(k), n, None)


class KeptRecord:
    """The record that the state keeps for each key."""

    def __init__(self, mode: Mode, shape: str, conduct: Conduct, *, has_ttl: bool) -> None:
        self.mode, self.shape, self.conduct, self.has_ttl = mode, shape, conduct, has_ttl

    def open(self, context: RuntimeContext, name: str) -> None:
        """Open the state."""
        raise NotImplementedError

    def add(self, k: Any, n: int) -> Any:
        """Count a record, and return the record that the state keeps now."""
        raise NotImplementedError

    def descriptor(self, descriptor: Any) -> Any:
        """Return the descriptor, with a time to live if the function has one."""
        if self.has_ttl:
            descriptor.enable_time_to_live(TTL)
        return descriptor

    def next(self, k: Any, n: int, before: Any) -> Any:
        """Return the successor of ``before``, the same object if it can be changed."""
        n = following(self.mode, 0 if before is None else parts(before)[1], n)
        if before is not None and shape_of(before) in CHANGEABLE_SHAPES:
            refill(before, k, n, None)
            return before
        return make(self.shape, k, n, None)


class _InValue(KeptRecord):
    def open(self, context: RuntimeContext, name: str) -> None:
        self._state = context.get_state(self.descriptor(ValueStateDescriptor(name)))

    def add(self, k: Any, n: int) -> Any:
        kept = self.next(k, n, self._state.value())
        self._state.update(kept)
        return kept


class _InList(KeptRecord):
    """All records of the key, in a list; the last one counts, and the others are changed."""

    def open(self, context: RuntimeContext, name: str) -> None:
        self._state = context.get_list_state(self.descriptor(ListStateDescriptor(name)))

    def add(self, k: Any, n: int) -> Any:
        kept = list(self._state.get())
        before = None if not kept else parts(kept[-1])[1]
        new = make(self.shape, k, following(self.mode, before or 0, n), None)
        for one in kept[:-1]:
            if shape_of(one) in CHANGEABLE_SHAPES:
                refill(one, "old", -1, None)
        # Exercise each way to change a list state in turn.
        if len(kept) % 3 == 2:
            self._state.update([*kept[-2:], new])
        elif len(kept) % 3 == 1:
            self._state.add_all([new])
        else:
            self._state.add(new)
        return list(self._state.get())[-1]


class _InMap(KeptRecord):
    """The last two records of the key, in a map by their number."""

    def open(self, context: RuntimeContext, name: str) -> None:
        self._state = context.get_map_state(self.descriptor(MapStateDescriptor(name)))

    def add(self, k: Any, n: int) -> Any:
        numbers = list(self._state.keys())
        last = max(numbers, default=0)
        before = self._state.get(last)
        new = make(
            self.shape, k, following(self.mode, 0 if before is None else parts(before)[1], n), None
        )
        if before is not None and shape_of(before) in CHANGEABLE_SHAPES:
            refill(before, "old", parts(before)[1], None)
        self._state.put(last + 1, new)
        for number in numbers[:-1]:
            self._state.remove(number)
        return self._state.get(last + 1)


class _InMapUnderNaN(KeptRecord):
    """The record of the key in a map, under a NaN that is another object each time."""

    def open(self, context: RuntimeContext, name: str) -> None:
        self._state = context.get_map_state(self.descriptor(MapStateDescriptor(name)))

    def add(self, k: Any, n: int) -> Any:
        new = self.next(k, n, self._state.get(float("nan")))
        self._state.put(float("nan"), new)
        (kept,) = self._state.values()
        assert self._state.contains(nan)
        return kept


class _InReducing(KeptRecord):
    def open(self, context: RuntimeContext, name: str) -> None:
        reduce = Reduce(self.mode, self.conduct, is_rude=True)
        self._state = context.get_reducing_state(
            self.descriptor(ReducingStateDescriptor(name, reduce))
        )

    def add(self, k: Any, n: int) -> Any:
        self._state.add(make(self.shape, k, following(self.mode, 0, n), None))
        return self._state.get()


class _InAggregating(KeptRecord):
    def open(self, context: RuntimeContext, name: str) -> None:
        add = Accumulate(self.mode, self.shape, self.conduct, is_rude=True)
        self._state = context.get_aggregating_state(
            self.descriptor(AggregatingStateDescriptor(name, add))
        )

    def add(self, k: Any, n: int) -> Any:
        self._state.add(make(self.shape, k, n, None))
        return self._state.get()


STATES: dict[str, Callable[..., KeptRecord]] = {
    "value": _InValue,
    "list": _InList,
    "map": _InMap,
    "map under NaN": _InMapUnderNaN,
    "reducing": _InReducing,
    "aggregating": _InAggregating,
}
"""All ways to keep the record of a key."""


class _Counting:
    """The common part of keyed functions; a rude one emits the state's record itself."""

    def __init__(self, kept: KeptRecord, conduct: Conduct, *, is_rude: bool) -> None:
        self.kept, self.conduct, self.is_rude = kept, conduct, is_rude

    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept.open(runtime_context, "kept")

    def close(self) -> None:
        self.conduct.end()

    def count(self, value: Any) -> Any:
        k, n, _ = parts(value)
        self.conduct.begin()
        kept = self.kept.add(fresh(k), n)
        return kept if self.is_rude else fresh(kept)


class Count(_Counting, KeyedProcessFunction):
    """A function that emits the state's record after each record."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.count(value)


class CountMap(_Counting, MapFunction):
    """The same as a map function."""

    def map(self, value: Any) -> Any:
        return self.count(value)


class CountFlatMap(_Counting, FlatMapFunction):
    """The same as a flat map function."""

    def flat_map(self, value: Any) -> list[Any]:
        return [self.count(value)]


class CountFilter(_Counting, FilterFunction):
    """A filter that drops a record if the new number of its key is a multiple of three."""

    def filter(self, value: Any) -> bool:
        return bool(parts(self.count(value))[1] % 3)


class CountBatches(_Counting, ProcessBatchFunction):
    """The same for the records of a batch."""

    def process_batch(self, key: Any, values: list[Any]) -> Iterator[Any]:
        for value in values:
            yield self.count(value)


class Timers(KeyedProcessFunction):
    """A count of the records of a key in each span of event time, emitted at its end."""

    def __init__(self, shape: str, span_ms: int, conduct: Conduct) -> None:
        self._shape, self._span_ms, self._conduct = shape, span_ms, conduct

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counts = runtime_context.get_map_state(MapStateDescriptor("counts"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self._conduct.begin()
        end_ms = ctx.timestamp() - ctx.timestamp() % self._span_ms + self._span_ms - 1
        ctx.timer_service().register_event_time_timer(end_ms)
        # Exercise the deletion of a timer: this one must never fire.
        ctx.timer_service().register_event_time_timer(end_ms + LAST_MS)
        ctx.timer_service().delete_event_time_timer(end_ms + LAST_MS)
        self._counts.put(end_ms, (self._counts.get(end_ms) or 0) + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        count = self._counts.get(timestamp)
        self._counts.remove(timestamp)
        yield make(self._shape, ctx.get_current_key(), count, timestamp)


class CoCount(KeyedCoProcessFunction):
    """A count of the records of a key in each of two streams, and their sum at the end."""

    def __init__(
        self,
        first: KeptRecord,
        second: KeptRecord,
        conduct: Conduct,
        *,
        is_rude: bool,
        has_sides: bool,
    ) -> None:
        self._has_sides = has_sides
        self._first = _Counting(first, conduct, is_rude=is_rude)
        self._second = _Counting(second, conduct, is_rude=is_rude)
        self._shape = first.shape

    def open(self, runtime_context: RuntimeContext) -> None:
        self._first.kept.open(runtime_context, "first")
        self._second.kept.open(runtime_context, "second")
        self._total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element1(self, value: Any, ctx: Any) -> list[Any]:
        return self._one(self._first, value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> list[Any]:
        return self._one(self._second, value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        total = make(self._shape, ctx.get_current_key(), self._total.value(), "end")
        if self._has_sides and parts(total)[1] % SIDE_MODULUS == 0:
            return ((SIDE, total),)
        return (total,)

    def close(self) -> None:
        self._first.close()

    def _one(self, counting: _Counting, value: Any, ctx: Any) -> list[Any]:
        ctx.timer_service().register_event_time_timer(LAST_MS)
        self._total.update((self._total.value() or 0) + 1)
        counted = counting.count(value)
        if self._has_sides and parts(counted)[1] % SIDE_MODULUS == 0:
            return [(SIDE, counted)]
        return [counted]


class RuleCount(KeyedBroadcastProcessFunction):
    """A count of the records of each key, and the number of broadcast rules at the end."""

    def __init__(
        self, kept: KeptRecord, rules: MapStateDescriptor, conduct: Conduct, *, is_rude: bool
    ) -> None:
        self._counting = _Counting(kept, conduct, is_rude=is_rude)
        self._rules = rules
        self._shape = kept.shape

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counting.open(runtime_context)

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        ctx.timer_service().register_event_time_timer(LAST_MS)
        return [self._counting.count(value)]

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(self._rules).put(parts(value)[1], value)

    def on_timer(self, timestamp: int, ctx: Any) -> list[Any]:
        rules = len(list(ctx.get_broadcast_state(self._rules).keys()))
        return [make(self._shape, ctx.get_current_key(), rules, "rules")]

    def close(self) -> None:
        self._counting.close()
