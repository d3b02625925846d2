"""The getters of keyed state, with PyFlink's names (its KeyedStateStore).

Each kind of state has its getter only here. The subclasses choose the state that a getter returns:
for the key in progress, or for the key in a window.
"""

from __future__ import annotations

from typing import Any

from flinknet.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flinknet.state.folding_state import AggregatingState, ReducingState
from flinknet.state.list_state import ListState
from flinknet.state.map_state import MapState
from flinknet.state.value_state import ValueState

__all__ = ["KeyedStateStore"]


class KeyedStateStore:
    """Base of all stores from which functions request keyed state."""

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState:
        """Return a value per key."""
        state: ValueState = self._state_of(state_descriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """Return a list per key."""
        state: ListState = self._state_of(state_descriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState:
        """Return a map per key."""
        state: MapState = self._state_of(state_descriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState:
        """Return a value per key, combined with each added value."""
        state: ReducingState = self._state_of(state_descriptor)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState:
        """Return an accumulator per key."""
        state: AggregatingState = self._state_of(state_descriptor)
        return state

    def _state_of(self, descriptor: StateDescriptor) -> Any:
        """Return the state of the descriptor's kind.

        Raises ConfigurationError if the function has no keyed state.
        """
        raise NotImplementedError
