"""What a trigger sees of a window (PyFlink's Trigger.TriggerContext and OnMergeContext)."""

from __future__ import annotations

from typing import Any, Protocol

from flinknet.state.descriptors import StateDescriptor

__all__ = ["MergedWindow", "OnMergeContext", "TriggerContext", "TriggeredWindow"]


class TriggerContext(Protocol):
    """What a trigger sees of a window of a key."""

    state: dict[str, Any]
    """What the trigger remembers of the window, plain values."""

    def get_current_watermark(self) -> int:
        """Return how far event time has come."""

    def get_current_processing_time(self) -> int:
        """Return milliseconds since 1970."""

    def register_event_time_timer(self, time: int) -> None:
        """Have ``on_event_time`` called when event time has come to ``time``."""

    def register_processing_time_timer(self, time: int) -> None:
        """Have ``on_processing_time`` called at ``time``."""

    def delete_event_time_timer(self, time: int) -> None:
        """Do not."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Do not."""

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return a state of the window alone, of the descriptor's kind and name; it goes with the
        window. ConfigurationError if it is to expire, or has a serializer."""


class OnMergeContext(TriggerContext, Protocol):
    """The same, when windows have become one."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Have what the windows have kept under the descriptor's name in one state.
        ConfigurationError for a value or a map, which cannot be merged."""


class TriggeredWindow(Protocol):
    """A window, as a trigger sees it."""

    def max_timestamp(self) -> int:
        """Return the last millisecond that belongs to it."""


class MergedWindow(TriggeredWindow, Protocol):
    """A window that several have become."""

    @property
    def start(self) -> int:
        """The first millisecond that belongs to it."""
