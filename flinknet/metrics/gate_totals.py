"""An input gate as it leaves its worker: its floating pool, and sums over its channels.

Theory of operation. A channel's numbers are of one moment, so that what holds between them holds
between their sums, too: no more exclusive buffers are in use than there are. But the channels of a
wide gate are read over several turns of the event loop, and its pool after them. So what lies
between two accounts is only about right: a buffer that went from the pool to a channel meanwhile
may be missing among those that hold data; none is counted twice for long, and nothing goes below
zero or above what there is. Counts never fall from one reading to the next one that begins after
its end.
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
    """What input channels hold, and have had, several together."""

    channels: int = 0
    queued_buffers: int = 0
    queued_bytes: int = 0
    """In remote ones."""
    backlog: int = 0
    """Of remote ones: what waits at the producer of a local one is queued."""
    free: int = 0
    unannounced_credit: int = 0
    exclusive_held: int = 0
    """Free exclusive buffers of which the producers are not told while the gate is busy."""
    floating_held: int = 0
    remote_channels: int = 0
    channels_short: int = 0
    """Remote ones whose producers wait for credit (``InputChannelStatistics.is_short``)."""
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
        """Sum up."""
        local = [channel for channel in channels if channel.kind == "local"]
        remote = [channel for channel in channels if channel.kind == "remote"]
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
        """Those of both."""
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
    """Free buffers that producers know of."""
    credit_unannounced: int
    """Free buffers that they have not been told of."""
    remote_channels: int
    channels_short: int
    """Remote channels whose producers wait for credit: see ``InputChannelStatistics.is_short``."""
    exclusive_buffers: int
    exclusive_in_use: int
    floating_in_use: int
    """Floating buffers that hold data, of those that the pool has given out."""
    exclusive_held: int
    """Free exclusive buffers of which no producer is told while the gate is busy."""
    floating_held: int
    """The same of floating ones."""
    floating_pool: LocalBufferPoolStatistics
    buffers_in_local: int
    buffers_in_remote: int
    bytes_in_local: int
    bytes_in_remote: int
    debloating: BufferDebloaterStatistics | None
    buffered_bytes: int
    """On their way to the reader: here, and at the producers."""
    time_to_consume_ms: float | None = None
    """How long that will take, with what the task reads of its other gates meanwhile; None if that
    is not known."""

    @classmethod
    def of(
        cls,
        name: str,
        finished: bool,
        floating_pool: LocalBufferPoolStatistics,
        debloating: BufferDebloaterStatistics | None,
        sums: ChannelSums,
    ) -> GateTotals:
        """Put together what was read of a gate."""
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
        """Free buffers, part of the unannounced, of which no producer is told while the gate is
        busy."""
        return self.exclusive_held + self.floating_held

    @classmethod
    def reading(
        cls,
        gate: InputGate,
        turns: Turns,
        note: Callable[[str, Sequence[InputChannelStatistics]], None] | None = None,
    ) -> Reading[GateTotals]:
        """Read a gate, in parts; ``note`` gets its name and the channels of each part."""
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
