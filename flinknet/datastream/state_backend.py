"""What programs import from ``pyflink.datastream.state_backend``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateBackend,
)
from flinknet.task.pyflink_differences import not_here

__all__ = [
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "StateBackend",
]

if not TYPE_CHECKING:  # or every name would pass for one of its own
    __getattr__ = not_here(__name__)
