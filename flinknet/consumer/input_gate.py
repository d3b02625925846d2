"""The input gate: one consuming subtask's input, a fair merge of its channels.

Theory of operation (Flink's SingleInputGate). States: *new* -> *set up* (it has its pool and the
exclusive buffers of its channels) -> delivering -> *finished* (every channel reached the end of
its partition) or failed; *released* at the end. Channels with something to poll stand in a FIFO,
each at most once; ``poll`` takes one buffer from the head and puts the channel at the tail if it
has more, so no channel starves another. The first error, of a channel or in what it delivered, is
the gate's: it comes before any data, and again with every poll.

End of data: a channel that delivered it is acknowledged once the reader has processed everything
before it (the reader calls ``acknowledge``); the end of the partition releases the channel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from flinknet.buffer.availability import Availability
from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.local_pool import LocalBufferPool, LocalBufferPoolStatistics
from flinknet.buffer.network_pool import NetworkBufferPool, SegmentRequest
from flinknet.buffer.segment import MemorySegment
from flinknet.config import NetworkConfig
from flinknet.consumer.buffer_manager import gate_buffers
from flinknet.consumer.input_channel import (
    InputChannel,
    InputChannelStatistics,
    PartitionLocation,
)
from flinknet.consumer.local_channel import LocalInputChannel
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import ClosedResourceError, LocalProtocolError

__all__ = ["InputGate", "InputGateStatistics"]


class InputGateStatistics(NamedTuple):
    """Present state of a gate, its floating pool and its channels."""

    name: str
    channels_queued: int
    channels_finished: int
    finished: bool
    released: bool
    floating_pool: LocalBufferPoolStatistics
    channels: tuple[InputChannelStatistics, ...]


class InputGate:
    """Channels for ``locations``, local where the address is this worker's own."""

    def __init__(
        self,
        name: str,
        locations: Sequence[PartitionLocation],
        own_address: str,
        network_pool: NetworkBufferPool,
        config: NetworkConfig,
    ) -> None:
        if not locations:
            raise LocalProtocolError(f"gate {name} has no partition to read")
        self.name = name
        self.finished = False
        self.released = False
        self.availability = Availability()
        self._network_pool = network_pool
        self._queue: deque[InputChannel] = deque()
        self._failure: BaseException | None = None
        self._unfinished = len(locations)
        self._on_released: list[Callable[[InputGate], None]] = []
        remote = sum(location.address != own_address for location in locations)
        need = gate_buffers(remote, config.buffers_per_channel, config.floating_buffers_per_gate)
        self._exclusive_per_channel = need.exclusive_per_channel
        self._exclusive_request: SegmentRequest | None = None
        self._on_ready: Callable[[], None] | None = None
        self._floating_pool: LocalBufferPool = network_pool.create_local_pool(
            need.floating_min if remote else 0,
            need.floating_max if remote else 0,
            owner=f"gate {name}",
        )
        self.channels: list[InputChannel] = [
            LocalInputChannel(self, index, location)
            if location.address == own_address
            else RemoteInputChannel(self, index, location, network_pool, self._floating_pool)
            for index, location in enumerate(locations)
        ]

    @property
    def remote_channels(self) -> list[RemoteInputChannel]:
        """The channels that need a connection."""
        return [channel for channel in self.channels if isinstance(channel, RemoteInputChannel)]

    @property
    def local_channels(self) -> list[LocalInputChannel]:
        """The channels whose producer is in this worker."""
        return [channel for channel in self.channels if isinstance(channel, LocalInputChannel)]

    def setup(self, on_ready: Callable[[], None]) -> None:
        """Get the exclusive buffers; ``on_ready`` is called, perhaps at once, when all are
        there."""
        self._on_ready = on_ready
        self._exclusive_request = self._network_pool.request_exclusive(
            len(self.remote_channels) * self._exclusive_per_channel,
            self._assign_exclusive,
            owner=f"gate {self.name}",
        )

    def _assign_exclusive(self, segments: list[MemorySegment]) -> None:
        per_channel = self._exclusive_per_channel
        for number, channel in enumerate(self.remote_channels):
            share = segments[number * per_channel : (number + 1) * per_channel]
            channel.manager.add_exclusive(share)
        on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            on_ready()

    # -- polling ----------------------------------------------------------------------------------

    def notify_channel_non_empty(self, channel: InputChannel, *, priority: bool = False) -> None:
        """Queue a channel that has something to poll, or take its error as the gate's."""
        if self.released:
            return
        if channel.error is not None:
            self.fail(channel.error)
        elif priority or not channel.queued_in_gate:
            self._enqueue(channel, priority)
            self._wake()

    def fail(self, cause: BaseException) -> None:
        """End the reading with an error, which every poll raises; the first one counts."""
        if self._failure is None:
            self._failure = cause
        self._wake()

    def _wake(self) -> None:
        if not self.availability.available:
            self.availability.set(True)

    def _enqueue(self, channel: InputChannel, priority: bool) -> None:
        if channel.queued_in_gate:
            self._queue.remove(channel)
        channel.queued_in_gate = True
        if priority:
            self._queue.appendleft(channel)
        else:
            self._queue.append(channel)

    def poll(self) -> tuple[int, Buffer] | None:
        """Take the next buffer with its channel's index; the caller recycles it.

        None if there is nothing now, or nothing ever again (``finished``). Raises the first error
        of a channel, and ClosedResourceError after release.
        """
        if self.released:
            raise ClosedResourceError(f"gate {self.name} has been closed")
        if self._failure is not None:
            raise self._failure
        while self._queue:
            channel = self._queue.popleft()
            channel.queued_in_gate = False
            polled = channel.poll()
            if polled is None:
                continue
            buffer, more = polled
            if more:
                channel.queued_in_gate = True
                self._queue.append(channel)
            if buffer.data_type is DataType.END_OF_PARTITION:
                self._finish_channel(channel)
            return channel.index, buffer
        self.availability.set(self.finished)
        return None

    def acknowledge(self, index: int) -> None:
        """Every record of the channel up to its end of data has been processed."""
        self.channels[index].acknowledge_all_data_processed()

    def _finish_channel(self, channel: InputChannel) -> None:
        channel.release()
        self._unfinished -= 1
        if self._unfinished == 0:
            self.finished = True
            self.availability.set(True)

    # -- life -------------------------------------------------------------------------------------

    def when_released(self, callback: Callable[[InputGate], None]) -> None:
        """Call back once, when the gate is released."""
        self._on_released.append(callback)

    def release(self) -> None:
        """Stop all channels and give every buffer back; idempotent."""
        if self.released:
            return
        self.released = True
        if self._exclusive_request is not None:
            self._exclusive_request.cancel()
        for channel in self.channels:
            channel.release()
        self._queue.clear()
        self._floating_pool.destroy()
        self.availability.set(True)
        callbacks, self._on_released = self._on_released, []
        for callback in callbacks:
            callback(self)

    def statistics(self) -> InputGateStatistics:
        """Return the present counts."""
        return InputGateStatistics(
            name=self.name,
            channels_queued=len(self._queue),
            channels_finished=len(self.channels) - self._unfinished,
            finished=self.finished,
            released=self.released,
            floating_pool=self._floating_pool.statistics(),
            channels=tuple(channel.statistics() for channel in self.channels),
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        self._floating_pool.check_invariants()
        for channel in self.channels:
            channel.check_invariants()
        assert all(channel.queued_in_gate for channel in self._queue), (
            "a queued channel is unmarked"
        )
        assert len(self._queue) == sum(channel.queued_in_gate for channel in self.channels) or (
            self.released
        ), "a marked channel is not queued"
        assert self._unfinished == sum(not channel.finished for channel in self.channels)
