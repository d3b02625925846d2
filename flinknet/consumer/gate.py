"""The input of a record reader: an input gate, or several as one (Flink's abstract InputGate)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from flinknet.buffer.availability import Availability
from flinknet.buffer.buffer import Buffer
from flinknet.consumer.end_of_data import EndOfData
from flinknet.consumer.input_channel import InputChannel
from flinknet.consumer.input_gate import InputGate

__all__ = ["Gate"]


class Gate(Protocol):
    """Buffers of numbered channels, one at a time: an ``InputGate`` or a ``UnionInputGate``."""

    name: str
    finished: bool
    availability: Availability
    """Available while there may be a buffer or an error to poll, and permanently at the end."""
    priority_availability: Availability
    """Available while a priority event is next."""

    @property
    def gates(self) -> Sequence[InputGate]:
        """The input gates that are read: the gate itself, or the gates of a union."""

    @property
    def channels(self) -> Sequence[InputChannel]:
        """The channels, by the indexes that ``poll`` returns."""

    @property
    def end_of_data(self) -> EndOfData:
        """Whether the data of every channel has been polled, and how it ended."""

    def poll(self) -> tuple[int, Buffer] | None:
        """Take the next buffer and its channel's index; the caller recycles it.

        Returns None if there is none now, or none ever again (``finished``). Raises the first error
        of a channel.

        Raises:
            ClosedResourceError: After release.
        """

    def acknowledge(self, index: int) -> None:
        """Report that all records of a channel up to its end of data have been processed.

        The polling task must call this once for each END_OF_DATA. Until then the producer waits,
        and the end of the partition does not come.

        Raises:
            LocalProtocolError: Before END_OF_DATA, on the second call, and after release.
        """

    def fail(self, cause: BaseException) -> None:
        """End the reading with an error that every poll raises; the first error counts."""

    def when_released(self, callback: Callable[[Any], None]) -> None:
        """Call ``callback`` once, when the gate is released."""

    def release(self) -> None:
        """Stop all channels and return all buffers; idempotent."""
