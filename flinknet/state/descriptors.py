"""State descriptors: PyFlink's descriptors, by which a function requests state.

PyFlink's descriptors also take the types of values. In flinknet the values carry their types. The
arguments for types are accepted, so that a program runs with both, and ignored.
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
    """Kind of a state; the values appear in checkpoints."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    TIMERS = "timers"

    def mapped(self, function: Callable[[Any], Any], kept: Any, *, timed: bool = False) -> Any:
        """Return a key's entry with a function applied to each of the user's values in it.

        ``timed`` tells that each value is stored in a pair, after the time of its last use.
        """
        if self is StateKind.LIST:
            return [self._one(function, each, timed) for each in kept]
        if self is StateKind.MAP:
            return {key: self._one(function, each, timed) for key, each in kept.items()}
        return self._one(function, kept, timed)

    @staticmethod
    def _one(function: Callable[[Any], Any], kept: Any, timed: bool) -> Any:
        return (kept[0], function(kept[1])) if timed else function(kept)

    def with_times(self, kept: Any, now_ms: int) -> Any:
        """Return a key's entry with a time for each value."""
        return self.mapped(lambda value: (now_ms, value), kept)

    def without_times(self, kept: Any) -> Any:
        """Return a key's entry without the times."""
        return self.mapped(itemgetter(1), kept)


class StateDescriptor:
    """Name and storage of a state; the base of the other descriptors.

    ``serializer`` serialises values that cannot be written to checkpoints as records are.
    """

    kind: StateKind

    def __init__(self, name: str, *, serializer: StateSerializer | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"the name of a state is {name!r}: choose a non-empty text")
        self.name = name
        self.serializer = serializer
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name, which is unique in its operator."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let values expire that are not used for a while."""
        self.ttl_config = ttl_config if ttl_config.is_enabled else None


class ValueStateDescriptor(StateDescriptor):
    """Descriptor of one value per key."""

    kind = StateKind.VALUE

    def __init__(
        self, name: str, value_type_info: Any = None, *, serializer: StateSerializer | None = None
    ) -> None:
        super().__init__(name, serializer=serializer)


class ListStateDescriptor(StateDescriptor):
    """Descriptor of a list per key; ``serializer`` serialises an element."""

    kind = StateKind.LIST

    def __init__(
        self, name: str, elem_type_info: Any = None, *, serializer: StateSerializer | None = None
    ) -> None:
        super().__init__(name, serializer=serializer)


class MapStateDescriptor(StateDescriptor):
    """Descriptor of a map per key; ``serializer`` serialises the values of the map."""

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
    """Descriptor of a value per key, reduced by a ReduceFunction or a plain function."""

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
        """Return the function that reduces the values."""
        return self.reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Descriptor of the accumulator of an AggregateFunction per key."""

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
        """Return the aggregate function."""
        return self.agg_function
