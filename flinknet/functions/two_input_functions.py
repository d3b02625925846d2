"""What a user writes for two streams that are connected: function classes in PyFlink's shape.

The two streams come in any order. State is shared: what one method has kept, the other one sees.
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
    """One record of either stream in, one record out."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the record that replaces one of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the record that replaces one of the second stream."""


class CoFlatMapFunction(Function, ABC):
    """One record of either stream in, any number out."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for one of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for one of the second stream."""


class CoProcessFunction(Function, ABC):
    """As CoFlatMapFunction, with a view of where the record came from, and side outputs."""

    Context: TypeAlias = context.ProcessContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: context.ProcessContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for one of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: context.ProcessContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for one of the second stream."""


class KeyedCoProcessFunction(CoProcessFunction):
    """The same on two keyed streams: ``open`` can ask for keyed state, and there are timers."""

    OnTimerContext: TypeAlias = context.OnTimerContext

    def on_timer(self, timestamp: int, ctx: context.OnTimerContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records, when a timer fires that was registered with
        ``ctx.timer_service()``; state is that of the timer's key, ``ctx.get_current_key()``."""


class BroadcastProcessFunction(Function, ABC):
    """A stream that meets what another one has sent to all subtasks."""

    Context: TypeAlias = BroadcastContext
    ReadOnlyContext: TypeAlias = BroadcastContext

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; broadcast state can be read."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; broadcast state can be changed, in every
        subtask in the same way."""


class KeyedBroadcastProcessFunction(BroadcastProcessFunction):
    """The same where the first stream has a key, and keyed state and timers, in
    ``process_element``."""

    OnTimerContext: TypeAlias = OnTimerBroadcastContext

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records, when a timer fires that was registered with
        ``ctx.timer_service()``; state is that of its key, and broadcast state can be read."""
