"""The connection: all logical channels between two workers, both directions, without any I/O.

Theory of operation. The connection is a *consumer's* end for the channels that its worker reads
from the peer (``_channels``, by ids this side chose) and a *producer's* end for the subpartitions
that the peer reads (``_readers``, by ids the peer chose). Which of the two an id means follows
from the message type, so the two sides never coordinate ids. Ids are not reused within a
connection.

Bytes in: ``get_buffer`` and ``received``; a violation raises RemoteProtocolError and ends the
connection, never only a channel. The receive path queues answers and returns; it never waits for
the send path, and the socket is always read.

Bytes out: ``next_frames`` takes, in this order, control messages, one AddCredit per channel that
has credit to announce, then one buffer from each available reader in turn, until the byte budget
is used. The frames refer to the buffers' own memory: the shell calls ``frames_written`` when the
socket has taken all of them, and only then are the buffers recycled. ``on_output`` tells the
shell, once per need, that there is something.

States: *open* -> *closing* (``close`` was called; a CloseRequest follows what is still to be sent
and is the last message) -> *lost*, once, with a cause; every channel fails with it, every reader
is released with it. A connection with a ``failure`` sends nothing more; the shell closes it.

Bounds: control messages by ``control_bytes_max`` (a peer that does not read them is cut off),
events by ``events_per_channel_max``, readers by ``channels_per_connection_max`` (a cancelled one
counts until its cancel is here), buffers handed to the socket by the budget.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.config import NetworkConfig
from flinknet.connection.reader_registry import ReaderRegistry
from flinknet.connection.subpartition_reader import (
    SubpartitionReader,
    SubpartitionReaderStatistics,
)
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import (
    ErrorCode,
    RemoteError,
    RemoteProtocolError,
    RemoteTransportError,
    remote_error,
)
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.wire.codec import FrameDecoder, encode, encode_buffer_header, encode_error
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType

__all__ = ["Connection", "ConnectionStatistics"]

_BUFFERS_PER_WRITE_MAX = 500
"""Header and body make 1,000 pieces; systems take 1,024 in one call (IOV_MAX)."""

_MESSAGE_OVERHEAD_BYTES = 64
"""What a queued message costs beside its bytes: the object around them and its place in the
queue."""


class ConnectionStatistics(NamedTuple):
    """Present state of a connection; buffers, bytes and drops count from its start."""

    peer: str
    channels: int
    readers: tuple[SubpartitionReaderStatistics, ...]
    readers_available: int
    control_messages_queued: int
    control_bytes_queued: int
    buffers_in_flight: int
    buffers_out: int
    bytes_out: int
    buffers_in: int
    bytes_in: int
    buffers_dropped: int
    credit_messages_out: int


class Connection:
    """One end of the one connection between two workers."""

    def __init__(
        self,
        peer: str,
        registry: PartitionRegistry,
        config: NetworkConfig,
        on_output: Callable[[], None],
    ) -> None:
        self.peer = peer
        self.failure: BaseException | None = None
        self.closing = False
        self.peer_closing = False
        self._config = config
        self._on_output = on_output
        self._decoder = FrameDecoder(
            self,
            config.wire,
            segment_bytes=config.segment_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
        )
        self._now = 0.0
        self._channels: dict[int, RemoteInputChannel] = {}
        self._channel_ids: dict[RemoteInputChannel, int] = {}
        self._next_channel = 0
        self._arriving: RemoteInputChannel | None = None
        self._readers = ReaderRegistry(self, registry, config)
        self._available: deque[SubpartitionReader] = deque()
        self._control: list[bytes] = []
        self._control_bytes = 0
        self._credit: dict[RemoteInputChannel, None] = {}
        self._said_goodbye = False
        self._in_flight: list[tuple[Buffer, memoryview | bytes]] = []
        self._buffers_out = self._bytes_out = self._buffers_in = self._bytes_in = 0
        self._buffers_dropped = self._credit_messages_out = 0

    # -- bytes in ---------------------------------------------------------------------------------

    def get_buffer(self) -> memoryview:
        """Return memory for the next read of the socket."""
        return self._decoder.get_buffer()

    def received(self, size: int, now: float) -> None:
        """Handle ``size`` bytes read into ``get_buffer()``. Raises RemoteProtocolError."""
        self._now = now
        self._bytes_in += size
        self._decoder.received(size)

    def begin_buffer(
        self, channel: int, sequence: int, backlog: int, data_type: DataType, size: int
    ) -> memoryview | None:
        """Find the memory for a frame's body; see MessageReceiver."""
        self._check_peer_may_speak()
        target = self._channels.get(channel)
        if target is None:
            if channel >= self._next_channel:
                raise RemoteProtocolError(
                    f"the peer sent data for channel {channel}, which was never requested"
                )
            self._buffers_dropped += 1
            return None
        if data_type.is_event and target.events_queued >= self._config.wire.events_per_channel_max:
            raise RemoteProtocolError(
                f"the peer sent more than {self._config.wire.events_per_channel_max} events on "
                f"channel {channel} before its consumer took one (events_per_channel_max)"
            )
        self._arriving = target
        return target.begin_buffer(sequence, backlog, data_type, size)

    def end_buffer(self) -> None:
        """A frame's body is complete."""
        target, self._arriving = self._arriving, None
        assert target is not None
        self._buffers_in += 1
        target.end_buffer()

    def on_error_response(self, channel: int, code: int, text: str) -> None:
        """Fail one channel, or every channel if the error concerns the connection."""
        self._check_peer_may_speak()
        error = remote_error(code, text)
        if channel == CONNECTION_CHANNEL:
            self.peer_closing = True
            raise RemoteProtocolError(f"the peer closes the connection: {text}")
        target = self._channels.get(channel)
        if target is not None:
            target.fail(error)
        elif channel >= self._next_channel:
            raise RemoteProtocolError(f"the peer reported an error for unknown channel {channel}")

    def on_message(self, message_type: MessageType, fields: tuple[int | bytes, ...]) -> None:
        """Dispatch a message without body."""
        self._check_peer_may_speak()
        own = _ABOUT_THE_CONNECTION.get(message_type)
        if own is not None:
            own(self, *fields)
        else:
            _ABOUT_A_READER[message_type](self._readers, *fields)

    def _on_partition_request(
        self, channel: int, wire_id: bytes, subpartition: int, credit: int
    ) -> None:
        self._readers.request(channel, wire_id, subpartition, credit, self._now)

    def _on_cancel(self, channel: int) -> None:
        reader = self._readers.cancel(channel)
        if reader.queued:
            self._available.remove(reader)

    def _on_close_request(self) -> None:
        self.peer_closing = True

    def _on_backlog_announcement(self, channel: int, backlog: int) -> None:
        target = self._channels.get(channel)
        if target is not None:
            if backlog == 0 or target.initial_credit:
                raise RemoteProtocolError(
                    f"the peer announced a backlog of {backlog} for channel {channel}, which began "
                    f"with a credit of {target.initial_credit}: only a channel without any needs it"
                )
            target.on_backlog(backlog)
        elif channel >= self._next_channel:
            raise RemoteProtocolError(f"the peer announced a backlog for unknown channel {channel}")

    def _check_peer_may_speak(self) -> None:
        if self.peer_closing:
            raise RemoteProtocolError("the peer sent a message after its CLOSE_REQUEST")

    # -- the consumer's requests (PartitionRequestClient) -----------------------------------------

    def request_subpartition(self, channel: RemoteInputChannel) -> None:
        """Give the channel an id and send its request."""
        if self.failure is not None:
            channel.fail(self.failure)
            return
        number = self._next_channel
        self._next_channel += 1
        self._channels[number] = channel
        self._channel_ids[channel] = number
        self._send(
            encode(
                MessageType.PARTITION_REQUEST,
                number,
                wire_partition_id(channel.location.partition_id),
                channel.location.subpartition,
                channel.initial_credit,
            )
        )

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        """Queue the channel for its AddCredit."""
        if self.failure is None:
            self._credit[channel] = None
            self._on_output()

    def resume_consumption(self, channel: RemoteInputChannel) -> None:
        """Send ResumeConsumption."""
        self._send_for(channel, MessageType.RESUME_CONSUMPTION)

    def acknowledge_all_data_processed(self, channel: RemoteInputChannel) -> None:
        """Send AcknowledgeAllRecordsProcessed."""
        self._send_for(channel, MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED)

    def close_channel(self, channel: RemoteInputChannel) -> None:
        """Forget the channel and cancel its request; frames on their way are skipped on arrival."""
        self._send_for(channel, MessageType.CANCEL_PARTITION_REQUEST)
        number = self._channel_ids.pop(channel, None)
        if number is not None:
            del self._channels[number]

    def _send_for(self, channel: RemoteInputChannel, message_type: MessageType) -> None:
        number = self._channel_ids.get(channel)
        if number is not None and self.failure is None:
            self._send(encode(message_type, number))

    # -- the producer's readers (ReaderOwner) -----------------------------------------------------

    def on_reader_available(self, reader: SubpartitionReader) -> None:
        """Queue the reader, once."""
        if not reader.queued:
            reader.queued = True
            self._available.append(reader)
            self._on_output()

    def on_reader_failed(self, reader: SubpartitionReader, cause: BaseException) -> None:
        """Send the error of one channel."""
        code = cause.code if isinstance(cause, RemoteError) else ErrorCode.INTERNAL
        self._send(encode_error(reader.channel, code, str(cause), self._config.wire))

    def announce_backlog(self, reader: SubpartitionReader, backlog: int) -> None:
        """Send BacklogAnnouncement."""
        self._send(encode(MessageType.BACKLOG_ANNOUNCEMENT, reader.channel, backlog))

    # -- bytes out --------------------------------------------------------------------------------

    @property
    def has_output(self) -> bool:
        """Whether ``next_frames`` would return anything."""
        goodbye = self.closing and not self._said_goodbye
        return bool(self._control or self._credit or self._available or goodbye)

    def next_frames(self, budget_bytes: int) -> list[bytes | memoryview]:
        """Return frames of about ``budget_bytes`` for one ``writelines``.

        Buffers exceed the budget by one at most; control messages are sent whatever it is.
        """
        frames: list[bytes | memoryview] = []
        control = self._take_control()
        if control:
            frames.append(control)
        size = 0
        available = self._available
        in_flight_max = len(self._in_flight) + _BUFFERS_PER_WRITE_MAX
        while available and size < budget_bytes and len(self._in_flight) < in_flight_max:
            reader = available.popleft()
            reader.queued = False
            polled = reader.poll()
            if polled is None:
                continue
            buffer = polled.buffer
            view = buffer.view()
            frames.append(
                encode_buffer_header(
                    reader.channel, polled.sequence, polled.backlog, buffer.data_type, buffer.size
                )
            )
            frames.append(view)
            self._in_flight.append((buffer, view))
            size += buffer.size + len(frames[-2])
            self._buffers_out += 1
            if reader.available():
                reader.queued = True
                available.append(reader)
        self._bytes_out += size + len(control)
        if self.closing and not (self._said_goodbye or self._control or available):
            self._said_goodbye = True
            frames.append(encode(MessageType.CLOSE_REQUEST))
        return frames

    def _take_control(self) -> bytes:
        """Return every queued message, and one AddCredit for each channel that has credit."""
        messages, self._control, self._control_bytes = self._control, [], 0
        for channel in self._credit:
            credit = channel.take_unannounced_credit()
            if credit:
                messages.append(encode(MessageType.ADD_CREDIT, self._channel_ids[channel], credit))
                self._credit_messages_out += 1
        self._credit.clear()
        return b"".join(messages)

    def frames_written(self) -> None:
        """The socket has taken everything that ``next_frames`` returned: recycle the buffers.

        A transport may drop its views of them a little later; ``abandon`` sees to that.
        """
        if not self._in_flight:
            return
        in_flight, self._in_flight = self._in_flight, []
        for buffer, view in in_flight:
            if isinstance(view, memoryview):
                view.release()
            buffer.abandon()

    def _send(self, message: bytes) -> None:
        if self.failure is not None or self._said_goodbye:
            return
        self._control.append(message)
        self._control_bytes += len(message) + _MESSAGE_OVERHEAD_BYTES
        if self._control_bytes > self._config.wire.control_bytes_max:
            self.failure = RemoteTransportError(
                f"{self.peer} does not read: {len(self._control)} control messages wait for it, "
                f"over {self._config.wire.control_bytes_max} bytes (control_bytes_max)"
            )
        self._on_output()

    # -- life -------------------------------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        """Whether a channel or reader lives on this connection."""
        return bool(self._channels or self._readers)

    def close(self) -> None:
        """Say goodbye when everything is sent: the peer then takes the end of the stream as
        intended."""
        self.closing = True
        self._on_output()

    def farewell(self, cause: RemoteProtocolError) -> bytes:
        """Return the last message to a peer that broke the protocol; none to one that has
        gone."""
        if self.peer_closing:
            return b""
        return encode_error(CONNECTION_CHANNEL, cause.code, str(cause), self._config.wire)

    def lost(self, cause: BaseException) -> None:
        """The socket is gone: fail every channel, release every reader; idempotent."""
        if self.failure is None:
            self.failure = cause
        if self._arriving is not None:
            self._decoder.release()
            self._arriving.abort_buffer()
            self._arriving = None
        in_flight, self._in_flight = self._in_flight, []
        for buffer, _ in in_flight:
            buffer.abandon()
        self._control.clear()
        self._control_bytes = 0
        self._credit.clear()
        self._available.clear()
        channels, self._channels = self._channels, {}
        self._channel_ids.clear()
        for channel in channels.values():
            channel.fail(self.failure)
        self._readers.lost(self.failure)

    def statistics(self) -> ConnectionStatistics:
        """Return the present counts."""
        return ConnectionStatistics(
            peer=self.peer,
            channels=len(self._channels),
            readers=tuple(reader.statistics() for reader in self._readers),
            readers_available=len(self._available),
            control_messages_queued=len(self._control),
            control_bytes_queued=self._control_bytes,
            buffers_in_flight=len(self._in_flight),
            buffers_out=self._buffers_out,
            bytes_out=self._bytes_out,
            buffers_in=self._buffers_in,
            bytes_in=self._bytes_in,
            buffers_dropped=self._buffers_dropped,
            credit_messages_out=self._credit_messages_out,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        assert all(reader.queued for reader in self._available), "a queued reader is unmarked"
        assert len(self._available) == sum(reader.queued for reader in self._readers), (
            "a marked reader is not queued"
        )
        assert all(reader.credit >= 0 for reader in self._readers), "credit is negative"
        assert len(self._channels) == len(self._channel_ids), "channel ids are out of step"
        assert (self._control_bytes > 0) == bool(self._control), "control bytes are miscounted"


_ABOUT_THE_CONNECTION: dict[MessageType, Callable[..., None]] = {
    MessageType.PARTITION_REQUEST: Connection._on_partition_request,
    MessageType.CANCEL_PARTITION_REQUEST: Connection._on_cancel,
    MessageType.CLOSE_REQUEST: Connection._on_close_request,
    MessageType.BACKLOG_ANNOUNCEMENT: Connection._on_backlog_announcement,
}
_ABOUT_A_READER: dict[MessageType, Callable[..., None]] = {
    MessageType.ADD_CREDIT: ReaderRegistry.add_credit,
    MessageType.RESUME_CONSUMPTION: ReaderRegistry.resume_consumption,
    MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED: ReaderRegistry.acknowledge_all_data_processed,
    MessageType.NEW_BUFFER_SIZE: ReaderRegistry.notify_new_buffer_size,
}
