"""The reader registry: the readers that a peer has opened on a connection, by channel id.

The peer numbers its requests in increasing order and never reuses a number. A number below the next
one belongs to a reader that is here or was cancelled. A message for a channel finds its reader
until the peer itself has cancelled the channel. A message for any other number breaks the protocol.
Requests are checked against the limits before anything is created for them.

A request beyond the worker's room is answered with an error, which ends its channel. Until the
cancel comes, one shared reader in state DONE represents all such channels at no further cost.

A request that meets no registered partition is *unmet*. After several of them, ``paused_until`` is
the time from which the connection may be read: now, but in another turn of the event loop, or at
its time slot (``peer_limits.py``). It is None while there is no reason to pause.

Invariant: the worker's quota counts every reader here except the shared one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from flinknet.config import NetworkConfig
from flinknet.connection.peer_limits import (
    UNMET_REQUESTS_AT_ONCE,
    RateLimit,
    ReaderQuota,
    UnmetRequestPacer,
)
from flinknet.connection.subpartition_reader import ReaderOwner, SubpartitionReader
from flinknet.errors import RemoteProtocolError, TooManyChannelsError
from flinknet.partition.registry import PartitionRegistry
from flinknet.wire.messages import CONNECTION_CHANNEL

__all__ = ["ReaderRegistry"]

log = logging.getLogger("flinknet.connection")

_ANY_CREDIT = 2**62
"""Credit for a refused channel has no effect, so any amount is accepted."""


class ReaderRegistry:
    """Readers by channel id; invalid messages about them raise RemoteProtocolError."""

    def __init__(
        self,
        owner: ReaderOwner,
        partitions: PartitionRegistry,
        config: NetworkConfig,
        quota: ReaderQuota,
        unmet_requests: UnmetRequestPacer,
        consumer: str,
    ) -> None:
        self._consumer = consumer
        self._owner = owner
        self._partitions = partitions
        self._segment_bytes = config.segment_bytes
        self._limits = config.wire
        self._needs_credit = config.flow_control == "credit"
        self._readers: dict[int, SubpartitionReader] = {}
        self._next_channel = 0
        self._quota = quota
        self._unmet_requests = unmet_requests
        self._unmet = 0
        self.paused_until: float | None = None
        self._unused = RateLimit(config.wire.unused_requests_per_minute_max)
        self._refused = SubpartitionReader(
            owner,
            CONNECTION_CHANNEL,
            0,
            _ANY_CREDIT,
            events_max=self._limits.events_per_channel_max,
        )
        self._refused.refuse()

    def __len__(self) -> int:
        return len(self._readers)

    def __iter__(self) -> Iterator[SubpartitionReader]:
        refused = self._refused
        return iter([reader for reader in self._readers.values() if reader is not refused])

    def request(
        self, channel: int, wire_id: bytes, subpartition: int, credit: int, now: float
    ) -> None:
        """Handle a PartitionRequest: create a reader and request its partition."""
        limits = self._limits
        if not self._next_channel <= channel < CONNECTION_CHANNEL:
            raise RemoteProtocolError(
                f"the peer requested channel {channel}; its next number is {self._next_channel} or "
                f"more"
            )
        if credit > limits.credit_per_channel_max:
            raise RemoteProtocolError(
                f"the peer requested channel {channel} with a credit of {credit}; the limit is "
                f"{limits.credit_per_channel_max} (credit_per_channel_max)",
                kind="credit",
            )
        if credit and not self._needs_credit:
            raise RemoteProtocolError(
                f"the peer requested channel {channel} with a credit of {credit}, though flow "
                f"control is off"
            )
        # A cancelled reader counts until its cancel arrives.
        if len(self._readers) >= limits.channels_per_connection_max:
            raise RemoteProtocolError(
                f"the peer requested more than {limits.channels_per_connection_max} channels "
                f"(channels_per_connection_max)",
                kind="requests",
            )
        self._next_channel = channel + 1
        log.debug(
            "channel %d of %s: subpartition %d requested", channel, self._owner.peer, subpartition
        )
        if not self._quota.take():
            self._readers[channel] = self._refused
            self._owner.on_channel_failed(
                channel,
                TooManyChannelsError(
                    f"the producer's worker serves {self._quota.limit} channels: use more workers "
                    f"or less parallelism, or raise its channels_per_worker_max"
                ),
            )
            self._count_unmet(now)
            return
        reader = SubpartitionReader(
            self._owner,
            channel,
            credit,
            limits.credit_per_channel_max,
            events_max=limits.events_per_channel_max,
            needs_credit=self._needs_credit,
        )
        self._readers[channel] = reader
        if not self._partitions.request(
            wire_id, subpartition, reader, now, consumer=self._consumer
        ):
            self._count_unmet(now)

    def _count_unmet(self, now: float) -> None:
        place = self._unmet_requests.reserve_slot(now)
        self._unmet += 1
        if self._unmet == UNMET_REQUESTS_AT_ONCE:
            self._unmet = 0
            self.paused_until = place

    def cancel(self, channel: int, now: float) -> SubpartitionReader:
        """Handle a CancelPartitionRequest: release the reader and return it."""
        reader = self._reader(channel, "CANCEL_PARTITION_REQUEST")
        # A request without any data costs the worker time and the peer nothing.
        if not (reader.used or self._unused.spend(now)):
            raise RemoteProtocolError(
                f"the peer cancelled more than {self._unused.limit} requests in a minute before "
                f"anything was sent on their channels (unused_requests_per_minute_max)",
                kind="cancels",
            )
        del self._readers[channel]
        if reader is not self._refused:
            self._partitions.cancel(reader)
            reader.release()
            self._quota.give_back()
        return reader

    def add_credit(self, channel: int, credit: int) -> None:
        """Handle an AddCredit."""
        if not self._needs_credit:
            raise RemoteProtocolError("the peer sent ADD_CREDIT, though flow control is off")
        # Looked up here first, because this message is as frequent as buffers.
        reader = self._readers.get(channel) or self._reader(channel, "ADD_CREDIT")
        try:
            reader.add_credit(credit)
        except RemoteProtocolError as violation:
            violation.kind = "credit"
            raise

    def add_event_credit(self, channel: int, events: int) -> None:
        """Handle an AddEventCredit."""
        reader = self._reader(channel, "ADD_EVENT_CREDIT")
        try:
            reader.add_event_credit(events)
        except RemoteProtocolError as violation:
            violation.kind = "credit"
            raise

    def resume_consumption(self, channel: int) -> None:
        """Handle a ResumeConsumption."""
        self._reader(channel, "RESUME_CONSUMPTION").resume_consumption()

    def acknowledge_all_data_processed(self, channel: int) -> None:
        """Handle an AcknowledgeAllRecordsProcessed."""
        reader = self._reader(channel, "ACKNOWLEDGE_ALL_RECORDS_PROCESSED")
        reader.acknowledge_all_data_processed()

    def notify_new_buffer_size(self, channel: int, size_bytes: int) -> None:
        """Handle a NewBufferSize."""
        reader = self._reader(channel, "NEW_BUFFER_SIZE")
        if not 0 < size_bytes <= self._segment_bytes:
            raise RemoteProtocolError(
                f"the peer asked for buffers of {size_bytes} bytes on channel {channel}; choose 1 "
                f"to {self._segment_bytes}"
            )
        reader.notify_new_buffer_size(size_bytes)

    def lost(self, cause: BaseException) -> None:
        """Release every reader, because the peer is gone."""
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            if reader is not self._refused:
                self._partitions.cancel(reader)
                reader.release(cause)
                self._quota.give_back()

    def _reader(self, channel: int, message: str) -> SubpartitionReader:
        reader = self._readers.get(channel)
        if reader is None:
            raise RemoteProtocolError(
                f"the peer sent {message} for channel {channel}, which it has not requested or has "
                f"cancelled"
            )
        return reader
