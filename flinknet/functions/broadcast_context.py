"""Contexts of functions that connect a stream with a broadcast stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from flinknet.compatibility.subscripted import A, B, Subscripted, T
from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.errors import ConfigurationError
from flinknet.functions.context import OnTimerContext, ProcessContext
from flinknet.state.descriptors import MapStateDescriptor
from flinknet.state.operator_state import BroadcastState
from flinknet.state.timer_service import TimeDomain, TimerService

__all__ = ["BroadcastContext", "OnTimerBroadcastContext", "ReadOnlyBroadcastState"]


class ReadOnlyBroadcastState(Subscripted[A, B]):
    """Broadcast state as a function sees it while it processes a record of the other stream."""

    def __init__(self, state: BroadcastState[A, B]) -> None:
        self._state = state

    def get(self, key: A) -> B:
        """Return the value of a key; None if the key is missing."""
        return self._state.get(key)

    def contains(self, key: A) -> bool:
        """Return whether the key exists."""
        return key in self._state

    def items(self) -> Iterable[tuple[A, B]]:
        """Iterate over keys and values."""
        return self._state.items()

    def keys(self) -> Iterable[A]:
        """Iterate over the keys."""
        return self._state.keys()

    def values(self) -> Iterable[B]:
        """Iterate over the values."""
        return self._state.values()

    def is_empty(self) -> bool:
        """Return whether the state has no keys."""
        return self._state.is_empty()

    def __contains__(self, key: Any) -> bool:
        return key in self._state

    def __getitem__(self, key: A) -> B:
        return self._state[key]

    def __iter__(self) -> Iterator[A]:
        return iter(self._state)


class BroadcastContext(Subscripted[T]):
    """The context of the current record, with access to broadcast state; valid during the call.

    If ``read_only`` is true, functions can read broadcast state but not change it. The type
    parameter is the class of the broadcast state, accordingly.
    """

    def __init__(
        self,
        view: ProcessContext,
        clock: ProcessingTimeService,
        states: dict[str, BroadcastState],
        *,
        read_only: bool,
    ) -> None:
        self._view = view
        self._clock = clock
        self._states = states
        self._read_only = read_only

    def timestamp(self) -> int | None:
        """Return the event time of the record in milliseconds; None if it has none."""
        return self._view.timestamp()

    def get_current_key(self) -> Any:
        """Return the key of the record; None if the record has no key."""
        return self._view.get_current_key()

    def current_watermark(self) -> int:
        """Return the current watermark, in milliseconds since 1970."""
        return self._view.current_watermark

    def current_processing_time(self) -> int:
        """Return the current processing time, in milliseconds since 1970."""
        return self._clock.get_current_processing_time()

    def timer_service(self) -> TimerService:
        """Return the timer service for the current key.

        Raises ConfigurationError if there is no key, as for a record of the broadcast stream.
        """
        if not self._read_only:
            raise ConfigurationError(
                "a broadcast record has no key, but timers need a key: register them in "
                "process_element"
            )
        return self._view.timer_service()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> T:
        """Return the state that the stream was broadcast with.

        Raises ConfigurationError for any other descriptor.
        """
        state = self._states.get(state_descriptor.name)
        if state is None:
            raise ConfigurationError(
                f'"{state_descriptor.name}" is not a broadcast state of this stream: pass its '
                "descriptor to broadcast(...)"
            )
        return cast("T", ReadOnlyBroadcastState(state) if self._read_only else state)


class OnTimerBroadcastContext(BroadcastContext[ReadOnlyBroadcastState]):
    """The context of ``on_timer``: the key is the timer's, and broadcast state is read-only."""

    def __init__(
        self,
        view: OnTimerContext,
        clock: ProcessingTimeService,
        states: dict[str, BroadcastState],
    ) -> None:
        super().__init__(view, clock, states, read_only=True)
        self._timer_view = view

    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer."""
        return self._timer_view.time_domain()
