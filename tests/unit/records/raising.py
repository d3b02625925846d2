"""Exceptions that the interpreter raises internally, even if no Python code catches them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["new_exceptions"]


@contextmanager
def new_exceptions() -> Iterator[list[str]]:
    """Collect the text of each exception raised in the block, once, without keeping it alive.

    Skips the test where Python cannot report this.
    """
    if sys.version_info < (3, 12):
        pytest.skip("sys.monitoring came with Python 3.12")
    raised: list[str] = []

    def look(_code: Any, _offset: int, error: Any) -> None:
        if not hasattr(error, "was_seen"):
            raised.append(repr(error))
            error.was_seen = True

    monitoring, tool = sys.monitoring, sys.monitoring.DEBUGGER_ID
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, monitoring.events.RAISE, look)
        monitoring.set_events(tool, monitoring.events.RAISE)
        yield raised
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
