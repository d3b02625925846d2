"""What a function asks for when it asks for state: PyFlink's state descriptors.

PyFlink's descriptors take the types of values, too. Here values say themselves what they are: types
are taken, so that a program runs in both, and not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import itemgetter
from typing import Any

from flinknet.errors import ConfigurationError
from flinknet.state.time_to_live import StateTtlConfig
from flinknet.state.value_serializer import StateSerializer

__all__ = [
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateKind",
    "ValueStateDescriptor",
]


class StateKind(Enum):
    """What a state keeps per key; the values stand in checkpoints."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    TIMERS = "timers"

    def mapped(self, function: Callable[[Any], Any], kept: Any, *, timed: bool = False) -> Any:
        """Return what is kept of a key with the function applied to each of the user's values in
        it; ``timed`` says that each is kept in a pair, behind when it was last used."""
        if self is StateKind.LIST:
            return [self._one(function, each, timed) for each in kept]
        if self is StateKind.MAP:
            return {key: self._one(function, each, timed) for key, each in kept.items()}
        return self._one(function, kept, timed)

    @staticmethod
    def _one(function: Callable[[Any], Any], kept: Any, timed: bool) -> Any:
        return (kept[0], function(kept[1])) if timed else function(kept)

    def with_times(self, kept: Any, now_ms: int) -> Any:
        """Return what is kept of a key with a time for each value."""
        return self.mapped(lambda value: (now_ms, value), kept)

    def without_times(self, kept: Any) -> Any:
        """Return what is kept of a key without them."""
        return self.mapped(itemgetter(1), kept)


class StateDescriptor:
    """Names a state, and says how it is kept; the base of the others.

    ``serializer`` writes values to checkpoints that cannot be written as records are.
    """

    kind: StateKind

    def __init__(self, name: str, *, serializer: StateSerializer | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a state is called {name!r}: choose a text that is not empty")
        self.name = name
        self.serializer = serializer
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name, which is unique in its operator."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Have values expire that are not used for a while."""
        self.ttl_config = ttl_config if ttl_config.is_enabled else None


class ValueStateDescriptor(StateDescriptor):
    """One value per key."""

    kind = StateKind.VALUE

    def __init__(
        self, name: str, value_type_info: Any = None, *, serializer: StateSerializer | None = None
    ) -> None:
        super().__init__(name, serializer=serializer)


class ListStateDescriptor(StateDescriptor):
    """A list per key; ``serializer`` is that of an element."""

    kind = StateKind.LIST

    def __init__(
        self, name: str, elem_type_info: Any = None, *, serializer: StateSerializer | None = None
    ) -> None:
        super().__init__(name, serializer=serializer)


class MapStateDescriptor(StateDescriptor):
    """A map per key; ``serializer`` is that of its values."""

    kind = StateKind.MAP

    def __init__(
        self,
        name: str,
        key_type_info: Any = None,
        value_type_info: Any = None,
        *,
        serializer: StateSerializer | None = None,
    ) -> None:
        super().__init__(name, serializer=serializer)


class ReducingStateDescriptor(StateDescriptor):
    """Per key what a ReduceFunction, or a plain function, has made of all values."""

    kind = StateKind.REDUCING

    def __init__(
        self,
        name: str,
        reduce_function: Any,
        type_info: Any = None,
        *,
        serializer: StateSerializer | None = None,
    ) -> None:
        super().__init__(name, serializer=serializer)
        self.reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """Return what reduces the values."""
        return self.reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Per key the accumulator of an AggregateFunction."""

    kind = StateKind.AGGREGATING

    def __init__(
        self,
        name: str,
        agg_function: Any,
        state_type_info: Any = None,
        *,
        serializer: StateSerializer | None = None,
    ) -> None:
        super().__init__(name, serializer=serializer)
        self.agg_function = agg_function

    def get_agg_function(self) -> Any:
        """Return what makes the accumulator."""
        return self.agg_function
