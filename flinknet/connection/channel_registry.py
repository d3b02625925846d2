"""The channel registry: the channels that this side has requested over a connection, by its
numbers.

Theory of operation. Numbers go upwards and are never used twice, so what the peer says about a
number below the next one, of which no channel is here, is late: the channel was closed while it was
on its way. It is dropped and counted. A number not given out yet is a violation, and so is
anything behind what ends a channel: the producer's error, or the end of the partition.

A frame *arrives* from ``begin_buffer`` to ``end_buffer``, one at a time. Without credit it may find
no buffer: the registry is then *stalled* on its channel, until the buffer is there or the channel
closed, so that the link ``can_resume``.

Owned counters: buffers that arrived, buffers and messages that were dropped.
"""

from __future__ import annotations

from flinknet.buffer.buffer import DataType
from flinknet.config import NetworkConfig
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import RemoteError, RemoteProtocolError
from flinknet.wire.buffer_header import BufferHeader
from flinknet.wire.codec import BufferReceiver, Stall

__all__ = ["ChannelRegistry"]

_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_FOR_MEMORY = Stall.FOR_MEMORY


class ChannelRegistry(BufferReceiver):
    """Channels by number; what the peer says about them raises RemoteProtocolError if wrong."""

    def __init__(self, config: NetworkConfig) -> None:
        self.buffers_in = 0
        self.buffers_dropped = 0
        self.messages_dropped = 0
        self.stalled_on: RemoteInputChannel | None = None
        self.can_resume = False
        self._events_max = config.wire.events_per_channel_max
        self._credit = config.flow_control == "credit"
        self._channels: dict[int, RemoteInputChannel] = {}
        self._failed: set[int] = set()
        self._numbers: dict[RemoteInputChannel, int] = {}
        self._next_number = 0
        self.number_of = self._numbers.get
        """Returns a channel's number, None if it is closed."""
        self._arriving: RemoteInputChannel | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    # -- this side --------------------------------------------------------------------------------

    def add(self, channel: RemoteInputChannel) -> int:
        """Give a channel its number."""
        number = self._next_number
        self._next_number += 1
        self._channels[number] = channel
        self._numbers[channel] = number
        return number

    def remove(self, channel: RemoteInputChannel) -> None:
        """Forget a channel; frames on their way to it are skipped on arrival."""
        number = self._numbers.pop(channel, None)
        if number is not None:
            self._channels.pop(number, None)
            self._failed.discard(number)

    def lost(self, cause: BaseException) -> None:
        """The peer is gone: fail every channel."""
        self.stalled_on = None
        self.can_resume = False
        if self._arriving is not None:
            self._arriving.abort_buffer()
            self._arriving = None
        channels = list(self._numbers)
        self._numbers.clear()
        self._channels.clear()
        self._failed.clear()
        for channel in channels:
            channel.fail(cause)

    # -- the peer ---------------------------------------------------------------------------------

    def begin_buffer(self, header: BufferHeader) -> memoryview | Stall | None:
        """Find the memory for a frame's body; see MessageReceiver."""
        channel = self._channels.get(header.channel)
        if channel is None:
            self._find(header.channel, "data")  # it was requested, and is closed
            self.buffers_dropped += 1
            return None
        data_type = header.data_type
        is_event = data_type is not _DATA_WITH_CLEAR_END and data_type is not _DATA
        if is_event and channel.events_queued + channel.events_untold >= self._events_max:
            raise RemoteProtocolError(
                f"the peer sent an event without event credit on channel {header.channel}: "
                f"{self._events_max} have come of which it has not been told that they were taken "
                f"(events_per_channel_max)"
            )
        body = channel.begin_buffer(header)
        if body is _FOR_MEMORY:
            self.stalled_on = channel
        else:
            self._arriving = channel
        return body

    def end_buffer(self) -> None:
        """A frame's body is complete."""
        channel, self._arriving = self._arriving, None
        assert channel is not None
        self.buffers_in += 1
        channel.end_buffer()

    def resume(self) -> None:
        """The frame that waited is tried again."""
        assert self.stalled_on is not None, "a link was resumed that is not stalled"
        self.stalled_on = None
        self.can_resume = False

    def fail(self, number: int, error: RemoteError) -> None:
        """ErrorResponse for one channel."""
        channel = self._find(number, "an error")
        if channel is None:
            self.messages_dropped += 1
            return
        self._check_not_complete(channel, "an error")
        del self._channels[number]
        self._failed.add(number)
        channel.fail(error)

    def on_backlog(self, number: int, backlog: int) -> None:
        """BacklogAnnouncement."""
        channel = self._find(number, "a backlog")
        if channel is None:
            self.messages_dropped += 1
            return
        self._check_not_complete(channel, "a backlog")
        if backlog == 0 or channel.initial_credit or not self._credit:
            raise RemoteProtocolError(
                f"the peer announced a backlog of {backlog} for channel {number}, which began with "
                f"a credit of {channel.initial_credit}: only a channel without any needs it"
            )
        if channel.blocked:
            raise RemoteProtocolError(
                f"the peer announced a backlog for {channel}, behind an event that blocks it until "
                f"it is resumed"
            )
        channel.on_backlog(backlog)

    def _find(self, number: int, what: str) -> RemoteInputChannel | None:
        channel = self._channels.get(number)
        if channel is None and number >= self._next_number:
            raise RemoteProtocolError(
                f"the peer sent {what} for channel {number}, which was never requested"
            )
        if number in self._failed:
            raise RemoteProtocolError(
                f"the peer sent {what} for channel {number}, which it has ended with an error"
            )
        return channel

    def _check_not_complete(self, channel: RemoteInputChannel, what: str) -> None:
        if channel.complete:
            raise RemoteProtocolError(
                f"the peer sent {what} for {channel}, behind the end of its partition"
            )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        assert len(self._channels) + len(self._failed) == len(self._numbers), (
            "channel numbers are out of step"
        )
        assert all(
            number in self._failed or self._channels[number] is c
            for c, number in self._numbers.items()
        ), "a channel stands under another's number"
        assert self.stalled_on is not None or not self.can_resume, "a link would resume that reads"
