"""Keyed state: what a keyed operator remembers per key.

Theory of operation. A ``KeyedState`` belongs to one operator in one subtask and holds one table per
state name; a table's keys are what ``comparable_key`` makes of those of the records. They are
exactly those that the hash partitioner sent here, so their key groups lie in the subtask's key
group range. The tables are flat, because a key group per record would cost more than the record
itself: groups are made when state is written (``keyed_snapshot.py``).

What was restored is there before any function asks for it: also what none asks for any more, which
goes on into the next checkpoint. Values that a serializer of the user's has written stay bytes
until the state is asked for with that serializer.
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
    """One state: its table, and how it is kept and written."""

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
        """Whether values are kept with the time when they were last used."""
        self.written_by = written_by
        """The serializer whose bytes the table has in the place of values; None for none."""
        self.serializer: StateSerializer | None = None
        self.ttl_config: StateTtlConfig | None = None
        self.registered = False
        self.table = StateTable() if table is None else table

    @property
    def serializer_name(self) -> str | None:
        """How a checkpoint calls what writes the values."""
        return self.written_by or serializer_name(self.serializer)

    def serialising(self) -> Callable[[Any], Any] | None:
        """Return what makes the serializer's bytes of the values that are kept of a key, in the way
        they are kept now; None if they are written as they are."""
        if self.serializer is None:
            return None
        return partial(self.kind.mapped, self.serializer.serialize, timed=self.timed)

    def adopt(self, descriptor: StateDescriptor, now_ms: int) -> None:
        """Keep values as the descriptor says from now on, those that were restored, too."""
        self.serializer, self.ttl_config = descriptor.serializer, descriptor.ttl_config
        self.registered = True
        timed = descriptor.ttl_config is not None
        if self.written_by is not None:
            if descriptor.serializer is None or self.written_by != self.serializer_of(descriptor):
                raise StateError(
                    f'state "{self.name}" was written by the serializer {self.written_by}: ask for '
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
        """For people: how a descriptor's serializer is called."""
        return serializer_name(descriptor.serializer) or "none"

    def _copied(self, kept: Any) -> Any:
        """Copy by the serializer what nobody else may know how to copy."""
        serializer = self.serializer
        assert serializer is not None, "only a state with a serializer is copied by it"
        return self.kind.mapped(
            lambda value: serializer.deserialize(serializer.serialize(value)),
            kept,
            timed=self.timed,
        )


def state_over(table: StateTable, place: KeyContext, descriptor: Any) -> Any:
    """Return a state of the descriptor's kind, over the entry that the table has at the place."""
    match descriptor.kind:
        case StateKind.LIST:
            return ListState(table, place)
        case StateKind.MAP:
            return MapState(table, place)
        case _:
            return _folded(ValueState(table, place), descriptor)


def _folded(state: Any, descriptor: Any) -> Any:
    """Return the state to which values are added, if the descriptor is for one."""
    match descriptor.kind:
        case StateKind.REDUCING:
            return ReducingState(state, descriptor.reduce_function)
        case StateKind.AGGREGATING:
            return AggregatingState(state, descriptor.agg_function)
        case _:
            return state


class KeyedState:
    """The state of one keyed operator in one subtask, by name.

    ``now_ms`` is the processing time by which state expires, ``backend`` where it is kept. Timers
    are on the heap in any case, as the order in which they fire is.
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
        """Return a new state; see ``StateEntry``."""
        table = None if kind is StateKind.TIMERS else self.backend.table(name)
        entry = StateEntry(name, kind, timed=timed, written_by=written_by, table=table)
        self.entries[name] = entry
        return entry

    def entry(self, name: str, kind: StateKind) -> StateEntry:
        """Return a state, made if it is not there. Raises ConfigurationError if it is one of
        another kind."""
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
        """Return the table of a state that is flinknet's own."""
        return self.entry(name, kind).table

    def state(self, descriptor: StateDescriptor, context: KeyContext) -> Any:
        """Return the state of the descriptor's kind, of the key that the context is at."""
        entry = self._registered(descriptor)
        if entry.ttl_config is None:
            return state_over(entry.table, context, descriptor)
        expiring = expiring_state(entry.table, context, entry.kind, entry.ttl_config, self._now_ms)
        return _folded(expiring, descriptor)

    def merge(self, entries_max: int) -> bool:
        """Merge what captures have left behind, so many entries per state at most; return whether
        some are left."""
        return any(entry.table.merge(entries_max) for entry in self.entries.values())

    def _registered(self, descriptor: StateDescriptor) -> StateEntry:
        entry = self.entry(descriptor.name, descriptor.kind)
        if entry.registered:
            if entry.ttl_config is not descriptor.ttl_config or entry.serializer is not (
                descriptor.serializer
            ):
                raise ConfigurationError(
                    f'state "{descriptor.name}" was asked for before with another time to live or '
                    f"serializer: use one descriptor"
                )
            return entry
        try:
            entry.adopt(descriptor, self._now_ms())
        except StateError:
            raise
        except Exception as cause:
            raise StateError(
                f"the serializer {serializer_name(descriptor.serializer)} of state "
                f'"{descriptor.name}" cannot read what was restored: '
                f"{type(cause).__name__}: {text_of(cause)}"
            ) from cause
        return entry
