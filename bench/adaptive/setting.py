"""What the processes of a run are told, and what they tell their parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from bench.exchange.cases import payloads
from bench.harness.process import Clocks
from flinknet import (
    AdaptiveRebalancePartitioner,
    NetworkConfig,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.config import BufferDebloatConfig

__all__ = [
    "DEBLOAT",
    "FAST",
    "RECORDS",
    "SETTLE_S",
    "SLOW",
    "SLOW_RECORD_S",
    "VARIANTS",
    "Setting",
    "Span",
    "Window",
]

RECORDS = payloads.KIBIBYTE
"""What is sent: the same block over and over."""

SLOW, FAST = 0, 1
"""The channels, one for each consumer."""

SLOW_RECORD_S = 0.005
"""How long the slow consumer takes for each record."""

SETTLE_S = 5.0
"""From the first record until the slow consumer has taken the buffers that were filled before any
size was announced, and more: 20 of 32 records, at 5 ms each."""

DEBLOAT = BufferDebloatConfig(enabled=True, period_ms=20, target_ms=50)
"""The size is at its end within the time to settle: ten records in 50 ms, so one in each of the ten
buffers on their way. A full quota of those has a third of the bytes of one buffer for the fast
consumer."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One writer, and a slow and a fast consumer of its partition in processes of their own."""

    partitioner: Literal["rebalance", "adaptive"]
    debloat: bool

    @property
    def config(self) -> NetworkConfig:
        """The configuration of all three processes: every default but debloating."""
        return NetworkConfig(debloat=DEBLOAT) if self.debloat else NetworkConfig()

    def make_partitioner(self) -> Partitioner:
        """Return what chooses between the two."""
        if self.partitioner == "adaptive":
            return AdaptiveRebalancePartitioner()
        return RebalancePartitioner()


VARIANTS = {
    "rebalance": Setting("rebalance", debloat=False),
    "adaptive": Setting("adaptive", debloat=False),
    "adaptive, debloat": Setting("adaptive", debloat=True),
}


class Span(NamedTuple):
    """How long to wait, from when all have begun, and then to measure; in seconds."""

    wait_s: float
    seconds: float


class Window(NamedTuple):
    """What a process has done in the measured time."""

    records: int
    time: Clocks
