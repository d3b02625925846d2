"""What flinknet is compared with, one module for each system; ``--against`` takes their names."""

from __future__ import annotations

from bench.harness.system import System
from bench.peers import stream

__all__ = ["PEERS"]

PEERS: tuple[System, ...] = (stream.SYSTEM,)
