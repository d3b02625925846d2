"""Keyed state: the state of a keyed operator, per key.

Theory of operation. A ``KeyedState`` belongs to one operator in one subtask and holds one table per
state name. The keys of a table are the records' keys, in the form of ``comparable_key`` where they
could not be found otherwise. The hash partitioner has chosen the subtask by the same keys, so their
key groups lie in its key group range. The tables are not divided by key group: computing the group
for each record would cost more than processing it. Groups are computed when state is written
(``keyed_snapshot.py``).

Restored state exists before a function requests it. State that no function requests any more is
kept, and written to the next checkpoint. Values that a user's serializer has written remain bytes
until a function requests the state with that serializer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flinknet.errors import ConfigurationError, StateError
from flinknet.state.descriptors import (
    StateDescriptor,
    StateKind,
)
from flinknet.state.expiring_state import expiring_state
from flinknet.state.folding_state import AggregatingState, ReducingState
from flinknet.state.keyed_access import KeyContext
from flinknet.state.keyed_state_backend import HeapKeyedStateBackend, KeyedStateBackend
from flinknet.state.list_state import ListState
from flinknet.state.map_state import MapState
from flinknet.state.state_table import StateTable
from flinknet.state.time_to_live import StateTtlConfig
from flinknet.state.value_serializer import StateSerializer, serializer_name
from flinknet.state.value_state import ValueState
from flinknet.texts import text_of

__all__ = ["KeyedState", "StateEntry", "state_over"]


class StateEntry:
    """One state: its table, its kind, and the form in which its values are stored and written."""

    def __init__(
        self,
        name: str,
        kind: StateKind,
        *,
        timed: bool = False,
        written_by: str | None = None,
        table: StateTable | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.timed = timed
        """Whether values are stored with the time of their last use."""
        self.written_by = written_by
        """The serializer of the table's values, if these are still bytes; else None."""
        self.serializer: StateSerializer | None = None
        self.ttl_config: StateTtlConfig | None = None
        self.registered = False
        self.table = StateTable() if table is None else table

    @property
    def serializer_name(self) -> str | None:
        """The name in checkpoints of the serializer of the values; None for none."""
        return self.written_by or serializer_name(self.serializer)

    def serialising(self) -> Callable[[Any], Any] | None:
        """Return the function that serialises the values in a key's entry.

        Return None if the values are written as they are.
        """
        if self.serializer is None:
            return None
        return partial(self.kind.mapped, self.serializer.serialize, timed=self.timed)

    def adopt(self, descriptor: StateDescriptor, now_ms: int) -> None:
        """Store values as the descriptor requires from now on, including restored ones."""
        self.serializer, self.ttl_config = descriptor.serializer, descriptor.ttl_config
        self.registered = True
        timed = descriptor.ttl_config is not None
        # Restored bytes become values first, in the form with or without times that was written.
        if self.written_by is not None:
            if descriptor.serializer is None or self.written_by != self.serializer_of(descriptor):
                raise StateError(
                    f'state "{self.name}" was written by the serializer {self.written_by}: request '
                    f"it with that serializer, not with {self.serializer_of(descriptor)}"
                )
            deserialize, self.written_by = descriptor.serializer.deserialize, None
            self.table.read_with(partial(self.kind.mapped, deserialize, timed=self.timed))
        if timed != self.timed:
            self.table.convert(
                partial(self.kind.with_times, now_ms=now_ms) if timed else self.kind.without_times
            )
            self.timed = timed
        serialise = self.serialising()
        if serialise is not None and self.serializer is not None:
            self.table.copy = self._copied
            self.table.use_serializer(
                serialise, partial(self.kind.mapped, self.serializer.deserialize, timed=timed)
            )

    @staticmethod
    def serializer_of(descriptor: StateDescriptor) -> str:
        """Return the name of a descriptor's serializer, for error messages."""
        return serializer_name(descriptor.serializer) or "none"

    def _copied(self, kept: Any) -> Any:
        """Copy an entry with the serializer: its values may not support another copy."""
        serializer = self.serializer
        assert serializer is not None, "only a state with a serializer is copied here"
        return self.kind.mapped(
            lambda value: serializer.deserialize(serializer.serialize(value)),
            kept,
            timed=self.timed,
        )


def state_over(table: StateTable, place: KeyContext, descriptor: Any) -> Any:
    """Return a state of the descriptor's kind, over the table's entry at the place."""
    match descriptor.kind:
        case StateKind.LIST:
            return ListState(table, place)
        case StateKind.MAP:
            return MapState(table, place)
        case _:
            return _folded(ValueState(table, place), descriptor)


def _folded(state: Any, descriptor: Any) -> Any:
    """Return the reducing or aggregating state over ``state``, if the descriptor is for one."""
    match descriptor.kind:
        case StateKind.REDUCING:
            return ReducingState(state, descriptor.reduce_function)
        case StateKind.AGGREGATING:
            return AggregatingState(state, descriptor.agg_function)
        case _:
            return state


class KeyedState:
    """The state of one keyed operator in one subtask, by name.

    ``now_ms`` returns the processing time for expiry. ``backend`` stores all state except timers.
    These are always in memory, as are the heaps with their order (``timer_queue.py``).
    """

    def __init__(
        self,
        now_ms: Callable[[], int] = lambda: 0,
        backend: KeyedStateBackend | None = None,
    ) -> None:
        self._now_ms = now_ms
        self.backend: KeyedStateBackend = backend or HeapKeyedStateBackend()
        self.entries: dict[str, StateEntry] = {}

    def add(
        self, name: str, kind: StateKind, *, timed: bool = False, written_by: str | None = None
    ) -> StateEntry:
        """Add and return a new state; see ``StateEntry``."""
        table = None if kind is StateKind.TIMERS else self.backend.table(name)
        entry = StateEntry(name, kind, timed=timed, written_by=written_by, table=table)
        self.entries[name] = entry
        return entry

    def entry(self, name: str, kind: StateKind) -> StateEntry:
        """Return a state, created if it does not exist.

        Raises ConfigurationError if the state has another kind.
        """
        entry = self.entries.get(name)
        if entry is None:
            entry = self.add(name, kind)
        elif entry.kind is not kind:
            raise ConfigurationError(
                f'state "{name}" is a state of kind {entry.kind.value}, and cannot be a '
                f"{kind.value} state, too: choose another name"
            )
        return entry

    def table(self, name: str, kind: StateKind) -> StateTable:
        """Return the table of a state that is internal to flinknet."""
        return self.entry(name, kind).table

    def state(self, descriptor: StateDescriptor, context: KeyContext) -> Any:
        """Return the state of the descriptor's kind, for the key of the context."""
        entry = self._registered(descriptor)
        if entry.ttl_config is None:
            return state_over(entry.table, context, descriptor)
        expiring = expiring_state(entry.table, context, entry.kind, entry.ttl_config, self._now_ms)
        return _folded(expiring, descriptor)

    def merge(self, entries_max: int) -> bool:
        """Merge up to ``entries_max`` entries per state after captures.

        Return whether some are left. Merging stops at the first state with entries left.
        """
        return any(entry.table.merge(entries_max) for entry in self.entries.values())

    def _registered(self, descriptor: StateDescriptor) -> StateEntry:
        entry = self.entry(descriptor.name, descriptor.kind)
        if entry.registered:
            if entry.ttl_config is not descriptor.ttl_config or entry.serializer is not (
                descriptor.serializer
            ):
                raise ConfigurationError(
                    f'state "{descriptor.name}" was requested before with another time to live or '
                    "serializer: use the same descriptor"
                )
            return entry
        try:
            entry.adopt(descriptor, self._now_ms())
        except StateError:
            raise
        except Exception as cause:
            raise StateError(
                f"the serializer {serializer_name(descriptor.serializer)} of state "
                f'"{descriptor.name}" cannot read the restored values: {type(cause).__name__}: '
                f"{text_of(cause)}"
            ) from cause
        return entry
