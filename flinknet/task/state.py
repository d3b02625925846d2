"""Keyed state: what a keyed operator remembers per key.

Theory of operation. A ``KeyedState`` belongs to one operator in one subtask and holds one dict, key
-> value, per state name; its keys are what ``comparable_key`` makes of those of the records. They
are exactly those that the hash partitioner sent here, so their key groups lie in the subtask's key
group range. The dicts are flat, because a key group per record would cost more than the record
itself; ``key_groups`` takes a dict apart when someone needs the groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from flinknet.records.key_forms import comparable_key
from flinknet.records.key_groups import key_group

__all__ = ["KeyContext", "KeyedState", "ValueState", "ValueStateDescriptor"]


class KeyContext(Protocol):
    """Who knows the key of the record in progress (Flink's KeyContext)."""

    current_key: Any


@dataclass(frozen=True, slots=True)
class ValueStateDescriptor:
    """Names a value that is kept per key."""

    name: str


class KeyedState:
    """The state of one keyed operator in one subtask, by state name and key."""

    def __init__(self, max_parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self._values: dict[str, dict[Any, Any]] = {}

    def values_of(self, name: str) -> dict[Any, Any]:
        """Return the live dict of one state, key -> value."""
        return self._values.setdefault(name, {})

    def key_groups(self, name: str) -> dict[int, dict[Any, Any]]:
        """Return one state taken apart: key group -> key -> value, groups without keys left out."""
        groups: dict[int, dict[Any, Any]] = {}
        for key, value in self.values_of(name).items():
            groups.setdefault(key_group(key, self._max_parallelism), {})[key] = value
        return groups


class ValueState:
    """One value per key; every call is about the key of the record in progress."""

    __slots__ = ("_context", "_values")

    def __init__(self, values: dict[Any, Any], context: KeyContext) -> None:
        self._values = values
        self._context = context

    def value(self) -> Any:
        """Return the value of the current key, None if it has none."""
        key = self._context.current_key
        try:
            return self._values[key]
        except (KeyError, TypeError):
            return self._values.get(comparable_key(key))

    def update(self, value: Any) -> None:
        """Set the value of the current key."""
        self._values[self._place()] = value

    def clear(self) -> None:
        """Forget the current key."""
        self._values.pop(self._place(), None)

    def _place(self) -> Any:
        """Return what the current key is in the dict, or is to be."""
        key = self._context.current_key
        try:
            return key if key in self._values else comparable_key(key)
        except TypeError:
            return comparable_key(key)
