"""Operator state: state of an operator that belongs to no key.

Theory of operation. The function changes its state freely. At a checkpoint the elements of lists
are packed at once, between two batches, because any of them may change next. Lists are therefore
meant for small state, such as the positions of a source or the pending writes of a sink. Broadcast
state may be large: it is a table, and is written in steps like keyed state.

The *mode* of a state tells its redistribution when the parallelism changes (Flink's
OperatorStateHandle.Mode). The elements of a list are split anew, or every subtask receives all of
them (union). Broadcast state is the same in all subtasks, and each receives one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from flinknet.compatibility.subscripted import A, B, Subscripted
from flinknet.errors import ConfigurationError, StateError
from flinknet.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
)
from flinknet.state.map_keys import place_of
from flinknet.state.state_table import Entries, StateTable
from flinknet.state.value_serializer import (
    StateSerializer,
    ValueSerializer,
    serializer_name,
)
from flinknet.texts import text_of

__all__ = [
    "BroadcastState",
    "OperatorListState",
    "OperatorState",
    "OperatorStateStore",
    "StateMode",
]


class StateMode(Enum):
    """Redistribution of a state on restore; the values appear in checkpoints."""

    SPLIT = "split"
    UNION = "union"
    BROADCAST = "broadcast"


class OperatorListState:
    """A list that belongs to the subtask."""

    def __init__(self) -> None:
        self._elements: list[Any] = []

    def get(self) -> list[Any]:
        """Return the elements, as a list that the caller may change."""
        return list(self._elements)

    def add(self, value: Any) -> None:
        """Append an element."""
        self._elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements; none if reading them fails."""
        self._elements.extend(list(values))  # ``values`` may iterate over this list

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list."""
        self._elements = list(values)

    def clear(self) -> None:
        """Remove all elements."""
        self._elements = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class BroadcastState(Subscripted[A, B]):
    """A map that every subtask has, and must change in the same way.

    Its keys are compared as keys of a stream are, so all NaN are one key.
    """

    _entries: Entries

    def __init__(self) -> None:
        self.table = StateTable()
        self.table.attach(self)

    def get(self, key: A) -> B:
        """Return the value of a key; None if there is none."""
        return self._entries.get(self._place(key))  # type: ignore[return-value]

    def put(self, key: A, value: B) -> None:
        """Set the value of a key."""
        self._entries[self._place(key)] = value

    def put_all(self, dict_value: Mapping[A, B]) -> None:
        """Set the values of several keys; none if reading them fails."""
        # A list, because ``dict_value`` may be a view of this map, which changes.
        for key, value in list(dict_value.items()):
            self.put(key, value)

    def remove(self, key: A) -> None:
        """Remove a key, if it exists."""
        self._entries.pop(self._place(key), None)

    def contains(self, key: A) -> bool:
        """Return whether a key exists."""
        return self._place(key) in self._entries

    def items(self) -> Iterable[tuple[A, B]]:
        """Iterate over keys and values; the state must not be changed meanwhile."""
        return self.table.entries()

    def keys(self) -> Iterable[A]:
        """Iterate over the keys."""
        return (key for key, _ in self.items())

    def values(self) -> Iterable[B]:
        """Iterate over the values."""
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        """Return whether there is no key."""
        return next(iter(self.items()), None) is None

    def clear(self) -> None:
        """Remove all keys."""
        # One by one, because a capture may hold the entries.
        for key in list(self.keys()):
            self.remove(key)

    def _place(self, key: Any) -> Any:
        return place_of(key, self._entries, self.keys)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __getitem__(self, key: A) -> B:
        return self.get(key)

    def __setitem__(self, key: A, value: B) -> None:
        self.put(key, value)

    def __delitem__(self, key: A) -> None:
        self.remove(key)

    def __iter__(self) -> Iterator[A]:
        return iter(self.keys())


class OperatorState:
    """One named state of an operator.

    ``restored`` holds the packed elements of a checkpoint until a function requests the state. If
    no function does, they are written to the next checkpoint. An element of broadcast state is a
    pair.
    """

    def __init__(self, name: str, mode: StateMode, written_by: str | None = None) -> None:
        self.name = name
        self.mode = mode
        self.written_by = written_by
        self.restored: list[bytes] = []
        self.state: OperatorListState | BroadcastState | None = None
        self.serializer: StateSerializer | None = None

    @property
    def serializer_name(self) -> str | None:
        """The name in checkpoints of the serializer of the values; None for none."""
        return self.written_by if self.state is None else serializer_name(self.serializer)


class OperatorStateStore:
    """The operator state of one subtask, by name."""

    def __init__(self, serializer: ValueSerializer | None = None) -> None:
        self._serializer = ValueSerializer() if serializer is None else serializer
        self.states: dict[str, OperatorState] = {}

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a list that is split anew when the parallelism changes."""
        return self._list_state(state_descriptor, StateMode.SPLIT)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a list that is restored with the elements of all subtasks in every subtask."""
        return self._list_state(state_descriptor, StateMode.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
        """Return a map that is the same in every subtask."""
        state = self._registered(state_descriptor, StateMode.BROADCAST)
        return self._broadcast_state(state, state_descriptor)

    def named(self, name: str, mode: StateMode, written_by: str | None = None) -> OperatorState:
        """Return a state, created if it does not exist.

        Raises ConfigurationError if the state has another mode.
        """
        state = self.states.get(name)
        if state is None:
            state = self.states[name] = OperatorState(name, mode, written_by)
        elif state.mode is not mode:
            raise ConfigurationError(
                f'operator state "{name}" is {state.mode.value} state, and cannot be {mode.value} '
                f"state, too: choose another name"
            )
        return state

    def pack(self, state: OperatorState, value: Any) -> bytes:
        """Return an element's bytes. Raises SerializationError, or an error of the serializer."""
        if state.serializer is not None:
            if state.mode is StateMode.BROADCAST:
                value = (value[0], state.serializer.serialize(value[1]))
            else:
                value = state.serializer.serialize(value)
        return self._serializer.pack(value)

    def _list_state(self, descriptor: ListStateDescriptor, mode: StateMode) -> OperatorListState:
        state = self._registered(descriptor, mode)
        if state.state is None:
            made = OperatorListState()
            made.update(self._restored(state, descriptor))
            state.state = made
        assert isinstance(state.state, OperatorListState), "its mode is that of a list"
        return state.state

    def _broadcast_state(
        self, state: OperatorState, descriptor: MapStateDescriptor
    ) -> BroadcastState:
        if state.state is None:
            made = BroadcastState()
            made.put_all(dict(self._restored(state, descriptor)))
            state.state = made
        assert isinstance(state.state, BroadcastState), "its mode is that of a map"
        return state.state

    def _registered(self, descriptor: StateDescriptor, mode: StateMode) -> OperatorState:
        if descriptor.ttl_config is not None:
            raise ConfigurationError(
                f'operator state "{descriptor.name}" cannot expire: only keyed state does'
            )
        state = self.named(descriptor.name, mode)
        if state.state is not None and state.serializer is not descriptor.serializer:
            raise ConfigurationError(
                f'operator state "{descriptor.name}" was requested before with another serializer: '
                "use the same descriptor"
            )
        return state

    def _restored(self, state: OperatorState, descriptor: StateDescriptor) -> list[Any]:
        """Return the restored elements unpacked, and drop the packed ones."""
        if state.restored and state.written_by != serializer_name(descriptor.serializer):
            raise StateError(
                f'operator state "{state.name}" was written by the serializer '
                f"{state.written_by or 'of records'}: request it with that serializer, not with "
                f"{serializer_name(descriptor.serializer) or 'that of records'}"
            )
        state.serializer = descriptor.serializer
        try:
            elements = [self._unpacked(state, element) for element in state.restored]
        except Exception as cause:
            raise StateError(
                f'operator state "{state.name}" cannot be restored: {type(cause).__name__}: '
                f"{text_of(cause)}"
            ) from cause
        state.restored = []
        return elements

    def _unpacked(self, state: OperatorState, element: bytes) -> Any:
        value = self._serializer.unpack(element)
        if state.mode is StateMode.BROADCAST:
            key, value = value
            return key, value if state.serializer is None else state.serializer.deserialize(value)
        return value if state.serializer is None else state.serializer.deserialize(value)
