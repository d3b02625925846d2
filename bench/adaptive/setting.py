"""The messages between the processes of a run and their parent."""

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
"""The records, from one block that is sent repeatedly."""

SLOW, FAST = 0, 1
"""The channels, one for each consumer."""

SLOW_RECORD_S = 0.005
"""Seconds that the slow consumer takes for each record."""

SETTLE_S = 5.0
"""Seconds to settle, counted from the first record.

In this time the slow consumer takes the buffers that were filled before any size was announced: 20
of 32 records, at 5 ms each, and more.
"""

DEBLOAT = BufferDebloatConfig(enabled=True, period_ms=20, target_ms=50)
"""The debloating of the variant ``adaptive, debloat``.

The buffer size reaches its final value within the time to settle. Ten records take 50 ms, so each
of the ten buffers in flight holds one. A full quota of such buffers has a third of the bytes of one
buffer for the fast consumer.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One writer, and a slow and a fast consumer of its partition in separate processes."""

    partitioner: Literal["rebalance", "adaptive"]
    debloat: bool

    @property
    def config(self) -> NetworkConfig:
        """The configuration of all three processes: defaults, except debloating."""
        return NetworkConfig(debloat=DEBLOAT) if self.debloat else NetworkConfig()

    def make_partitioner(self) -> Partitioner:
        """Return the partitioner that chooses between the two consumers."""
        if self.partitioner == "adaptive":
            return AdaptiveRebalancePartitioner()
        return RebalancePartitioner()


VARIANTS = {
    "rebalance": Setting("rebalance", debloat=False),
    "adaptive": Setting("adaptive", debloat=False),
    "adaptive, debloat": Setting("adaptive", debloat=True),
}


class Span(NamedTuple):
    """Seconds to wait after all processes have begun, and seconds to measure after that."""

    wait_s: float
    seconds: float


class Window(NamedTuple):
    """The records and the time of a process in the measured window."""

    records: int
    time: Clocks
