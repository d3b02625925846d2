"""A key in progress."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flinknet.state.descriptors import StateKind
from flinknet.state.expiring_state import expiring_state
from flinknet.state.time_to_live import StateTtlConfig
from tests.unit.state.backends import Backends


class Key:
    """Whoever knows the current key."""

    def __init__(self, current_key: Any = None) -> None:
        self.current_key = current_key


def expiring(backends: Backends, kind: str) -> Any:
    """Return state of that kind, of the key "a", that lives for an hour."""
    config = StateTtlConfig.new_builder(timedelta(hours=1)).build()
    return expiring_state(backends.table(), Key("a"), StateKind(kind), config, lambda: 0)
