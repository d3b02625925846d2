"""The view between producer and consumer: one reader's access to one subpartition.

A local input channel polls the view directly, and a connection polls it for a remote channel. The
reader does not know the subpartition behind the view, and the subpartition does not know its reader
(Flink's ResultSubpartitionView).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from flinknet.buffer.buffer import Buffer, DataType

__all__ = ["AvailabilityListener", "BufferAndBacklog", "SubpartitionView"]


class BufferAndBacklog(NamedTuple):
    """A polled buffer and the state of the queue behind it.

    ``backlog`` counts the data buffers left, ``next_data_type`` is the type of the next buffer, and
    ``sequence`` is the polled buffer's sequence number.
    """

    buffer: Buffer
    backlog: int
    next_data_type: DataType
    sequence: int


class AvailabilityListener(Protocol):
    """Reader of a view (Flink's BufferAvailabilityListener)."""

    def notify_data_available(self) -> None:
        """Handle that an empty view has data to poll; called inside the producer's call."""

    def notify_barrier_queued(self) -> None:
        """Handle that a barrier that can time out was queued; called inside the producer's call."""


class SubpartitionView(Protocol):
    """Operations of one reader on one subpartition."""

    def poll(self) -> BufferAndBacklog | None:
        """Take the next buffer, which the caller must recycle; None if none is available now."""

    def next_data_type(self) -> DataType:
        """Return the type of the buffer that ``poll`` would return, or NONE."""

    def backlog(self) -> int:
        """Return the number of data buffers that can be polled now; events never count."""

    @property
    def queued_bytes(self) -> int:
        """Bytes written and not polled yet."""

    def resume_consumption(self) -> None:
        """Resume after a buffer that blocks the upstream; an error if the view is not blocked."""

    def timeoutable_barrier(self) -> bytes | None:
        """Return the body of the last queued barrier that can time out, or None."""

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """Let a timed-out barrier overtake all queued data; return whether it was queued.

        The producer gets the overtaken data, because it belongs to the producer's output.
        """

    def acknowledge_all_data_processed(self) -> None:
        """Tell the producer, once, that all records before the end of data are processed."""

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Fill new buffers only up to this size (buffer debloating)."""

    def failure_cause(self) -> BaseException | None:
        """Return the error with which the producer failed, or None.

        A failed producer's view has nothing to poll.
        """

    def release(self, cause: BaseException | None = None) -> None:
        """Stop reading: recycle queued buffers, and drop buffers written from now on.

        ``cause`` is the error that the reader was lost with. None means that the reader is done or
        was cancelled on purpose.
        """
