"""The local input channel: producer and consumer in one worker.

It polls the subpartition's view directly: the buffer object itself moves, without credit, and
without a copy unless it is a slice of one that the writer goes on in. A released buffer goes
straight back to the producer's pool, which is all the flow control there is.

A barrier that can time out is announced when the producer queues it, in front of everything else;
one announcement waits to be polled at most, that of the last barrier.
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
    """Reads a view; is the requester that the partition registry answers."""

    location: PartitionLocation

    def __init__(self, listener: ChannelListener, index: int, location: PartitionLocation) -> None:
        super().__init__(listener, index, location)
        self._view: SubpartitionView | None = None
        self._announcement: Buffer | None = None

    def on_view_created(self, view: SubpartitionView) -> None:
        """The partition is there."""
        if self.released:
            view.release()
            return
        self._become(ChannelEvent.ATTACH)
        self._view = view
        self.notify_data_available()
        self.notify_barrier_queued()

    def on_request_failed(self, cause: BaseException) -> None:
        """The partition cannot be read."""
        self.fail(cause)

    def notify_data_available(self) -> None:
        """The view has something to poll."""
        view = self._view
        assert view is not None, "the partition told a reader that it does not have"
        failure = view.failure_cause()
        if failure is not None:
            self.fail(failure)
            return
        data_type = view.next_data_type()
        if data_type is not _NONE:
            self._listener.notify_channel_non_empty(self, data_type.has_priority)

    def notify_barrier_queued(self) -> None:
        """A barrier that can time out is queued: announce it, in front of what is."""
        assert self._view is not None, "the partition told a reader that it does not have"
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
        """Have the producer's queue do it, which hands out what is overtaken; see InputChannel."""
        return self._view is not None and self._view.convert_to_priority_event(checkpoint_id)

    @property
    def buffers_in_use(self) -> int:
        """Data buffers in the subpartition; none before it is there."""
        return self._view.backlog() if self._view is not None and not self.released else 0

    def announce_buffer_size(self, size_bytes: int) -> None:
        """Tell the subpartition."""
        assert not self.released, "a buffer size was announced by a released channel"
        if self._view is not None:
            self._view.notify_new_buffer_size(size_bytes)

    def resume_consumption(self) -> None:
        """Unblock the subpartition and look for data."""
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
        """Let go of the view; idempotent."""
        if self.released:
            return
        self._become(ChannelEvent.RELEASE)
        self._announcement = None
        if self._view is not None:
            self._view.release()

    def statistics(self) -> InputChannelStatistics:
        """Say what has come so far; a local channel has no credit, and its queue is the
        producer's."""
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
        """A local channel has no accounts of its own."""
