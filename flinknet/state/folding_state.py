"""State that combines all values of a key: ReducingState and AggregatingState."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinknet.compatibility.subscripted import A, B, Subscripted, T
from flinknet.errors import ConfigurationError
from flinknet.state.value_state import ValueState

__all__ = ["AggregatingState", "ReducingState"]


_AGGREGATE_METHODS = ("create_accumulator", "add", "get_result")


class ReducingState(Subscripted[T]):
    """One value per key, combined with each added value."""

    __slots__ = ("_kept", "_reduce")

    def __init__(self, kept: ValueState, reduce_function: Any) -> None:
        reduce = getattr(reduce_function, "reduce", reduce_function)
        if not callable(reduce):
            raise ConfigurationError(
                f"a reducing state takes a ReduceFunction or a callable, not "
                f"{type(reduce_function).__name__}"
            )
        self._kept = kept
        self._reduce: Callable[[Any, Any], Any] = reduce

    def get(self) -> Any:
        """Return the reduced value; None if nothing was added."""
        return self._kept.value()

    def add(self, value: Any) -> None:
        """Combine a value with the reduced value."""
        before = self._kept.value()
        self._kept.update(value if before is None else self._reduce(before, value))

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._kept.clear()


class AggregatingState(Subscripted[A, B]):
    """One accumulator per key, to which values are added."""

    __slots__ = ("_function", "_kept")

    def __init__(self, kept: ValueState, agg_function: Any) -> None:
        if not all(hasattr(agg_function, name) for name in _AGGREGATE_METHODS):
            raise ConfigurationError(
                f"an aggregating state takes an AggregateFunction, not "
                f"{type(agg_function).__name__}"
            )
        self._kept = kept
        self._function = agg_function

    def get(self) -> Any:
        """Return the result of the accumulator; None if nothing was added."""
        accumulator = self._kept.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add a value to the accumulator."""
        accumulator = self._kept.value()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._kept.update(self._function.add(value, accumulator))

    def clear(self) -> None:
        """Remove the accumulator of the current key."""
        self._kept.clear()
