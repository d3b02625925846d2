"""The connection: all logical channels between two workers, both directions, without any I/O.

Theory of operation. The connection is a *consumer's* end for the channels that its worker reads
from the peer (``ChannelRegistry``, by numbers this side chose) and a *producer's* end for the
subpartitions that the peer reads (``ReaderRegistry``, by numbers the peer chose). Which of the two
a number means follows from the message type, so the two sides never coordinate numbers.

Bytes in: ``get_buffer`` and ``received``; a violation raises RemoteProtocolError and ends the
connection, never only a channel. The receive path queues answers and returns; it never waits for
the send path, and the socket is always read.

Without credit (``flow_control`` is "off") a frame may find no buffer. The connection is then
*stalled* on that frame's channel: the shell stops reading the socket, until ``can_resume`` says
that the buffer has come (or the channel gone) and ``resume`` goes on with what had been read
already.

One call handles ``turn_messages_max`` messages at most. If there are more, the connection
``has_more``: the shell lets the loop turn, so that others have theirs, and calls again before it
reads on. That pause is short and for fairness; it is no flow control, which is what credit is for.

Bytes out: ``next_frames`` takes from the ``Outbox``, which decides the order. The frames refer to
the buffers' own memory: the shell calls ``frames_written`` when the socket has taken all of them,
and only then are the buffers recycled. ``on_output`` asks the shell to look here again: whenever
something is added, and when the budget has kept something back.

Time: the shell calls ``tick`` once per heartbeat interval. That sends a heartbeat if nothing else
was sent, and gives up a peer that has sent or taken nothing for too long (``Liveness``).

States: *open* -> *closing* (``close`` was called; a CloseRequest follows what is still to be sent
and is the last message) -> *lost*, once, with a cause; every channel fails with it, every reader
is released with it. A connection with a ``failure`` sends nothing more; the shell closes it.

Bounds: control messages by ``control_bytes_max`` (a peer that does not read them is cut off),
events by ``events_per_channel_max``, readers by ``channels_per_connection_max`` (a cancelled one
counts until its cancel is here) and, with those of the worker's other connections, by
``channels_per_worker_max``, buffers handed to the socket by the budget, and what needs nothing
behind it by ``peer_budget.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from flinknet.config import NetworkConfig
from flinknet.connection.channel_registry import ChannelRegistry
from flinknet.connection.checksummed_outbox import ChecksummedOutbox
from flinknet.connection.liveness import Liveness
from flinknet.connection.outbox import Outbox
from flinknet.connection.peer_budget import MinuteBudget, ReaderQuota
from flinknet.connection.reader_registry import ReaderRegistry
from flinknet.connection.subpartition_reader import (
    SubpartitionReader,
    SubpartitionReaderStatistics,
)
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import (
    CorruptedDataError,
    ErrorCode,
    RemoteError,
    RemoteProtocolError,
    RemoteTransportError,
    remote_error,
)
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.wire.checksum import seal
from flinknet.wire.checksummed_decoder import ChecksummedFrameDecoder
from flinknet.wire.codec import FrameDecoder, encode, encode_error
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType

__all__ = ["Connection", "ConnectionStatistics"]

_HEARTBEAT = encode(MessageType.HEARTBEAT)
_SPEAKS_AFTER_CLOSE = "the peer sent a message after its CLOSE_REQUEST"


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
    messages_dropped: int
    """Errors and backlogs that, like the buffers dropped, came for a channel already cancelled."""
    credit_messages_out: int
    stalled: bool


class Connection:
    """One end of the one connection between two workers."""

    def __init__(
        self,
        peer: str,
        registry: PartitionRegistry,
        config: NetworkConfig,
        on_output: Callable[[], None],
        quota: ReaderQuota | None = None,
        *,
        worker_id: str = "",
        checksums: bool = False,
    ) -> None:
        """``quota`` counts the readers of all connections of the worker; its own by default."""
        self.peer = peer
        self.failure: BaseException | None = None
        self.closing = False
        self.peer_closing = False
        self._config = config
        self._on_output = on_output
        decoder = ChecksummedFrameDecoder if checksums else FrameDecoder
        self._decoder = decoder(
            self,
            config.wire,
            segment_bytes=config.segment_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
            turn_messages_max=config.turn_messages_max,
        )
        self.get_buffer = self._decoder.get_buffer
        self._now = 0.0
        self._channels = ChannelRegistry(config)
        self.begin_buffer = self._channels.begin_buffer
        self.end_buffer = self._channels.end_buffer
        if quota is None:
            quota = ReaderQuota(config.wire.channels_per_worker_max)
        self._readers = ReaderRegistry(self, registry, config, quota, worker_id)
        self._heartbeats = MinuteBudget(config.wire.heartbeats_per_minute_max)
        self.on_credit = self._readers.add_credit
        outbox = ChecksummedOutbox if checksums else Outbox
        self._outbox = outbox(config.segment_bytes, on_output)
        self._checksums = checksums
        self._sealed = seal if checksums else bytes
        """A message as it is sent."""
        self.on_reader_available = self._outbox.add_reader
        self.next_frames = self._outbox.next_frames
        self.frames_written = self._outbox.frames_written
        self._liveness = Liveness(
            config.heartbeat_interval_ms / 1000, config.heartbeat_timeout_ms / 1000
        )
        self.can_resume = False
        self._said_goodbye = False
        self._bytes_in = 0

    # -- bytes in ---------------------------------------------------------------------------------

    def received(self, size: int, now: float) -> None:
        """Handle ``size`` bytes read into ``get_buffer()``. Raises RemoteProtocolError.

        With checksums, bytes that only go on with a body are no sign of life: its length may be
        what was damaged, and then everything that follows goes into it, heartbeats as well.
        """
        self._now = now
        self._bytes_in += size
        if size >= self._decoder.body_missing or not self._checksums:
            self._liveness.heard_at = now
        self._decoder.received(size)

    @property
    def has_more(self) -> bool:
        """Whether what has been read holds more messages than one turn of the loop may handle; the
        next turn goes on with ``received(0, now)`` before anything more is read."""
        return self._decoder.has_more

    @property
    def stalled(self) -> bool:
        """Whether a frame waits for a buffer, so that nothing more may be read."""
        return self._channels.stalled_on is not None

    def resume(self, now: float) -> None:
        """Go on with what had been read when the connection stalled; it may stall again."""
        assert self.stalled, "a connection was resumed that is not stalled"
        self._channels.stalled_on = None
        self.can_resume = False
        self._now = now
        self._decoder.received(0)

    def on_error_response(self, channel: int, code: int, text: str) -> None:
        """Fail one channel, or every channel if the error concerns the connection."""
        self._check_peer_may_speak()
        if channel == CONNECTION_CHANNEL:
            self.peer_closing = True
            corrupted = code == ErrorCode.CORRUPTED
            error = CorruptedDataError if corrupted else RemoteProtocolError
            raise error(f"the peer closes the connection: {text}")
        self._channels.fail(channel, remote_error(code, text))

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
        reader = self._readers.cancel(channel, self._now)
        self._outbox.remove_reader(reader)

    def _on_close_request(self) -> None:
        self.peer_closing = True
        self.begin_buffer = self.on_credit = self._refuse

    def _refuse(self, *message: Any, **fields: Any) -> NoReturn:
        raise RemoteProtocolError(_SPEAKS_AFTER_CLOSE)

    def _on_heartbeat(self) -> None:
        """That something came is all it says."""
        if not self._heartbeats.spend(self._now):
            raise RemoteProtocolError(
                f"the peer sent more than {self._heartbeats.limit} heartbeats in a minute "
                f"(heartbeats_per_minute_max)"
            )

    def _on_backlog_announcement(self, channel: int, backlog: int) -> None:
        self._channels.on_backlog(channel, backlog)

    def _check_peer_may_speak(self) -> None:
        if self.peer_closing:
            raise RemoteProtocolError(_SPEAKS_AFTER_CLOSE)

    # -- the consumer's requests (PartitionRequestClient) -----------------------------------------

    def request_subpartition(self, channel: RemoteInputChannel) -> None:
        """Give the channel a number and send its request."""
        if self.failure is not None:
            channel.fail(self.failure)
            return
        self._send(
            encode(
                MessageType.PARTITION_REQUEST,
                self._channels.add(channel),
                wire_partition_id(channel.location.partition_id),
                channel.location.subpartition,
                channel.initial_credit,
            )
        )

    def offer_credit(self, channel: RemoteInputChannel) -> None:
        """Have the channel's AddCredit go along with anything else."""
        number = self._channels.number_of(channel)
        if number is not None:
            self._outbox.offer_credit(channel, number)

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        """Queue the channel for its AddCredit."""
        number = self._channels.number_of(channel)
        if number is not None and self.failure is None:
            self._outbox.add_credit(channel, number)

    def resume_reading(self, channel: RemoteInputChannel) -> None:
        """The buffer is there for which the connection stopped reading."""
        if self._channels.stalled_on is channel:
            self.can_resume = True
            self._on_output()

    def resume_consumption(self, channel: RemoteInputChannel) -> None:
        """Send ResumeConsumption."""
        self._send_for(channel, MessageType.RESUME_CONSUMPTION)

    def acknowledge_all_data_processed(self, channel: RemoteInputChannel) -> None:
        """Send AcknowledgeAllRecordsProcessed."""
        self._send_for(channel, MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED)

    def announce_buffer_size(self, channel: RemoteInputChannel, size_bytes: int) -> None:
        """Queue the channel for its NewBufferSize; the last size is the one that is sent."""
        number = self._channels.number_of(channel)
        if number is not None and self.failure is None:
            self._outbox.add_buffer_size(channel, number, size_bytes)

    def close_channel(self, channel: RemoteInputChannel) -> None:
        """Forget the channel and cancel its request; frames on their way are skipped on arrival."""
        self._send_for(channel, MessageType.CANCEL_PARTITION_REQUEST)
        self._channels.remove(channel)
        self._outbox.remove_channel(channel)
        self.resume_reading(channel)

    def _send_for(self, channel: RemoteInputChannel, message_type: MessageType) -> None:
        number = self._channels.number_of(channel)
        if number is not None and self.failure is None:
            self._send(encode(message_type, number))

    # -- the producer's readers (ReaderOwner) -----------------------------------------------------

    def on_channel_failed(self, channel: int, cause: BaseException) -> None:
        """Send the error of one channel."""
        code = cause.code if isinstance(cause, RemoteError) else ErrorCode.INTERNAL
        self._send(encode_error(channel, code, str(cause), self._config.wire))

    def announce_backlog(self, reader: SubpartitionReader, backlog: int) -> None:
        """Send BacklogAnnouncement."""
        self._send(encode(MessageType.BACKLOG_ANNOUNCEMENT, reader.channel, backlog))

    # -- bytes out --------------------------------------------------------------------------------

    @property
    def has_output(self) -> bool:
        """Whether there is anything that has to be sent."""
        goodbye = self.closing and not self._said_goodbye
        return bool(self._outbox or goodbye)

    def _last_frames(self, budget_bytes: int) -> list[bytes | memoryview]:
        """Return frames as the outbox does, and the goodbye behind the last of them."""
        frames = self._outbox.next_frames(budget_bytes)
        if not (self._said_goodbye or self._outbox):
            self._said_goodbye = True
            frames.append(self._sealed(encode(MessageType.CLOSE_REQUEST)))
        return frames

    def _send(self, message: bytes) -> None:
        if self.failure is not None or self._said_goodbye:
            return
        outbox, limit = self._outbox, self._config.wire.control_bytes_max
        outbox.add_message(message)
        if outbox.control_bytes > limit:
            self.failure = RemoteTransportError(
                f"{self.peer} does not read: {outbox.messages} control messages wait for it, over "
                f"{limit} bytes (control_bytes_max)"
            )

    def tick(self, now: float, unsent_bytes: int) -> None:
        """Show a sign of life if one is due, and set ``failure`` if the peer shows none.

        To be called once per ``heartbeat_interval_ms``; ``unsent_bytes`` is what the socket has
        been given and has not taken."""
        bytes_out = self._outbox.bytes_out
        reason = self._liveness.tick(
            now,
            bytes_out=bytes_out,
            unsent_bytes=unsent_bytes,
            judges=self._config.flow_control == "credit",
        )
        if reason is not None and self.failure is None:
            self.failure = RemoteTransportError(
                f"{self.peer} {reason} (heartbeat_timeout_ms): its process is stopped, its event "
                f"loop is blocked, or the network is cut"
            )
            self._on_output()
        elif self._liveness.heartbeat_due(bytes_out, len(self._sealed(_HEARTBEAT))):
            self._send(_HEARTBEAT)

    # -- life -------------------------------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        """Whether a channel or reader lives on this connection."""
        return len(self._channels) > 0 or len(self._readers) > 0

    def close(self) -> None:
        """Say goodbye when everything is sent: the peer then takes the end of the stream as
        intended."""
        self.closing = True
        self.next_frames = self._last_frames
        self._on_output()

    def farewell(self, cause: RemoteProtocolError) -> bytes:
        """Return the last message to a peer that broke the protocol; none to one that has
        gone."""
        if self.peer_closing:
            return b""
        return self._sealed(
            encode_error(CONNECTION_CHANNEL, cause.code, str(cause), self._config.wire)
        )

    def lost(self, cause: BaseException) -> None:
        """The socket is gone: fail every channel, release every reader; idempotent."""
        if self.failure is None:
            self.failure = cause
        self._decoder.release()
        self._outbox.clear()
        self._channels.lost(self.failure)
        self._readers.lost(self.failure)

    def statistics(self) -> ConnectionStatistics:
        """Return the present counts."""
        outbox = self._outbox
        return ConnectionStatistics(
            peer=self.peer,
            channels=len(self._channels),
            readers=tuple(reader.statistics() for reader in self._readers),
            readers_available=outbox.readers,
            control_messages_queued=outbox.messages,
            control_bytes_queued=outbox.control_bytes,
            buffers_in_flight=outbox.in_flight,
            buffers_out=outbox.buffers_out,
            bytes_out=outbox.bytes_out,
            buffers_in=self._channels.buffers_in,
            bytes_in=self._bytes_in,
            buffers_dropped=self._channels.buffers_dropped,
            messages_dropped=self._channels.messages_dropped,
            credit_messages_out=outbox.credit_messages_out,
            stalled=self.stalled,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        self._outbox.check_invariants()
        assert self._outbox.readers == sum(reader.queued for reader in self._readers), (
            "a marked reader is not queued"
        )
        assert all(reader.credit >= 0 for reader in self._readers), "credit is negative"
        self._channels.check_invariants()
        assert self.stalled or not self.can_resume, "a connection would resume that reads"


_ABOUT_THE_CONNECTION: dict[MessageType, Callable[..., None]] = {
    MessageType.PARTITION_REQUEST: Connection._on_partition_request,
    MessageType.CANCEL_PARTITION_REQUEST: Connection._on_cancel,
    MessageType.CLOSE_REQUEST: Connection._on_close_request,
    MessageType.BACKLOG_ANNOUNCEMENT: Connection._on_backlog_announcement,
    MessageType.HEARTBEAT: Connection._on_heartbeat,
}
_ABOUT_A_READER: dict[MessageType, Callable[..., None]] = {
    MessageType.RESUME_CONSUMPTION: ReaderRegistry.resume_consumption,
    MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED: ReaderRegistry.acknowledge_all_data_processed,
    MessageType.NEW_BUFFER_SIZE: ReaderRegistry.notify_new_buffer_size,
}
