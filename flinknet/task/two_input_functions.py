"""What a user writes for two streams that are connected: function classes in PyFlink's shape.

The two streams come in any order. State is shared: what one method has kept, the other one sees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flinknet.task.functions import Function

if TYPE_CHECKING:
    from flinknet.task.broadcast_context import BroadcastContext
    from flinknet.task.context import ProcessContext

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

    @abstractmethod
    def process_element1(self, value: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for one of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records for one of the second stream."""


class KeyedCoProcessFunction(CoProcessFunction):
    """The same on two keyed streams: ``open`` can ask for keyed state."""


class BroadcastProcessFunction(Function, ABC):
    """A stream that meets what another one has sent to all subtasks."""

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; broadcast state can be read."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; broadcast state can be changed, in every
        subtask in the same way."""


class KeyedBroadcastProcessFunction(BroadcastProcessFunction):
    """The same where the first stream has a key, and keyed state, in ``process_element``."""
