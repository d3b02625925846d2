"""Function classes for two connected streams, in the shape of PyFlink's.

Records of the two streams arrive in any order. The methods of a function share its state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

from flinknet.compatibility.subscripted import A, B, C, K, Subscripted
from flinknet.functions import context
from flinknet.functions.broadcast_context import (
    BroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastState,
)
from flinknet.functions.functions import Function
from flinknet.functions.results import MaybeAwaitable, Results, ResultsOrTagged
from flinknet.state.operator_state import BroadcastState

__all__ = [
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
]


class CoMapFunction(Function, Subscripted[A, B, C], ABC):
    """A function that turns each record of either stream into one record."""

    @abstractmethod
    def map1(self, value: A) -> MaybeAwaitable[C]:
        """Return the record that replaces a record of the first stream."""

    @abstractmethod
    def map2(self, value: B) -> MaybeAwaitable[C]:
        """Return the record that replaces a record of the second stream."""


class CoFlatMapFunction(Function, Subscripted[A, B, C], ABC):
    """A function that turns each record of either stream into any number of records."""

    @abstractmethod
    def flat_map1(self, value: A) -> Results[C]:
        """Yield, or return an iterable of, records for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: B) -> Results[C]:
        """Yield, or return an iterable of, records for a record of the second stream."""


class CoProcessFunction(Function, Subscripted[A, B, C], ABC):
    """A CoFlatMapFunction with a context for each record, and side outputs."""

    Context: TypeAlias = context.ProcessContext

    @abstractmethod
    def process_element1(self, value: A, ctx: context.ProcessContext) -> ResultsOrTagged[C]:
        """Yield, or return an iterable of, records for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: B, ctx: context.ProcessContext) -> ResultsOrTagged[C]:
        """Yield, or return an iterable of, records for a record of the second stream."""


class KeyedCoProcessFunction(CoProcessFunction[A, B, C], Subscripted[K, A, B, C]):
    """A CoProcessFunction on two keyed streams, with keyed state and timers."""

    OnTimerContext: TypeAlias = context.OnTimerContext

    def on_timer(self, timestamp: int, ctx: context.OnTimerContext) -> ResultsOrTagged[C]:
        """Yield, or return an iterable of, records when a timer fires.

        Timers are registered with ``ctx.timer_service()``. Keyed state belongs to the timer's key,
        ``ctx.get_current_key()``.
        """


class BroadcastProcessFunction(Function, Subscripted[A, B, C], ABC):
    """A function on a stream and on another stream that is broadcast to all subtasks."""

    Context: TypeAlias = BroadcastContext[BroadcastState]
    ReadOnlyContext: TypeAlias = BroadcastContext[ReadOnlyBroadcastState]

    @abstractmethod
    def process_element(
        self, value: A, ctx: BroadcastContext[ReadOnlyBroadcastState]
    ) -> ResultsOrTagged[C]:
        """Yield, or return an iterable of, records; broadcast state is read-only."""

    @abstractmethod
    def process_broadcast_element(
        self, value: B, ctx: BroadcastContext[BroadcastState]
    ) -> ResultsOrTagged[C]:
        """Yield, or return an iterable of, records; broadcast state can be changed.

        Every subtask must change it in the same way.
        """


class KeyedBroadcastProcessFunction(BroadcastProcessFunction[A, B, C], Subscripted[K, A, B, C]):
    """A BroadcastProcessFunction on a keyed first stream.

    ``process_element`` can use keyed state and timers.
    """

    OnTimerContext: TypeAlias = OnTimerBroadcastContext

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> ResultsOrTagged[C]:
        """Yield, or return an iterable of, records when a timer fires.

        Timers are registered with ``ctx.timer_service()``. Keyed state belongs to the timer's key,
        and broadcast state is read-only.
        """
