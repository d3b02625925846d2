"""The local input channel: producer and consumer are in one worker.

It polls the subpartition's view directly. The buffer object itself moves, without credit. It is not
copied unless it is a slice of a buffer that its writer still fills. A recycled buffer returns
directly to the producer's pool, which is the only flow control.

A barrier that can time out is announced when the producer queues it, in front of all other buffers.
At most one announcement waits to be polled, for the last barrier.
"""

from __future__ import annotations

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.channel_end import ChannelEnd
from flinknet.buffer.view import SubpartitionView
from flinknet.consumer.channel_state_persister import BARRIERS
from flinknet.consumer.input_channel import (
    ChannelEvent,
    ChannelListener,
    InputChannel,
    InputChannelStatistics,
    PartitionLocation,
)
from flinknet.errors import FlinknetError
from flinknet.wire.events import Event, announcement_of

__all__ = ["LocalInputChannel"]

_NONE = DataType.NONE
_OPEN = ChannelEnd.DATA


class LocalInputChannel(InputChannel):
    """Channel that reads a view; the requester that the partition registry answers."""

    location: PartitionLocation

    def __init__(self, listener: ChannelListener, index: int, location: PartitionLocation) -> None:
        super().__init__(listener, index, location)
        self._view: SubpartitionView | None = None
        self._announcement: Buffer | None = None

    def on_view_created(self, view: SubpartitionView) -> None:
        """Take the view of the partition."""
        # The gate was released while the request waited.
        if self.released:
            view.release()
            return
        self._become(ChannelEvent.ATTACH)
        self._view = view
        self.notify_data_available()
        # A barrier may wait since before this reader was attached.
        self.notify_barrier_queued()

    def on_request_failed(self, cause: BaseException) -> None:
        """Fail because the partition cannot be read."""
        self.fail(cause)

    def notify_data_available(self) -> None:
        """Handle that the view has a buffer to poll."""
        view = self._view
        assert view is not None, "the partition notified a reader without a view"
        failure = view.failure_cause()
        if failure is not None:
            self.fail(failure)
            return
        data_type = view.next_data_type()
        if data_type is not _NONE:
            self._listener.notify_channel_non_empty(self, data_type.has_priority)

    def notify_barrier_queued(self) -> None:
        """Announce a queued barrier that can time out, in front of the queue."""
        assert self._view is not None, "the partition notified a reader without a view"
        body = self._view.timeoutable_barrier()
        if body is not None:
            self._announcement = Buffer.event(*announcement_of(body))
            self._listener.notify_channel_non_empty(self, True)

    def _take_announcement(self) -> tuple[Buffer, DataType]:
        announcement, self._announcement = self._announcement, None
        assert announcement is not None
        assert self._view is not None
        return announcement, self._view.next_data_type()

    def poll(self) -> tuple[Buffer, DataType] | None:
        """Take the next buffer; see InputChannel."""
        if self.error is not None:
            raise self.error
        if self._announcement is not None:
            return self._take_announcement()
        polled = self._view.poll() if self._view is not None else None
        if polled is None:
            return None
        buffer = polled.buffer
        self._count(buffer)
        if buffer.data_type.is_event:
            if buffer.data_type in BARRIERS:
                self._note_barrier(buffer, polled.sequence)
        # Here data arrives when it is polled, because the queue belongs to the producer.
        elif self._persister.persist is not None:
            self._persister.persist(buffer.retained())
        if self.end is not _OPEN or buffer.data_type.is_event:
            try:
                self._take_step(buffer)
            except FlinknetError as error:
                buffer.recycle()
                self.fail(error)
                raise
        return buffer, polled.next_data_type

    def _note_barrier(self, buffer: Buffer, sequence: int) -> None:
        event = Event(buffer.data_type, bytes(buffer.view()))
        self._persister.on_event(event, sequence)

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """Convert the barrier in the producer's queue; see InputChannel.

        The producer passes on the data that it overtakes.
        """
        return self._view is not None and self._view.convert_to_priority_event(checkpoint_id)

    @property
    def buffers_in_use(self) -> int:
        """Data buffers in the subpartition; 0 before it is attached."""
        return self._view.backlog() if self._view is not None and not self.released else 0

    def announce_buffer_size(self, size_bytes: int) -> None:
        """Tell the subpartition."""
        assert not self.released, "a buffer size was announced by a released channel"
        if self._view is not None:
            self._view.notify_new_buffer_size(size_bytes)

    def resume_consumption(self) -> None:
        """Unblock the subpartition and check for data."""
        self._check_not_released("resumed")
        assert self._view is not None, "consumption was resumed before the partition was there"
        self._view.resume_consumption()
        self.notify_data_available()

    def acknowledge_all_data_processed(self) -> None:
        """Tell the subpartition; see InputChannel."""
        self._take_acknowledgement()
        assert self._view is not None
        self._view.acknowledge_all_data_processed()

    def release(self) -> None:
        """Release the view; idempotent."""
        if self.released:
            return
        self._become(ChannelEvent.RELEASE)
        self._announcement = None
        if self._view is not None:
            self._view.release()

    def statistics(self) -> InputChannelStatistics:
        """Return the totals so far.

        A local channel has no credit, and its queue belongs to the producer.
        """
        view = self._view
        backlog = view.backlog() if view is not None else 0
        return InputChannelStatistics(
            channel=self.index,
            kind="local",
            location=self.location,
            released=self.released,
            queued_buffers=backlog,
            queued_bytes=view.queued_bytes if view is not None else 0,
            buffers_in=self.buffers_in,
            bytes_in=self.bytes_in,
            backlog=backlog,
        )

    def check_invariants(self) -> None:
        """Do nothing: a local channel has no accounts of its own."""
