"""The seam between producer and consumer: one reader's view of one subpartition.

A local input channel polls it directly, a connection polls it for a remote one; neither knows the
subpartition behind it, and the subpartition knows neither of them (Flink's ResultSubpartitionView).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from flinknet.buffer.buffer import Buffer, DataType

__all__ = ["AvailabilityListener", "BufferAndBacklog", "SubpartitionView"]


class BufferAndBacklog(NamedTuple):
    """A polled buffer, the data buffers left behind it, what comes next, and its place in order."""

    buffer: Buffer
    backlog: int
    next_data_type: DataType
    sequence: int


class AvailabilityListener(Protocol):
    """Whoever reads a view (Flink's BufferAvailabilityListener)."""

    def notify_data_available(self) -> None:
        """The view went from nothing to poll to something; called inside the producer's call."""

    def notify_barrier_queued(self) -> None:
        """A barrier that can time out was queued, behind whatever is; called likewise."""


class SubpartitionView(Protocol):
    """What one reader may do with one subpartition."""

    def poll(self) -> BufferAndBacklog | None:
        """Take the next buffer; the caller recycles it. None if there is nothing to take now."""

    def next_data_type(self) -> DataType:
        """The type of what ``poll`` would return, NONE for nothing."""

    def backlog(self) -> int:
        """Data buffers that can be polled now; events are never counted."""

    @property
    def queued_bytes(self) -> int:
        """Bytes written and not polled."""

    def resume_consumption(self) -> None:
        """Go on after a buffer whose type blocks the upstream; an error if not blocked."""

    def timeoutable_barrier(self) -> bytes | None:
        """The body of the last barrier that is queued and can time out, None if there is none."""

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """The time of a queued barrier is over: let it overtake everything; whether it did. What
        it overtakes is given to the producer, whose output it is."""

    def acknowledge_all_data_processed(self) -> None:
        """Tell the producer that every record before the end of data has been processed, once."""

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Fill new buffers only up to this size (buffer debloating)."""

    def failure_cause(self) -> BaseException | None:
        """Why the producer failed, None if it did not; there is nothing to poll then."""

    def release(self, cause: BaseException | None = None) -> None:
        """Stop reading: what is queued is recycled, what is written from now on is dropped.

        ``cause`` says that the reader was lost; None that it is done, or cancelled on purpose.
        """
