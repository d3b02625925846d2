"""What is explored: the shape of a world, and the steps that change it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from flinknet.buffer.buffer import DataType
from flinknet.config import NetworkConfig, WireLimits

SEGMENT_BYTES = 64

DATA = "d"
OPEN_DATA = "o"
MORE_DATA = "a"
"""Data begins a buffer, which is sealed at once or left open; more data goes on in an open one, if
there is any, behind what the reader may have taken."""
FLUSH = "f"
EVENT = "e"
BARRIER = "B"
END_OF_DATA = "D"
END = "E"

EVENT_TYPES = {
    EVENT: DataType.EVENT_BUFFER,
    BARRIER: DataType.ALIGNED_CHECKPOINT_BARRIER,
    END_OF_DATA: DataType.END_OF_DATA,
    END: DataType.END_OF_PARTITION,
}

KINDS = {
    DataType.DATA_BUFFER: DATA,
    DataType.DATA_BUFFER_WITH_CLEAR_END: DATA,
    DataType.END_OF_DATA: END_OF_DATA,
    DataType.END_OF_PARTITION: END,
}
"""What a type on the wire is in a script; any other is an event."""

BODIES = {END_OF_DATA: b"\x91\x01", END: b"\x90"}
"""Of the events that have one; other events and data have their number in the script."""


@dataclass(frozen=True)
class Shape:
    """A script per channel, buffers, which channel the consumer may cancel at any moment, whether
    the producer may fail at any moment, whether there is credit, whether the producer is lawless:
    it ends its channels as the script says, whatever its own table, whether its records count
    as large, so that pools widen, and how many events a consumer may hold unread."""

    scripts: tuple[str, ...]
    exclusive: int
    floating: int
    cancel: int | None = None
    fails: bool = False
    credit: bool = True
    lawless: bool = False
    widens: bool = False
    events: int = 1000

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.scripts)

    def __str__(self) -> str:
        ends = f" cancel {self.cancel}" if self.cancel is not None else ""
        ends += " fails" if self.fails else ""
        ends += "" if self.credit else " no credit"
        ends += " lawless" if self.lawless else ""
        ends += " widens" if self.widens else ""
        ends += f" {self.events} events" if self.events != 1000 else ""
        return f"{'+'.join(self.scripts)} {self.exclusive}x/{self.floating}f{ends}"


class Step(NamedTuple):
    """One thing that can happen next."""

    name: str
    channel: int = -1

    def __str__(self) -> str:
        return self.name if self.channel < 0 else f"{self.name} {self.channel}"


class BrokenInvariantError(AssertionError):
    """The world did what must never happen."""


@lru_cache
def network_config(shape: Shape) -> NetworkConfig:
    """Return the configuration of both sides."""
    return NetworkConfig(
        segment_bytes=SEGMENT_BYTES,
        network_memory_bytes=SEGMENT_BYTES * 64,
        buffers_per_channel=shape.exclusive,
        floating_buffers_per_gate=shape.floating,
        buffers_per_subpartition_max=2 if shape.widens else 10,
        large_record_buffers_max=4 if shape.widens else 0,
        outbox_bytes_max=SEGMENT_BYTES,
        receive_buffer_bytes=4096,
        flow_control="credit" if shape.credit else "off",
        wire=WireLimits(events_per_channel_max=shape.events),
    )
