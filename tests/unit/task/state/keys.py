"""A key in progress."""

from __future__ import annotations

from typing import Any


class Key:
    """Whoever knows the current key."""

    def __init__(self, current_key: Any = None) -> None:
        self.current_key = current_key
