"""The channel registry: the channels that this side has requested over a connection, by number.

Numbers increase and are never reused. A message about a number that was given out but has no
channel is late: the channel was closed while the message was on its way. It is dropped and counted.
Two kinds of messages break the protocol: about a number that was never given out, and behind the
end of a channel, which is the producer's error or the end of the partition.

A frame *arrives* from ``begin_buffer`` to ``end_buffer``, one at a time. Without credit there may
be no buffer for it. The registry is then *stalled* on the frame's channel until the buffer comes or
the channel closes, and then the link ``can_resume``.

Counters: buffers received; buffers and messages dropped.
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
    """Channels by number; invalid messages about them raise RemoteProtocolError."""

    def __init__(self, config: NetworkConfig) -> None:
        self.buffers_in = 0
        self.buffers_dropped = 0
        self.messages_dropped = 0
        self.stalled_on: RemoteInputChannel | None = None
        self.can_resume = False
        self._events_max = config.wire.events_per_channel_max
        self._credit = config.flow_control == "credit"
        self._channels: dict[int, RemoteInputChannel] = {}
        # Numbers that the peer ended with an error, until this side closes them.
        self._failed: set[int] = set()
        self._numbers: dict[RemoteInputChannel, int] = {}
        self._next_number = 0
        self.number_of = self._numbers.get
        """Returns a channel's number, or None if the channel is closed."""
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
        """Remove a channel; frames on their way to it are skipped on arrival."""
        number = self._numbers.pop(channel, None)
        if number is not None:
            self._channels.pop(number, None)
            self._failed.discard(number)

    def lost(self, cause: BaseException) -> None:
        """Fail every channel, because the peer is gone."""
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
        """Return the memory for a frame's body; see BufferReceiver."""
        channel = self._channels.get(header.channel)
        if channel is None:
            self._find(header.channel, "data")  # drop it only if it was requested and closed
            self.buffers_dropped += 1
            return None
        data_type = header.data_type
        is_event = data_type is not _DATA_WITH_CLEAR_END and data_type is not _DATA
        # The peer counts an event until it is told that the event was taken, and so does this side.
        if is_event and channel.events_queued + channel.events_untold >= self._events_max:
            raise RemoteProtocolError(
                f"the peer sent an event without event credit on channel {header.channel}: "
                f"{self._events_max} events have arrived and are not acknowledged yet "
                "(events_per_channel_max)"
            )
        body = channel.begin_buffer(header)
        if body is _FOR_MEMORY:
            self.stalled_on = channel
        else:
            self._arriving = channel
        return body

    def end_buffer(self) -> None:
        """Pass a complete frame to its channel."""
        channel, self._arriving = self._arriving, None
        assert channel is not None
        self.buffers_in += 1
        channel.end_buffer()

    def resume(self) -> None:
        """Clear the stall before the waiting frame is tried again."""
        assert self.stalled_on is not None, "a link was resumed that is not stalled"
        self.stalled_on = None
        self.can_resume = False

    def fail(self, number: int, error: RemoteError) -> None:
        """Handle an ErrorResponse for one channel."""
        channel = self._find(number, "an error")
        if channel is None:
            self.messages_dropped += 1
            return
        self._check_not_complete(channel, "an error")
        del self._channels[number]
        self._failed.add(number)
        channel.fail(error)

    def on_backlog(self, number: int, backlog: int) -> None:
        """Handle a BacklogAnnouncement."""
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
        """Raise AssertionError if the accounts are inconsistent."""
        assert len(self._channels) + len(self._failed) == len(self._numbers), (
            "the sets of channel numbers differ"
        )
        assert all(
            number in self._failed or self._channels[number] is c
            for c, number in self._numbers.items()
        ), "a channel is registered under another number"
        assert self.stalled_on is not None or not self.can_resume, (
            "a link that is not stalled would resume"
        )
