"""Summary of an input gate: its floating pool, and sums over its channels.

All figures of a channel are of one moment, so relations between them also hold between their sums:
no more exclusive buffers are in use than exist. But the channels of a wide gate are read over
several iterations of the event loop, and its pool after them. Figures that combine channels and
pool are therefore approximate. A buffer that moved from the pool to a channel meanwhile may be
missing among the buffers with data. No buffer is counted twice for long, and no figure is negative
or above its total. A count never decreases between a reading and one that begins after its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import NamedTuple

from flinknet.buffer.local_pool import LocalBufferPoolStatistics
from flinknet.consumer.debloating import BufferDebloaterStatistics
from flinknet.consumer.input_channel import InputChannelStatistics
from flinknet.consumer.input_gate import InputGate
from flinknet.metrics.consumption import buffered_bytes
from flinknet.metrics.turns import Reading, Turns

__all__ = ["ChannelSums", "GateTotals"]


class ChannelSums(NamedTuple):
    """Sums over input channels: buffers that they hold and have received."""

    channels: int = 0
    queued_buffers: int = 0
    queued_bytes: int = 0
    """Queued bytes of remote channels."""
    backlog: int = 0
    """Backlog of remote channels; buffers at the producer of a local channel count as queued."""
    free: int = 0
    unannounced_credit: int = 0
    exclusive_held: int = 0
    """Free exclusive buffers that are not announced to producers while the gate is busy."""
    floating_held: int = 0
    remote_channels: int = 0
    channels_short: int = 0
    """Remote channels with producers that wait for credit (``InputChannelStatistics.is_short``)."""
    exclusive_total: int = 0
    exclusive_free: int = 0
    floating_free: int = 0
    buffers_in_local: int = 0
    buffers_in_remote: int = 0
    bytes_in_local: int = 0
    bytes_in_remote: int = 0
    buffered_bytes: int = 0

    @classmethod
    def of(cls, channels: Sequence[InputChannelStatistics]) -> ChannelSums:
        """Return the sums over these channels."""
        local = [channel for channel in channels if channel.kind == "local"]
        remote = [channel for channel in channels if channel.kind == "remote"]
        # Credit that is held back counts as exclusive buffers first; the rest is floating.
        held = [min(one.held_credit, one.exclusive_free) for one in remote]
        exclusive_free = sum([channel.exclusive_free for channel in channels])
        floating_free = sum([channel.floating_free for channel in channels])
        return cls(
            channels=len(channels),
            queued_buffers=sum([channel.queued_buffers for channel in channels]),
            queued_bytes=sum([channel.queued_bytes for channel in remote]),
            backlog=sum([channel.backlog for channel in remote]),
            free=exclusive_free + floating_free,
            unannounced_credit=sum([channel.unannounced_credit for channel in channels]),
            exclusive_held=sum(held),
            floating_held=sum([channel.held_credit for channel in remote]) - sum(held),
            remote_channels=len(remote),
            channels_short=sum([channel.is_short for channel in remote]),
            exclusive_total=sum([channel.exclusive_total for channel in channels]),
            exclusive_free=exclusive_free,
            floating_free=floating_free,
            buffers_in_local=sum([channel.buffers_in for channel in local]),
            buffers_in_remote=sum([channel.buffers_in for channel in remote]),
            bytes_in_local=sum([channel.bytes_in for channel in local]),
            bytes_in_remote=sum([channel.bytes_in for channel in remote]),
            buffered_bytes=sum(map(buffered_bytes, channels)),
        )

    def plus(self, other: ChannelSums) -> ChannelSums:
        """Return the element-wise sum."""
        return ChannelSums(*map(add, self, other))


class GateTotals(NamedTuple):
    """An input gate: its floating pool, and sums over its channels."""

    name: str
    channels: int
    finished: bool
    queued_buffers: int
    queued_bytes: int
    backlog: int
    """Buffers that wait at the producers of remote channels."""
    credit_announced: int
    """Free buffers announced to producers."""
    credit_unannounced: int
    """Free buffers not announced to producers yet."""
    remote_channels: int
    channels_short: int
    """Remote channels with producers that wait for credit (``InputChannelStatistics.is_short``)."""
    exclusive_buffers: int
    exclusive_in_use: int
    floating_in_use: int
    """Floating buffers from the pool that hold data."""
    exclusive_held: int
    """Free exclusive buffers that are not announced to producers while the gate is busy."""
    floating_held: int
    """Free floating buffers that are not announced to producers while the gate is busy."""
    floating_pool: LocalBufferPoolStatistics
    buffers_in_local: int
    buffers_in_remote: int
    bytes_in_local: int
    bytes_in_remote: int
    debloating: BufferDebloaterStatistics | None
    buffered_bytes: int
    """Bytes on their way to the reader, here and at the producers."""
    time_to_consume_ms: float | None = None
    """Time until this data is consumed, including data that the task reads from its other gates.

    None if it is unknown.
    """

    @classmethod
    def of(
        cls,
        name: str,
        finished: bool,
        floating_pool: LocalBufferPoolStatistics,
        debloating: BufferDebloaterStatistics | None,
        sums: ChannelSums,
    ) -> GateTotals:
        """Return the totals of a gate from its parts."""
        return cls(
            name=name,
            channels=sums.channels,
            finished=finished,
            queued_buffers=sums.queued_buffers,
            queued_bytes=sums.queued_bytes,
            backlog=sums.backlog,
            credit_announced=max(0, sums.free - sums.unannounced_credit),
            credit_unannounced=sums.unannounced_credit,
            remote_channels=sums.remote_channels,
            channels_short=sums.channels_short,
            exclusive_buffers=sums.exclusive_total,
            exclusive_in_use=sums.exclusive_total - sums.exclusive_free,
            # The pool is read after the channels: buffers that moved in between may be missing, but
            # the difference is never negative.
            floating_in_use=max(0, floating_pool.in_use - sums.floating_free),
            exclusive_held=sums.exclusive_held,
            floating_held=sums.floating_held,
            floating_pool=floating_pool,
            buffers_in_local=sums.buffers_in_local,
            buffers_in_remote=sums.buffers_in_remote,
            bytes_in_local=sums.bytes_in_local,
            bytes_in_remote=sums.bytes_in_remote,
            debloating=debloating,
            buffered_bytes=sums.buffered_bytes,
        )

    @property
    def credit_held(self) -> int:
        """Unannounced free buffers that are held back while the gate is busy."""
        return self.exclusive_held + self.floating_held

    @classmethod
    def reading(
        cls,
        gate: InputGate,
        turns: Turns,
        note: Callable[[str, Sequence[InputChannelStatistics]], None] | None = None,
    ) -> Reading[GateTotals]:
        """Read a gate in parts; ``note`` receives its name and the channels of each part."""
        sums = ChannelSums()
        for part in turns.parts(gate.channels):
            channels = [channel.statistics() for channel in part]
            sums = sums.plus(ChannelSums.of(channels))
            if note is not None:
                note(gate.name, channels)
            yield
        return cls.of(
            gate.name, gate.finished, gate.pool_statistics(), gate.debloating.statistics(), sums
        )
