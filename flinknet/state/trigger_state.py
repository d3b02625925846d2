"""What a trigger remembers of a window, as states (PyFlink's get_partitioned_state).

Theory of operation. A pane has a dict for its trigger; a state is a view of what stands there under
the name of its descriptor, so that it is written, and goes, with the pane. Where windows become
one, the trigger clears what it has of each. Numbers that it leaves are added up; whatever it had
before is there once more while it is told of the new window, to be merged by descriptor. The rest
is forgotten, as in Flink.
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
"""What a trigger remembers of one window, by name."""


class _Named:
    """The place of one name in a memory: a table of which the name is the key in progress."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self.current_key = name

    def attach(self, holder: Any) -> None:
        """Have a state read and write here, as in a table."""
        holder._entries = self._memory


def state_in(memory: Memory, descriptor: Any) -> Any:
    """Return the state of that kind and name in a memory.

    ConfigurationError for what is no descriptor, and for state that expires or has a serializer.
    """
    if not isinstance(descriptor, StateDescriptor):
        raise ConfigurationError(
            f"a trigger's state is asked for by a descriptor, not {type(descriptor).__name__}"
        )
    require_plain(descriptor)
    place = _Named(memory, descriptor.name)
    return state_over(cast(StateTable, place), place, descriptor)


def merged_memory(parts: Sequence[Mapping[str, Any]]) -> Memory:
    """What is remembered of windows that became one before the trigger is told: numbers, in sum."""
    memory: Memory = {}
    for part in parts:
        for name, kept in part.items():
            if isinstance(kept, int | float):
                memory[name] = memory.get(name, 0) + kept
    return memory


def merged_state(parts: Sequence[Mapping[str, Any]], descriptor: Any) -> Any:
    """What windows that became one have under a descriptor's name together; None if none has.

    ConfigurationError for state that cannot be merged, as in Flink.
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
                f'"{descriptor.name}" is a {kind.value} state, and windows become one: take a '
                "list, a reducing or an aggregating state, which can be merged"
            )
