"""What a function sees that connects a stream with a broadcast one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flinknet.compatibility.subscripted import Subscripted
from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.errors import ConfigurationError
from flinknet.functions.context import OnTimerContext, ProcessContext
from flinknet.state.descriptors import MapStateDescriptor
from flinknet.state.operator_state import BroadcastState
from flinknet.state.timer_service import TimeDomain, TimerService

__all__ = ["BroadcastContext", "OnTimerBroadcastContext", "ReadOnlyBroadcastState"]


class ReadOnlyBroadcastState(Subscripted):
    """A map that every subtask has, as records see it that are not for every subtask."""

    def __init__(self, state: BroadcastState) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        """Return the value of a key, None if there is none."""
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        """Whether a key is there."""
        return key in self._state

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Iterate over keys and values."""
        return self._state.items()

    def keys(self) -> Iterable[Any]:
        """Iterate over the keys."""
        return self._state.keys()

    def values(self) -> Iterable[Any]:
        """Iterate over the values."""
        return self._state.values()

    def is_empty(self) -> bool:
        """Whether there is no key."""
        return self._state.is_empty()

    def __contains__(self, key: Any) -> bool:
        return key in self._state

    def __getitem__(self, key: Any) -> Any:
        return self._state[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._state)


class BroadcastContext(Subscripted):
    """A view of the record, and of broadcast state, which may be ``read_only``; valid during the
    call."""

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
        """Return the key of the record; None where there is none."""
        return self._view.get_current_key()

    def current_watermark(self) -> int:
        """Return how far event time has come."""
        return self._view.current_watermark

    def current_processing_time(self) -> int:
        """Return milliseconds since 1970."""
        return self._clock.get_current_processing_time()

    def timer_service(self) -> TimerService:
        """Return what timers of the current key are registered with; ConfigurationError where there
        is no key, as for a record of the broadcast stream."""
        if not self._read_only:
            raise ConfigurationError(
                "a broadcast record has no key, and timers are of a key: register them in "
                "process_element"
            )
        return self._view.timer_service()

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor
    ) -> BroadcastState | ReadOnlyBroadcastState:
        """Return the state that the stream was broadcast with; ConfigurationError for another."""
        state = self._states.get(state_descriptor.name)
        if state is None:
            raise ConfigurationError(
                f'"{state_descriptor.name}" is no broadcast state of this stream: name its '
                "descriptor in broadcast(...)"
            )
        return ReadOnlyBroadcastState(state) if self._read_only else state


class OnTimerBroadcastContext(BroadcastContext):
    """What ``on_timer`` sees there: broadcast state can be read, and the key is the timer's."""

    def __init__(
        self,
        view: OnTimerContext,
        clock: ProcessingTimeService,
        states: dict[str, BroadcastState],
    ) -> None:
        super().__init__(view, clock, states, read_only=True)
        self._timer_view = view

    def time_domain(self) -> TimeDomain:
        """Return by which time the timer fires."""
        return self._timer_view.time_domain()
