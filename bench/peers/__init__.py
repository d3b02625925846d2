"""The systems compared with flinknet, one module each; ``--against`` takes their names."""

from __future__ import annotations

from bench.harness.system import System
from bench.peers import stream

__all__ = ["PEERS"]

PEERS: tuple[System, ...] = (stream.SYSTEM,)
