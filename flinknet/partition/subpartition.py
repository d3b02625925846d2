"""The interface between a result partition and its subpartitions, for every exchange mode.

This is Flink's ResultSubpartition. A partition writes through ``ResultSubpartition``. Its
subpartitions report on their readers through ``SubpartitionOwner``. Readers only have a view
(``buffer/view.py``). The exchange modes therefore differ only in the kind of subpartition:

- when ``create_view`` gives a reader data to poll, and how many readers there may be;
- when the data is *acknowledged*: when the only reader has processed it, or when it is kept for
  later readers;
- when the subpartition is *released*: by its readers (``SubpartitionOwner.on_released``), or only
  by its partition.

Every kind accepts data and events by the table in ``buffer/channel_end.py``, and raises
LocalProtocolError otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.builder import BufferBuilder
from flinknet.buffer.channel_end import ChannelEnd
from flinknet.buffer.view import AvailabilityListener, SubpartitionView
from flinknet.config import WireLimits

__all__ = [
    "ResultSubpartition",
    "SubpartitionFactory",
    "SubpartitionOwner",
    "SubpartitionStatistics",
]


class SubpartitionStatistics(NamedTuple):
    """Current state of one subpartition; buffers and bytes out are totals since its start."""

    subpartition: int
    queued_buffers: int
    queued_bytes: int
    backlog: int
    buffers_out: int
    bytes_out: int
    bytes_dropped: int
    blocked: bool
    finished: bool
    released: bool


class ResultSubpartition(Protocol):
    """One consumer's share of a partition, as seen by the partition and its writer."""

    released_on_consumption: bool
    """Whether the data goes with its reader, so that the producer stays until it is read. Otherwise
    the data stays until the partition is released."""
    index: int
    buffer_bytes: int
    """Size up to which new builders are filled."""
    end: ChannelEnd
    """Progress of the written data towards its end."""
    released: bool
    """Whether all readers are gone, so that added buffers are dropped."""

    @property
    def acknowledged(self) -> bool:
        """Whether all data is processed, or kept, so that the partition may end."""

    @property
    def consumed(self) -> bool:
        """Whether everything has been taken, including the end of the partition."""

    @property
    def has_had_reader(self) -> bool:
        """Whether a reader is or was attached."""

    @property
    def events_queued(self) -> int:
        """Events that the reader has not taken."""

    @property
    def is_full_of_events(self) -> bool:
        """Whether the number of waiting events is at its limit (``wire.events_per_channel_max``).

        The end of data, the end of the partition and one cancel marker are queued beyond it.
        """

    @property
    def load(self) -> int:
        """Length of the queue as one number, which compares by buffers and then by bytes."""

    @property
    def bytes_out(self) -> int:
        """Bytes that readers have taken."""

    def add_builder(self, builder: BufferBuilder) -> None:
        """Append an open builder, and seal the previous one."""

    def seal_open(self) -> None:
        """Seal the open builder, if any."""

    def flush(self) -> None:
        """Let a waiting reader take the bytes of the open builder."""

    def check_open(self) -> None:
        """Raise LocalProtocolError if the data has ended."""

    def check_event(self, data_type: DataType, size: int) -> None:
        """Raise LocalProtocolError if ``add_event`` would, for an event of ``size`` bytes."""

    def add_event(self, buffer: Buffer) -> None:
        """Append an event, or insert it in front of the data if it has priority."""

    def overtaken_data(self) -> list[Buffer]:
        """Return the data that a priority event added now overtakes: written, not read, in order.

        Each buffer has a reference for the caller and stays in the queue.
        """

    def prioritize(self, event: Buffer, body: bytes) -> list[Buffer]:
        """Give priority to a queued event, with a new body of the same length.

        Returns the data that it overtakes, as ``overtaken_data`` does.
        """

    def create_view(self, listener: AvailabilityListener) -> SubpartitionView:
        """Attach a reader.

        Raises:
            LocalProtocolError: If it cannot read, or not now.
        """

    def fail(self) -> None:
        """Drop all data of a failed partition, and notify the readers, which read the cause."""

    def statistics(self) -> SubpartitionStatistics:
        """Return the queue's length and the totals so far."""

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""


class SubpartitionOwner(Protocol):
    """The partition, as seen by its subpartitions."""

    partition_id: str

    def failure_cause(self) -> BaseException | None:
        """Return the error with which the producer failed, or None."""

    def on_all_data_processed(self) -> None:
        """Handle that a subpartition's data was acknowledged, or is kept for later readers."""

    def on_barrier_taken(self, subpartition: ResultSubpartition, event: Buffer) -> None:
        """Handle that the reader has taken a barrier before its time was over."""

    def time_out_barrier_of(self, subpartition: ResultSubpartition, checkpoint_id: int) -> bool:
        """Let a checkpoint's barrier overtake one subpartition; False if it did not wait there."""

    def on_room_for_events(self) -> None:
        """Handle that a subpartition full of events has room again."""

    def on_released(self, subpartition: ResultSubpartition, cause: BaseException | None) -> None:
        """Handle that the reader is done, has cancelled, or was lost because of ``cause``."""


SubpartitionFactory = Callable[[SubpartitionOwner, int, int, WireLimits], ResultSubpartition]
"""Creates subpartition ``index`` of an owner, with its buffer size and event limits."""
