"""What programs import from ``pyflink.datastream.state_backend``."""

from __future__ import annotations

from flinknet.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateBackend,
)

__all__ = [
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "StateBackend",
]
