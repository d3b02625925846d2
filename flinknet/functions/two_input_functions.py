"""Function classes for two connected streams, in the shape of PyFlink's.

Records of the two streams arrive in any order. The methods of a function share its state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from flinknet.functions import context
from flinknet.functions.broadcast_context import BroadcastContext, OnTimerBroadcastContext
from flinknet.functions.functions import Function

__all__ = [
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
]


class CoMapFunction(Function, ABC):
    """A function that turns each record of either stream into one record."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the record that replaces a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the record that replaces a record of the second stream."""


class CoFlatMapFunction(Function, ABC):
    """A function that turns each record of either stream into any number of records."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for a record of the second stream."""


class CoProcessFunction(Function, ABC):
    """A CoFlatMapFunction with a context for each record, and side outputs."""

    Context: TypeAlias = context.ProcessContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: context.ProcessContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: context.ProcessContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for a record of the second stream."""


class KeyedCoProcessFunction(CoProcessFunction):
    """A CoProcessFunction on two keyed streams, with keyed state and timers."""

    OnTimerContext: TypeAlias = context.OnTimerContext

    def on_timer(self, timestamp: int, ctx: context.OnTimerContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records when a timer fires.

        Timers are registered with ``ctx.timer_service()``. Keyed state belongs to the timer's key,
        ``ctx.get_current_key()``.
        """


class BroadcastProcessFunction(Function, ABC):
    """A function on a stream and on another stream that is broadcast to all subtasks."""

    Context: TypeAlias = BroadcastContext
    ReadOnlyContext: TypeAlias = BroadcastContext

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; broadcast state is read-only."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; broadcast state can be changed.

        Every subtask must change it in the same way.
        """


class KeyedBroadcastProcessFunction(BroadcastProcessFunction):
    """A BroadcastProcessFunction on a keyed first stream.

    ``process_element`` can use keyed state and timers.
    """

    OnTimerContext: TypeAlias = OnTimerBroadcastContext

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records when a timer fires.

        Timers are registered with ``ctx.timer_service()``. Keyed state belongs to the timer's key,
        and broadcast state is read-only.
        """
