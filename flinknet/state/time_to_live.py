"""Time to live of state after its last use: PyFlink's StateTtlConfig.

Time is processing time. An expired value is invisible to its function at once, unless it may be
seen until it is cleaned up. Its memory is freed by the cleanup: a few entries at each access
(``cleanup_incrementally``, the default), and all entries when a checkpoint is written
(``cleanup_full_snapshot``).
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Any

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.errors import ConfigurationError

__all__ = ["StateTtlConfig"]

CLEANUP_ENTRIES = 5
"""Default number of entries checked per access (Flink's default)."""


class StateTtlConfig(PyFlinkNames):
    """Configuration of expiry; begin with ``new_builder``. The names are PyFlink's."""

    class UpdateType(Enum):
        """Accesses that renew the time of state."""

        Disabled = "nothing: it lives forever"
        OnCreateAndWrite = "writing it"
        OnReadAndWrite = "writing or reading it"

    class StateVisibility(Enum):
        """Whether expired state is visible until it is cleaned up."""

        ReturnExpiredIfNotCleanedUp = "it can"
        NeverReturnExpired = "it cannot"

    class Builder(PyFlinkNames):
        """Builder of a StateTtlConfig; each method except ``build`` returns the builder."""

        def __init__(self, ttl: Any) -> None:
            self._config = StateTtlConfig(1)
            self.set_ttl(ttl)

        def set_ttl(self, ttl: Any) -> StateTtlConfig.Builder:
            """Set how long state lives after its last use."""
            self._config.ttl_ms = _milliseconds(ttl)
            return self

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Set which accesses renew the time of state."""
            self._config.update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Renew the time on writing."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Renew the time on writing and reading."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: StateTtlConfig.StateVisibility
        ) -> StateTtlConfig.Builder:
            """Set whether expired state is visible until it is cleaned up."""
            self._config.state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Let expired state be visible until it is cleaned up."""
            return self.set_state_visibility(
                StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
            )

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Let expired state be invisible."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Use processing time, the only option."""
            return self

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired state out of checkpoints."""
            self._config.cleanup_in_full_snapshot = True
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool = False
        ) -> StateTtlConfig.Builder:
            """Check ``cleanup_size`` entries at each access of the state.

            Records that do not access the state cost nothing, so ``run_cleanup_for_every_record``
            is refused.
            """
            if run_cleanup_for_every_record:
                raise ConfigurationError(
                    "cleanup_incrementally runs when the state is accessed, not for every record: "
                    "leave run_cleanup_for_every_record False"
                )
            if cleanup_size < 1:
                raise ConfigurationError(
                    f"cleanup_incrementally looks at {cleanup_size} entries: choose 1 or more, or "
                    f"disable_cleanup_in_background()"
                )
            self._config.cleanup_entries = cleanup_size
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Clean up only state that is read after it has expired."""
            self._config.cleanup_entries = 0
            return self

        def build(self) -> StateTtlConfig:
            """Return the configuration."""
            return StateTtlConfig(**vars(self._config))

    def __init__(
        self,
        ttl_ms: int,
        update_type: UpdateType = UpdateType.OnCreateAndWrite,
        state_visibility: StateVisibility = StateVisibility.NeverReturnExpired,
        cleanup_entries: int = CLEANUP_ENTRIES,
        cleanup_in_full_snapshot: bool = False,
    ) -> None:
        self.ttl_ms = ttl_ms
        self.update_type = update_type
        self.state_visibility = state_visibility
        self.cleanup_entries = cleanup_entries
        """Number of entries checked per access; 0 for none."""
        self.cleanup_in_full_snapshot = cleanup_in_full_snapshot

    @staticmethod
    def new_builder(ttl: Any) -> StateTtlConfig.Builder:
        """Return a builder for a time to live: a Duration, a Time, or Python's timedelta."""
        return StateTtlConfig.Builder(ttl)

    @property
    def is_enabled(self) -> bool:
        """Whether state expires at all."""
        return self.update_type is not self.UpdateType.Disabled

    @property
    def is_renewed_by_reading(self) -> bool:
        """Whether reading renews the time of state."""
        return self.update_type is self.UpdateType.OnReadAndWrite

    @property
    def shows_expired(self) -> bool:
        """Whether expired state is visible until it is cleaned up."""
        return self.state_visibility is self.StateVisibility.ReturnExpiredIfNotCleanedUp

    def has_expired(self, last_used_ms: int, now_ms: int) -> bool:
        """Return whether state that was last used at ``last_used_ms`` has expired."""
        return last_used_ms + self.ttl_ms <= now_ms


def _milliseconds(ttl: Any) -> int:
    if isinstance(ttl, timedelta):
        milliseconds = ttl // timedelta(milliseconds=1)
    else:
        count = getattr(ttl, "to_millis", None) or getattr(ttl, "to_milliseconds", None)
        if count is None:
            raise ConfigurationError(
                f"a time to live is {ttl!r}: choose a Duration, a Time or a timedelta"
            )
        milliseconds = count()
    if milliseconds < 1:
        raise ConfigurationError(f"a time to live is {milliseconds} ms: choose 1 ms or more")
    return int(milliseconds)
