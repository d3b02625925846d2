"""What both processes of a run are told, and what they tell their parent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bench.harness.process import Clocks
from bench.scale.footprint import Footprint
from flinknet import NetworkConfig
from flinknet.config import BufferTimeout

__all__ = ["PARTITION", "WARM_UP", "Account", "Record", "Setting"]

PARTITION = "scale"
WARM_UP = "warm-up"
"""Names of the measured partition and of one with a single channel that goes before it, over the
same connection, so that the cost of neither is taken for that of channels."""

SEGMENT_BYTES = 4096
"""Small buffers, so that 10,000 channels fit into memory that a laptop has."""

BLOCK_RECORDS = 4096
SPARE_BUFFERS = 64

Record = tuple[int, int]
"""Its channel, and its number in that channel."""


@dataclass(frozen=True, slots=True)
class Setting:
    """So many channels, so many records over all of them together, and the buffer timeout."""

    channels: int
    records: int
    buffer_timeout_ms: BufferTimeout

    @property
    def config(self) -> NetworkConfig:
        """Every default but the memory: what the channels require at both ends, and a little."""
        exclusive = NetworkConfig().buffers_per_channel
        buffers = self.channels * exclusive + SPARE_BUFFERS
        return NetworkConfig(
            segment_bytes=SEGMENT_BYTES,
            network_memory_bytes=buffers * SEGMENT_BYTES,
            buffer_timeout_ms=self.buffer_timeout_ms,
        )

    def blocks(self) -> Iterator[list[Record]]:
        """Make the records, a block at a time, one for each channel in turn."""
        channels = self.channels
        for start in range(0, self.records, BLOCK_RECORDS):
            numbers = range(start, min(start + BLOCK_RECORDS, self.records))
            yield [(number % channels, number // channels) for number in numbers]

    def records_of(self, channel: int) -> int:
        """Return how many records a channel carries."""
        return len(range(channel, self.records, self.channels))


class Account(NamedTuple):
    """What one process has done and held: ``before`` the channels were opened, when they were
    ``idle``, and ``carrying`` when half of the records were through. ``time`` is that of carrying
    all of them, without counting what is held."""

    in_order: bool
    records: int
    buffers: int
    time: Clocks
    before: Footprint
    idle: Footprint
    carrying: Footprint
