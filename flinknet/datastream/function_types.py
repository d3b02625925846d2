"""The types of the functions that streams take.

A function is a callable, or an object with the method of its function class. So these are protocols
with that method: the types of a function follow from the annotations of its method, even if its
class names no type parameters, as in programs for PyFlink.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Never, Protocol, TypeAlias

from flinknet.compatibility.subscripted import A, B, C, K, TypeVar, W
from flinknet.functions.broadcast_context import (
    BroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastState,
)
from flinknet.functions.context import OnTimerContext, ProcessContext
from flinknet.functions.results import MaybeAwaitable, Results, ResultsOrTagged
from flinknet.functions.window_functions import WindowContext
from flinknet.state.operator_state import BroadcastState

__all__ = [
    "Aggregates",
    "AllWindowFunctionOf",
    "AppliesAllWindow",
    "AppliesWindow",
    "AsyncFunctionOf",
    "AwaitingMapFunctionOf",
    "BatchFunctionOf",
    "BroadcastFunctionOf",
    "CoFlatMaps",
    "CoMaps",
    "CoMapsAwaiting",
    "CoProcessFunctionOf",
    "FilterFunctionOf",
    "FlatMapFunctionOf",
    "KeySelectorOf",
    "KeyedBatchFunctionOf",
    "MapFunctionOf",
    "OnlyTimersEmit",
    "PartitionerOf",
    "ProcessFunctionOf",
    "ProcessesWithTimers",
    "ReduceFunctionOf",
    "SinkFunctionOf",
    "TimersEmitNothing",
    "WindowFunctionOf",
]

_Nothing: TypeAlias = Awaitable[None] | None

A_contra = TypeVar("A_contra", contravariant=True, default=Any)
B_contra = TypeVar("B_contra", contravariant=True, default=Any)
C_co = TypeVar("C_co", covariant=True, default=Never)
D_co = TypeVar("D_co", covariant=True, default=Never)
"""Results; a function that returns None has none."""
K_contra = TypeVar("K_contra", contravariant=True, default=Any)
K_co = TypeVar("K_co", covariant=True, default=Any)
W_contra = TypeVar("W_contra", contravariant=True, default=Any)


class _Maps(Protocol[A_contra, C_co]):
    def map(self, value: A_contra, /) -> MaybeAwaitable[C_co]: ...


class _MapsAwaiting(Protocol[A_contra, C_co]):
    def map(self, value: A_contra, /) -> Awaitable[C_co]: ...


class _FlatMaps(Protocol[A_contra, C_co]):
    def flat_map(self, value: A_contra, /) -> Results[C_co]: ...


class _Filters(Protocol[A_contra]):
    def filter(self, value: A_contra, /) -> MaybeAwaitable[Any]: ...


class _MapsBatches(Protocol[A, C_co]):
    def map_batch(self, values: list[A], /) -> Results[C_co]: ...


class _MapsKeyedBatches(Protocol[K_contra, A, C_co]):
    def process_batch(self, key: K_contra, values: list[A], /) -> Results[C_co]: ...


class _SelectsKey(Protocol[A_contra, K_co]):
    def get_key(self, value: A_contra, /) -> K_co: ...


class _Partitions(Protocol[K_contra]):
    def partition(self, key: K_contra, num_partitions: int, /) -> int: ...


class _Reduces(Protocol[A]):
    def reduce(self, value1: A, value2: A, /) -> MaybeAwaitable[A]: ...


class Aggregates(Protocol[A_contra, B, C_co]):
    """An AggregateFunction of records, accumulators and results."""

    def create_accumulator(self) -> B: ...

    def add(self, value: A_contra, accumulator: B, /) -> B: ...

    def get_result(self, accumulator: B, /) -> C_co: ...


class _Processes(Protocol[A_contra, C_co]):
    def process_element(self, value: A_contra, ctx: ProcessContext, /) -> ResultsOrTagged[C_co]: ...


class OnlyTimersEmit(Protocol[A_contra, C_co]):
    """A KeyedProcessFunction that emits records from its timers alone."""

    def process_element(self, value: A_contra, ctx: ProcessContext, /) -> _Nothing: ...

    def on_timer(self, timestamp: int, ctx: OnTimerContext, /) -> ResultsOrTagged[C_co]: ...


class TimersEmitNothing(Protocol[A_contra, C_co]):
    """A KeyedProcessFunction whose timers emit no records."""

    def process_element(self, value: A_contra, ctx: ProcessContext, /) -> ResultsOrTagged[C_co]: ...

    def on_timer(self, timestamp: int, ctx: OnTimerContext, /) -> _Nothing: ...


class ProcessesWithTimers(Protocol[A_contra, C_co, D_co]):
    """A KeyedProcessFunction; its timers may emit records of another type."""

    def process_element(self, value: A_contra, ctx: ProcessContext, /) -> ResultsOrTagged[C_co]: ...

    def on_timer(self, timestamp: int, ctx: OnTimerContext, /) -> ResultsOrTagged[D_co]: ...


class _InvokesAsync(Protocol[A_contra, C_co]):
    def async_invoke(self, value: A_contra, /) -> Results[C_co]: ...


class _Consumes(Protocol[A_contra]):
    def invoke(self, value: A_contra, /) -> Any: ...


class CoMaps(Protocol[A_contra, B_contra, C_co, D_co]):
    """A CoMapFunction."""

    def map1(self, value: A_contra, /) -> MaybeAwaitable[C_co]: ...

    def map2(self, value: B_contra, /) -> MaybeAwaitable[D_co]: ...


class CoMapsAwaiting(Protocol[A_contra, B_contra, C_co, D_co]):
    """A CoMapFunction whose methods are coroutine functions."""

    def map1(self, value: A_contra, /) -> Awaitable[C_co]: ...

    def map2(self, value: B_contra, /) -> Awaitable[D_co]: ...


class CoFlatMaps(Protocol[A_contra, B_contra, C_co, D_co]):
    """A CoFlatMapFunction."""

    def flat_map1(self, value: A_contra, /) -> Results[C_co]: ...

    def flat_map2(self, value: B_contra, /) -> Results[D_co]: ...


class _CoProcesses(Protocol[A_contra, B_contra, C_co]):
    def process_element1(
        self, value: A_contra, ctx: ProcessContext, /
    ) -> ResultsOrTagged[C_co]: ...

    def process_element2(
        self, value: B_contra, ctx: ProcessContext, /
    ) -> ResultsOrTagged[C_co]: ...


class _CoProcessesWithTimers(
    _CoProcesses[A_contra, B_contra, C_co], Protocol[A_contra, B_contra, C_co]
):
    def on_timer(self, timestamp: int, ctx: OnTimerContext, /) -> ResultsOrTagged[C_co]: ...


class _BroadcastProcesses(Protocol[A_contra, B_contra, C_co]):
    def process_element(
        self, value: A_contra, ctx: BroadcastContext[ReadOnlyBroadcastState], /
    ) -> ResultsOrTagged[C_co]: ...

    def process_broadcast_element(
        self, value: B_contra, ctx: BroadcastContext[BroadcastState], /
    ) -> ResultsOrTagged[C_co]: ...


class _BroadcastProcessesWithTimers(
    _BroadcastProcesses[A_contra, B_contra, C_co], Protocol[A_contra, B_contra, C_co]
):
    def on_timer(
        self, timestamp: int, ctx: OnTimerBroadcastContext, /
    ) -> ResultsOrTagged[C_co]: ...


class _ProcessesWindow(Protocol[A, C_co, K_contra, W]):
    def process(
        self, key: K_contra, context: WindowContext[W], elements: list[A], /
    ) -> ResultsOrTagged[C_co]: ...


class AppliesWindow(Protocol[A, C_co, K_contra, W_contra]):
    """A WindowFunction."""

    def apply(
        self, key: K_contra, window: W_contra, inputs: list[A], /
    ) -> ResultsOrTagged[C_co]: ...


class _ProcessesAllWindow(Protocol[A, C_co, W]):
    def process(self, context: WindowContext[W], elements: list[A], /) -> ResultsOrTagged[C_co]: ...


class AppliesAllWindow(Protocol[A, C_co, W_contra]):
    """An AllWindowFunction."""

    def apply(self, window: W_contra, inputs: list[A], /) -> ResultsOrTagged[C_co]: ...


MapFunctionOf: TypeAlias = _Maps[A, C] | Callable[[A], MaybeAwaitable[C]]
AwaitingMapFunctionOf: TypeAlias = _MapsAwaiting[A, C] | Callable[[A], Awaitable[C]]
FlatMapFunctionOf: TypeAlias = _FlatMaps[A, C] | Callable[[A], Results[C]]
FilterFunctionOf: TypeAlias = _Filters[A] | Callable[[A], MaybeAwaitable[Any]]
BatchFunctionOf: TypeAlias = _MapsBatches[A, C] | Callable[[list[A]], Results[C]]
KeyedBatchFunctionOf: TypeAlias = _MapsKeyedBatches[K, A, C] | Callable[[K, list[A]], Results[C]]
KeySelectorOf: TypeAlias = _SelectsKey[A, K] | Callable[[A], K]
PartitionerOf: TypeAlias = _Partitions[K] | Callable[[K, int], int]
ReduceFunctionOf: TypeAlias = _Reduces[A] | Callable[[A, A], MaybeAwaitable[A]]
ProcessFunctionOf: TypeAlias = _Processes[A, C] | Callable[[A, ProcessContext], ResultsOrTagged[C]]
CoProcessFunctionOf: TypeAlias = _CoProcessesWithTimers[A, B, C] | _CoProcesses[A, B, C]
BroadcastFunctionOf: TypeAlias = (
    _BroadcastProcessesWithTimers[A, B, C] | _BroadcastProcesses[A, B, C]
)
AsyncFunctionOf: TypeAlias = _InvokesAsync[A, C] | Callable[[A], Results[C]]
SinkFunctionOf: TypeAlias = _Consumes[A] | Callable[[A], Any]
WindowFunctionOf: TypeAlias = (
    _ProcessesWindow[A, C, K, W]
    | AppliesWindow[A, C, K, W]
    | Callable[[K, WindowContext[W], list[A]], ResultsOrTagged[C]]
)
AllWindowFunctionOf: TypeAlias = (
    _ProcessesAllWindow[A, C, W]
    | AppliesAllWindow[A, C, W]
    | Callable[[WindowContext[W], list[A]], ResultsOrTagged[C]]
)
"""The last two may receive the window without a context, if the object is a WindowFunction."""
