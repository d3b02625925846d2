"""The messages between both processes of a run and their parent."""

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
"""Names of the measured partition, and of a partition with a single channel.

The latter precedes it on the same connection, so that the cost of neither is taken for the cost of
channels.
"""

SEGMENT_BYTES = 4096
"""Small buffers, so that 10,000 channels fit into the memory of a laptop."""

BLOCK_RECORDS = 4096
SPARE_BUFFERS = 64

Record = tuple[int, int]
"""The channel of a record, and its number in that channel."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The number of channels, the number of records over all of them, and the buffer timeout."""

    channels: int
    records: int
    buffer_timeout_ms: BufferTimeout

    @property
    def config(self) -> NetworkConfig:
        """Defaults, except the memory: the channels' requirement at both ends, and some spare."""
        exclusive = NetworkConfig().buffers_per_channel
        buffers = self.channels * exclusive + SPARE_BUFFERS
        return NetworkConfig(
            segment_bytes=SEGMENT_BYTES,
            network_memory_bytes=buffers * SEGMENT_BYTES,
            buffer_timeout_ms=self.buffer_timeout_ms,
        )

    def blocks(self) -> Iterator[list[Record]]:
        """Yield the records in blocks, one record for each channel in turn."""
        channels = self.channels
        for start in range(0, self.records, BLOCK_RECORDS):
            numbers = range(start, min(start + BLOCK_RECORDS, self.records))
            yield [(number % channels, number // channels) for number in numbers]

    def records_of(self, channel: int) -> int:
        """Return the number of records of a channel."""
        return len(range(channel, self.records, self.channels))


class Account(NamedTuple):
    """The results and the footprints of one process.

    The footprints are from ``before`` the channels were opened, from when they were ``idle``, and
    from when half of the records were through (``carrying``). ``time`` is the time to transfer all
    records, without taking footprints.
    """

    in_order: bool
    records: int
    buffers: int
    time: Clocks
    before: Footprint
    idle: Footprint
    carrying: Footprint
