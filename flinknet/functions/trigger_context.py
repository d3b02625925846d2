"""The interfaces of windows and contexts for triggers (Flink's TriggerContext, OnMergeContext)."""

from __future__ import annotations

from typing import Any, Protocol

from flinknet.state.descriptors import StateDescriptor

__all__ = ["MergedWindow", "OnMergeContext", "TriggerContext", "TriggeredWindow"]


class TriggerContext(Protocol):
    """The context of a trigger call, for one window of one key."""

    state: dict[str, Any]
    """The trigger's memory of the window; plain values."""

    def get_current_watermark(self) -> int:
        """Return the current watermark, in milliseconds since 1970."""

    def get_current_processing_time(self) -> int:
        """Return the current processing time, in milliseconds since 1970."""

    def register_event_time_timer(self, time: int) -> None:
        """Schedule ``on_event_time`` for when the watermark reaches ``time``."""

    def register_processing_time_timer(self, time: int) -> None:
        """Schedule ``on_processing_time`` for processing time ``time``."""

    def delete_event_time_timer(self, time: int) -> None:
        """Cancel the event-time timer at ``time``."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Cancel the processing-time timer at ``time``."""

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return a state of this window, of the descriptor's kind and name.

        The state is removed with the window. Raises ConfigurationError if the descriptor has a time
        to live or a serializer.
        """


class OnMergeContext(TriggerContext, Protocol):
    """The context of ``on_merge``, after windows were merged into one."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the states that the windows keep under the descriptor's name.

        Raises ConfigurationError for a value or a map, which cannot be merged.
        """


class TriggeredWindow(Protocol):
    """A window as a trigger sees it."""

    def max_timestamp(self) -> int:
        """Return the last millisecond that belongs to the window."""


class MergedWindow(TriggeredWindow, Protocol):
    """A window that results from a merge."""

    @property
    def start(self) -> int:
        """The first millisecond that belongs to the window."""
