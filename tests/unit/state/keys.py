"""A stand-in for the key in progress."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flinknet.state.descriptors import StateKind
from flinknet.state.expiring_state import expiring_state
from flinknet.state.time_to_live import StateTtlConfig
from tests.unit.state.backends import Backends


class Key:
    """An object with a current key."""

    def __init__(self, current_key: Any = None) -> None:
        self.current_key = current_key


def expiring(backends: Backends, kind: str) -> Any:
    """Return state of this kind for the key "a", with a lifetime of an hour."""
    config = StateTtlConfig.new_builder(timedelta(hours=1)).build()
    return expiring_state(backends.table(), Key("a"), StateKind(kind), config, lambda: 0)
