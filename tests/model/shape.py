"""Shapes of worlds, and the steps that change a world."""

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
"""Data begins a buffer, which is sealed at once or left open.

More data is appended to an open buffer, if there is one, behind data that the reader may have
taken.
"""
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
"""The operation of a script for each type on the wire; any other type is an event."""

BODIES = {END_OF_DATA: b"\x91\x01", END: b"\x90"}
"""Bodies of these events; the body of other events and of data is their number in the script."""


@dataclass(frozen=True)
class Shape:
    """Scripts, buffers and possible disturbances of a world.

    ``scripts`` has one script for each channel. The consumer may cancel channel ``cancel`` at any
    moment. With ``fails`` the producer may fail at any moment. A ``lawless`` producer ends its
    channels as the script says, in spite of its own table. With ``widens`` records count as large,
    so that pools grow. ``events`` is the number of events that a consumer may hold unread.
    """

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
    """A step that is possible next."""

    name: str
    channel: int = -1

    def __str__(self) -> str:
        return self.name if self.channel < 0 else f"{self.name} {self.channel}"


class BrokenInvariantError(AssertionError):
    """An invariant of the world is broken."""


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
