"""The input gate: the input of one consuming subtask, a fair merge of its channels.

This is Flink's SingleInputGate. Its states are *new* -> *set up* (it has its pool and its channels'
exclusive buffers) -> delivering -> *finished* (every channel has reached the end of its partition)
or failed; and *released* at the end.

Channels with buffers to poll are in a FIFO queue, each at most once. ``poll`` takes one buffer from
the first channel, and puts the channel last if it has more. No channel therefore starves another.
Channels with a priority event next are in front of the others. The first error of a channel, or of
the data it delivered, becomes the gate's error. Every poll raises it, ahead of any data.

A channel may be *unknown* until ``update_channel`` sets its producer's location. The gate counts it
as remote and keeps its exclusive buffers in reserve, so the update always finds buffers. A channel
that proves to be local returns them.

A channel's end of data is acknowledged once the reader has processed everything before it (the
reader calls ``acknowledge``). The end of the partition comes only then, and it releases the
channel. A reader that never acknowledges never finishes, nor does the producer. The gate's data has
ended when every channel's data has: *drained* if every producer had read all of its input,
*stopped* if any was stopped before.

``debloating`` limits the producers' buffer size (see ``debloating.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from flinknet.buffer.availability import Availability
from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.local_pool import (
    LargeRecordLimits,
    LocalBufferPool,
    LocalBufferPoolStatistics,
)
from flinknet.buffer.network_pool import NetworkBufferPool, SegmentRequest
from flinknet.buffer.segment import MemorySegment
from flinknet.config import NetworkConfig
from flinknet.consumer.buffer_manager import gate_buffers
from flinknet.consumer.debloating import GateDebloating
from flinknet.consumer.end_of_data import EndOfData
from flinknet.consumer.gate_statistics import InputGateStatistics
from flinknet.consumer.input_channel import (
    ChannelListener,
    InputChannel,
    PartitionLocation,
    UnknownLocation,
)
from flinknet.consumer.local_channel import LocalInputChannel
from flinknet.consumer.prioritized_deque import PrioritizedDeque
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.consumer.unknown_channel import UnknownInputChannel
from flinknet.errors import ClosedResourceError, LocalProtocolError
from flinknet.texts import text_of

__all__ = ["InputGate"]

log = logging.getLogger("flinknet.consumer")

_NONE = DataType.NONE
_PRIORITIZED = DataType.PRIORITIZED_EVENT_BUFFER
"""The only type with priority."""
_END_OF_PARTITION = DataType.END_OF_PARTITION


class InputGate(ChannelListener):
    """Input gate with a channel for each of ``locations``.

    A channel is local if its address is this worker's own, and unknown if it has no address yet.
    """

    def __init__(
        self,
        name: str,
        locations: Sequence[PartitionLocation | UnknownLocation],
        own_address: str,
        network_pool: NetworkBufferPool,
        config: NetworkConfig,
    ) -> None:
        if not locations:
            raise LocalProtocolError(f"gate {name} has no partition to read")
        self.name = name
        self.finished = False
        self.released = False
        self.is_set_up = False
        self.failure: BaseException | None = None
        self.availability = Availability()
        self.priority_availability = Availability()
        self._flow_control = config.flow_control
        self._own_address = own_address
        self._network_pool = network_pool
        self._queue: PrioritizedDeque[InputChannel] = PrioritizedDeque()
        self._held: dict[InputChannel, None] = {}
        self.reader_is_slow = False
        """Whether processing a buffer takes far longer than getting another; set by the reader."""
        self._unfinished = len(locations)
        self._on_failed: list[Callable[[BaseException], None]] = []
        self._on_released: list[Callable[[InputGate], None]] = []
        remote = sum(not self._is_local(location) for location in locations)
        need = gate_buffers(
            remote,
            config.buffers_per_channel,
            config.floating_buffers_per_gate,
            config.required_buffers_per_gate_max or None,
            flow_control=config.flow_control,
        )
        self._exclusive_per_channel = need.exclusive_per_channel
        self._exclusive_request: SegmentRequest | None = None
        self._reserve: list[MemorySegment] = []
        self._floating_pool: LocalBufferPool = network_pool.create_local_pool(
            need.floating_min if remote else 0,
            need.floating_max if remote else 0,
            owner=f"gate {name}",
            buffers_per_subpartition_max=config.buffers_per_subpartition_max,
            # A gate has no subpartitions, so large records only raise the pool's maximum.
            large=LargeRecordLimits(0, config.large_record_extra_buffers if remote else 0),
        )
        self.channels: list[InputChannel] = [
            self._make_channel(index, location) for index, location in enumerate(locations)
        ]
        self.debloating = GateDebloating(self.channels, config.debloat, network_pool.segment_bytes)

    def _is_local(self, location: PartitionLocation | UnknownLocation) -> bool:
        return isinstance(location, PartitionLocation) and location.address == self._own_address

    def _make_channel(
        self, index: int, location: PartitionLocation | UnknownLocation
    ) -> InputChannel:
        if isinstance(location, UnknownLocation):
            return UnknownInputChannel(self, index, location)
        if self._is_local(location):
            return LocalInputChannel(self, index, location)
        return RemoteInputChannel(
            self,
            index,
            location,
            self._network_pool,
            self._floating_pool,
            self._flow_control,
        )

    @property
    def gates(self) -> tuple[InputGate]:
        """The gate itself; see Gate."""
        return (self,)

    @property
    def remote_channels(self) -> list[RemoteInputChannel]:
        """The channels that need a connection."""
        return [channel for channel in self.channels if isinstance(channel, RemoteInputChannel)]

    @property
    def local_channels(self) -> list[LocalInputChannel]:
        """The channels with a producer in this worker."""
        return [channel for channel in self.channels if isinstance(channel, LocalInputChannel)]

    @property
    def unknown_channels(self) -> list[UnknownInputChannel]:
        """The channels with a producer that has no location yet."""
        return [channel for channel in self.channels if isinstance(channel, UnknownInputChannel)]

    def setup(self, on_ready: Callable[[], None]) -> None:
        """Request the exclusive buffers.

        ``on_ready`` is called when all are available, perhaps immediately. The known channels can
        then be requested.
        """
        not_local = len(self.channels) - len(self.local_channels)
        self._exclusive_request = self._network_pool.request_exclusive(
            not_local * self._exclusive_per_channel,
            partial(self._assign_exclusive, on_ready),
            owner=f"gate {self.name}",
        )

    def time_out_setup(self, waited_ms: float) -> None:
        """Fail with InsufficientNetworkBuffersError if the exclusive buffers are still missing."""
        if self._exclusive_request is not None and not (self.is_set_up or self.released):
            self.fail(self._exclusive_request.time_out(waited_ms))

    def _assign_exclusive(
        self, on_ready: Callable[[], None], segments: list[MemorySegment]
    ) -> None:
        self.is_set_up = True
        self._reserve = list(segments)
        for channel in self.remote_channels:
            channel.manager.add_exclusive(self._take_from_reserve(self._exclusive_per_channel))
        # Channels that have proved to be local since the request need no buffers.
        kept = len(self.unknown_channels) * self._exclusive_per_channel
        surplus = self._take_from_reserve(len(self._reserve) - kept)
        self._network_pool.return_exclusive(surplus)
        on_ready()

    def _take_from_reserve(self, number: int) -> list[MemorySegment]:
        kept = len(self._reserve) - number
        taken = self._reserve[kept:]
        del self._reserve[kept:]
        return taken

    def update_channel(self, index: int, location: PartitionLocation) -> InputChannel:
        """Replace an unknown channel once its producer has a location, perhaps with a new name.

        Returns the new channel. If the gate ``is_set_up``, the caller must request its partition.

        Raises:
            LocalProtocolError: If there is no such channel, or it is known already.
            ClosedResourceError: After release.
        """
        self._check_not_released()
        if not 0 <= index < len(self.channels):
            raise LocalProtocolError(
                f"gate {self.name} has {len(self.channels)} channels, there is no channel {index}"
            )
        if not isinstance(self.channels[index], UnknownInputChannel):
            raise LocalProtocolError(
                f"channel {index} of gate {self.name} is known already: "
                f"{self.channels[index].location}"
            )
        self.channels[index].release()
        channel = self.channels[index] = self._make_channel(index, location)
        if self.is_set_up:
            buffers = self._take_from_reserve(self._exclusive_per_channel)
            if isinstance(channel, RemoteInputChannel):
                channel.manager.add_exclusive(buffers)
            else:
                self._network_pool.return_exclusive(buffers)
        return channel

    # -- polling ----------------------------------------------------------------------------------

    def notify_channel_non_empty(self, channel: InputChannel, priority: bool = False) -> None:
        """Queue a channel that has a buffer to poll, or make its error the gate's."""
        if self.released:
            return
        if channel.error is not None:
            self.fail(channel.error)
        elif priority:
            self._prioritize(channel)
            self._wake()
        elif not channel.queued_in_gate:
            channel.queued_in_gate = True
            self._queue.append(channel)
            if not self.availability.available:
                self.availability.set(True)

    def is_busy(self) -> bool:
        """Whether a slow reader has enough to do: half of the unfinished channels have buffers."""
        # For a fast reader of large records, holding credit back costs up to a fifth of the
        # throughput, because the producer's answer takes longer than a buffer.
        return self.reader_is_slow and 2 * len(self._queue) >= self._unfinished

    def hold_credit(self, channel: InputChannel) -> None:
        """Hold the channel's credit, and announce it later with other channels' credit."""
        self._held[channel] = None

    def announce_held_credit(self) -> None:
        """Have every channel with held credit announce it."""
        held, self._held = self._held, {}
        for channel in held:
            channel.announce_credit()

    def _settle_held_credit(self, polled: InputChannel) -> None:
        """Announce held credit that is due after a poll: all of it, or the polled channel's."""
        if not self.is_busy():
            self.announce_held_credit()
        # The poll has shortened this channel's queue, so its own credit may have reached the share
        # at which it is due. A channel with nothing left to poll is left out. With two exclusive
        # buffers, it would announce each credit alone.
        elif polled.queued_in_gate and polled in self._held:
            polled.settle_held_credit()

    def fail(self, cause: BaseException) -> None:
        """End the reading with an error that every poll raises; the first error counts."""
        if self.failure is None:
            self.failure = cause
            log.debug("gate %s failed: %s", self.name, text_of(cause))
            for callback in self._on_failed:
                callback(cause)
        self._wake()

    def _wake(self) -> None:
        if not self.availability.available:
            self.availability.set(True)

    def _prioritize(self, channel: InputChannel) -> None:
        if channel.queued_in_gate:
            self._queue.prioritize(channel)
        else:
            self._queue.append_prioritized(channel)
        channel.queued_in_gate = True
        if not self.priority_availability.available:
            self.priority_availability.set(True)

    def poll(self) -> tuple[int, Buffer] | None:
        """Take the next buffer and its channel's index; the caller recycles it.

        Returns None if there is none now, or none ever again (``finished``). Raises the first error
        of a channel.

        Raises:
            ClosedResourceError: After release.
        """
        if self.released:
            self._check_not_released()
        if self.failure is not None:
            raise self.failure
        queue = self._queue
        while queue:
            channel = queue.pop_prioritized() if queue.prioritized else queue.popleft()
            channel.queued_in_gate = False
            polled = channel.poll()
            if polled is not None:
                following = polled[1]
                if following is _PRIORITIZED:
                    self._prioritize(channel)
                elif following is not _NONE:
                    channel.queued_in_gate = True
                    queue.append(channel)
            if self._held:
                self._settle_held_credit(channel)
            if self.priority_availability.available and not queue.prioritized:
                self.priority_availability.set(False)
            if polled is not None:
                buffer = polled[0]
                if buffer.data_type is _END_OF_PARTITION:
                    self._finish_channel(channel)
                return channel.index, buffer
        # Assigned without ``set``, because no subscriber is ever called here: a finished gate is
        # available already.
        self.availability.available = self.finished
        return None

    def _check_not_released(self) -> None:
        if self.released:
            raise ClosedResourceError(f"gate {self.name} has been closed")

    @property
    def end_of_data(self) -> EndOfData:
        """Whether the data of every channel has been polled, and how it ended."""
        return EndOfData.of([channel.drained for channel in self.channels])

    def acknowledge(self, index: int) -> None:
        """Report that a channel's records up to its end of data are processed; see Gate."""
        self.channels[index].acknowledge_all_data_processed()

    def _finish_channel(self, channel: InputChannel) -> None:
        channel.release()
        self._unfinished -= 1
        if self._unfinished == 0:
            self.finished = True
            self.availability.set(True)

    # -- life cycle -------------------------------------------------------------------------------

    def when_failed(self, callback: Callable[[BaseException], None]) -> None:
        """Call ``callback`` once with the first error; immediately if there is one already."""
        if self.failure is not None:
            callback(self.failure)
        else:
            self._on_failed.append(callback)

    def when_released(self, callback: Callable[[InputGate], None]) -> None:
        """Call ``callback`` once, when the gate is released."""
        self._on_released.append(callback)

    def release(self) -> None:
        """Stop all channels and return all buffers; idempotent."""
        if self.released:
            return
        self.released = True
        log.debug("gate %s released", self.name)
        if self._exclusive_request is not None:
            self._exclusive_request.cancel()
        for channel in self.channels:
            channel.release()
        reserve, self._reserve = self._reserve, []
        self._network_pool.return_exclusive(reserve)
        self._queue.clear()
        self._held.clear()
        self.priority_availability.set(False)
        self._floating_pool.destroy()
        # A waiting reader polls again, and the poll raises.
        self.availability.set(True)
        callbacks, self._on_released = self._on_released, []
        for callback in callbacks:
            callback(self)

    def pool_statistics(self) -> LocalBufferPoolStatistics:
        """Return the floating pool's segment counts."""
        return self._floating_pool.statistics()

    def statistics(self) -> InputGateStatistics:
        """Return the progress of the gate and the state of its channels and floating pool.

        This takes milliseconds for thousands of channels.
        """
        return InputGateStatistics(
            name=self.name,
            channels_queued=len(self._queue),
            channels_finished=len(self.channels) - self._unfinished,
            finished=self.finished,
            released=self.released,
            floating_pool=self.pool_statistics(),
            channels=tuple(channel.statistics() for channel in self.channels),
            end_of_data=self.end_of_data,
            debloating=self.debloating.statistics(),
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        self._floating_pool.check_invariants()
        for channel in self.channels:
            channel.check_invariants()
        self.debloating.check_invariants()
        kept = len(self.unknown_channels) * self._exclusive_per_channel
        assert len(self._reserve) == (kept if self.is_set_up and not self.released else 0), (
            "the reserved buffers do not match the unknown channels"
        )
        assert self.priority_availability.available == bool(self._queue.prioritized), (
            "priority availability is stale"
        )
        assert all(channel.queued_in_gate for channel in self._queue), (
            "a queued channel is unmarked"
        )
        assert len(self._queue) == sum(channel.queued_in_gate for channel in self.channels) or (
            self.released
        ), "a marked channel is not queued"
        assert self._unfinished == sum(not channel.finished for channel in self.channels)
