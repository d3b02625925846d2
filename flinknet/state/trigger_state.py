"""Trigger state: the states of a trigger for a window (PyFlink's get_partitioned_state).

Theory of operation. A pane has a dict for its trigger. A state is a view of the entry under its
descriptor's name, so it is written and removed with the pane. When windows merge, the trigger
clears its state of each merged window. Numbers that it does not clear are added up. While the
trigger is notified of the new window, its states of the merged windows are available again, and can
be merged by descriptor. All other state is dropped, as in Flink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, cast

from flinknet.errors import ConfigurationError
from flinknet.state.descriptors import StateDescriptor, StateKind
from flinknet.state.keyed_state import state_over
from flinknet.state.state_table import StateTable
from flinknet.state.window_state import require_plain

__all__ = ["merged_memory", "merged_state", "state_in"]

Memory = dict[str, Any]
"""The states of a trigger for one window, by name."""


class _Named:
    """The entry of one name in a memory: a table with the name as the key in progress."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self.current_key = name

    def attach(self, holder: Any) -> None:
        """Let a state read and write here, as in a table."""
        holder._entries = self._memory


def state_in(memory: Memory, descriptor: Any) -> Any:
    """Return the state of the descriptor's kind and name in a memory.

    Raises ConfigurationError for an argument that is not a descriptor, and for state that expires
    or has a serializer.
    """
    if not isinstance(descriptor, StateDescriptor):
        raise ConfigurationError(
            f"a trigger requests its state with a descriptor, not {type(descriptor).__name__}"
        )
    require_plain(descriptor)
    place = _Named(memory, descriptor.name)
    return state_over(cast(StateTable, place), place, descriptor)


def merged_memory(parts: Sequence[Mapping[str, Any]]) -> Memory:
    """Return the memory of merged windows for the trigger: the sums of the numbers.

    This is the memory before the trigger is notified of the merge.
    """
    memory: Memory = {}
    for part in parts:
        for name, kept in part.items():
            if isinstance(kept, int | float):
                memory[name] = memory.get(name, 0) + kept
    return memory


def merged_state(parts: Sequence[Mapping[str, Any]], descriptor: Any) -> Any:
    """Return the merged entry of a descriptor's name in merged windows; None if there is none.

    Raises ConfigurationError for state that cannot be merged, as in Flink.
    """
    kept = [part[descriptor.name] for part in parts if descriptor.name in part]
    if not kept:
        return None
    match descriptor.kind:
        case StateKind.LIST:
            return [element for one in kept for element in one]
        case StateKind.REDUCING:
            function = descriptor.reduce_function
            return reduce(getattr(function, "reduce", function), kept)
        case StateKind.AGGREGATING:
            return reduce(descriptor.agg_function.merge, kept)
        case kind:
            raise ConfigurationError(
                f'"{descriptor.name}" is a {kind.value} state, which cannot be merged with its '
                "windows: use a list, a reducing or an aggregating state"
            )
