"""What a result partition needs of a subpartition, whichever way it keeps the data.

Theory of operation (Flink's ResultSubpartition). A partition writes into its subpartitions through
``ResultSubpartition``, and hears of their readers as their ``SubpartitionOwner``; the readers see
neither, they have a view (``buffer/view.py``). So what differs between exchange modes stands in the
kind of subpartition alone:

- when ``create_view`` gives a reader something to poll, and to how many;
- when the data counts as *acknowledged*: when the one reader has processed it, or when it is kept
  for whoever reads it later;
- when the subpartition is *released* by its readers (``SubpartitionOwner.on_released``), or only by
  its partition.

Every kind follows the table of ``buffer/channel_end.py`` in what may be written, and raises
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
    """Present state of one subpartition; buffers and bytes count from its start."""

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
    """One consumer's share of a partition, as the partition and its writer see it."""

    released_on_consumption: bool
    """Whether the data goes with its reader, so that the producer stays until it is read. Otherwise
    it is there until the partition is released."""
    index: int
    buffer_bytes: int
    """Up to where new builders are filled."""
    end: ChannelEnd
    """How far the data has been written."""
    released: bool
    """Whether nobody reads this any more: what is added is dropped."""

    @property
    def acknowledged(self) -> bool:
        """Whether all data has been processed, or is kept, so that its partition may end."""

    @property
    def consumed(self) -> bool:
        """Whether everything has been taken, the end of the partition included."""

    @property
    def has_had_reader(self) -> bool:
        """Whether somebody reads this, or has read it."""

    @property
    def events_queued(self) -> int:
        """Events that the reader has not taken."""

    @property
    def is_full_of_events(self) -> bool:
        """Whether as many events wait as may (``wire.events_per_channel_max``). The end of the
        data, that of the partition and one cancel marker are queued all the same."""

    @property
    def load(self) -> int:
        """The queue's length as one number to compare: its buffers, and of as many its bytes."""

    @property
    def bytes_out(self) -> int:
        """Bytes that readers have taken."""

    def add_builder(self, builder: BufferBuilder) -> None:
        """Append an open builder; the one before it is sealed first."""

    def seal_open(self) -> None:
        """Close the open builder, if any: nothing is appended to it any more."""

    def flush(self) -> None:
        """Let a reader that waits have what the open builder holds."""

    def check_open(self) -> None:
        """Raise LocalProtocolError if the data has ended."""

    def check_event(self, data_type: DataType, size: int) -> None:
        """Raise LocalProtocolError if ``add_event`` would, for an event of so many bytes."""

    def add_event(self, buffer: Buffer) -> None:
        """Append an event behind all data so far, or in front of it if the event has priority."""

    def overtaken_data(self) -> list[Buffer]:
        """What a priority event overtakes that is added now: the data that is written and not read,
        in order. Each part has a reference for the caller, and stays where it is."""

    def prioritize(self, event: Buffer, body: bytes) -> list[Buffer]:
        """Give priority to an event that is queued, with another body of the same length, and
        return what it overtakes, as ``overtaken_data`` does."""

    def create_view(self, listener: AvailabilityListener) -> SubpartitionView:
        """Attach a reader. Raises LocalProtocolError if it cannot read, or not now."""

    def fail(self) -> None:
        """The partition is gone: drop everything, and tell the readers to look for the cause."""

    def statistics(self) -> SubpartitionStatistics:
        """Say what is queued, and what has gone out so far."""

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""


class SubpartitionOwner(Protocol):
    """The partition, as its subpartitions see it."""

    partition_id: str

    def failure_cause(self) -> BaseException | None:
        """Why the producer failed, None if it did not."""

    def on_all_data_processed(self) -> None:
        """The end of data was acknowledged in one subpartition, or all data before it is kept."""

    def on_barrier_taken(self, subpartition: ResultSubpartition, event: Buffer) -> None:
        """The reader has taken a barrier that could have timed out, and did not."""

    def time_out_barrier_of(self, subpartition: ResultSubpartition, checkpoint_id: int) -> bool:
        """Let the barrier of a checkpoint overtake everything in one subpartition; whether it
        waited there."""

    def on_room_for_events(self) -> None:
        """A subpartition that was full of events is not any more."""

    def on_released(self, subpartition: ResultSubpartition, cause: BaseException | None) -> None:
        """The reader is done, has cancelled, or was lost because of ``cause``."""


SubpartitionFactory = Callable[[SubpartitionOwner, int, int, WireLimits], ResultSubpartition]
"""Makes subpartition ``index`` of an owner, from the size of its buffers and the limits of its
events."""
