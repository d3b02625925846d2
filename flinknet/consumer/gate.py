"""What a record reader reads: an input gate, or several as one (Flink's abstract InputGate)."""

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
    """Buffers of numbered channels, one at a time; ``InputGate`` and ``UnionInputGate``."""

    name: str
    finished: bool
    availability: Availability
    """Available while there may be something to poll, an error included, and for good at the
    end."""
    priority_availability: Availability
    """Available while a priority event is to be polled next."""

    @property
    def gates(self) -> Sequence[InputGate]:
        """The input gates that are read: itself, or those that are united."""

    @property
    def channels(self) -> Sequence[InputChannel]:
        """The channels, by the indices that ``poll`` returns."""

    @property
    def end_of_data(self) -> EndOfData:
        """Whether the data of every channel has been polled, and how it ended."""

    def poll(self) -> tuple[int, Buffer] | None:
        """Take the next buffer with its channel's index; the caller recycles it.

        None if there is nothing now, or nothing ever again (``finished``). Raises the first error
        of a channel, and ClosedResourceError after release.
        """

    def acknowledge(self, index: int) -> None:
        """Every record of the channel up to its end of data has been processed.

        Whoever polls has to say so once for each END_OF_DATA: until then the producer waits, and
        the end of the partition does not come. Raises LocalProtocolError before, the second time,
        and after release."""

    def fail(self, cause: BaseException) -> None:
        """End the reading with an error, which every poll raises; the first one counts."""

    def when_released(self, callback: Callable[[Any], None]) -> None:
        """Call back once, when the gate is released."""

    def release(self) -> None:
        """Stop all channels and give every buffer back; idempotent."""
