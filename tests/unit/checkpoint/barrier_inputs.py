"""Stand-ins around the barriers of a subtask: channels that block, and a subtask that records.

A channel has the data and barriers that the test gives it. Like a real one, it refuses to deliver
anything while it is blocked, and to resume while it is not.
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.checkpoint.barrier_events import CheckpointBarriers
from flinknet.checkpoint.barrier_handler import BarrierHandler
from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.checkpoint.barrier_tracker import BarrierTracker
from flinknet.errors import LocalProtocolError
from flinknet.wire.events import Alignment, CheckpointBarrier, CheckpointKind, CheckpointOptions

ALIGNED = CheckpointOptions()
UNALIGNED = CheckpointOptions(alignment=Alignment.UNALIGNED)
FORCED = CheckpointOptions(alignment=Alignment.FORCED_ALIGNED)
AT_LEAST_ONCE = CheckpointOptions(alignment=Alignment.AT_LEAST_ONCE)
SAVEPOINT = CheckpointOptions(CheckpointKind.SAVEPOINT)
TIMEOUT_MS = 10
ALTERNATING = CheckpointOptions(aligned_timeout_ms=TIMEOUT_MS)

SHOWN = {Alignment.UNALIGNED: " unaligned", Alignment.FORCED_ALIGNED: " forced"}


def data(content: bytes) -> Buffer:
    """Return a buffer of data that needs no pool."""
    return Buffer(DataType.DATA_BUFFER, None, None, len(content), content)


class Channel:
    """A channel that may be blocked, with arrived data (``queued``) in front of its barrier.

    Its barrier may have been announced.
    """

    def __init__(self) -> None:
        self.blocked = False
        self.ready = True
        self.announced = False
        self.queued: list[Buffer] = []
        self.persist: Callable[[Buffer], None] | None = None
        self._arrived = -1
        self._stored = -1

    def barrier_arrives(self, checkpoint_id: int) -> None:
        """Let a barrier arrive; data behind it is not in flight."""
        self._arrived = max(self._arrived, checkpoint_id)
        if checkpoint_id >= self._stored:
            self.persist = None

    def resume_consumption(self) -> None:
        if not self.blocked:
            raise LocalProtocolError("resumed though it is not blocked")
        self.blocked = False

    def start_persisting(self, checkpoint_id: int, persist: Callable[[Buffer], None]) -> bool:
        if self.ready:
            self._stored = checkpoint_id
            self.persist = persist if self._arrived < checkpoint_id else None
            for buffer in self.queued:
                persist(buffer.retained())
        return self.ready

    def stop_persisting(self, checkpoint_id: int) -> None:
        self.persist = None

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        announced, self.announced = self.announced, False
        self.blocked = self.blocked and not announced
        return announced


class Subtask:
    """A BarrierListener that records its calls and recycles its buffers."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.metrics: list[AlignmentMetrics] = []
        self.declines: CheckpointBarriers | None = None
        self.declines_in_flight: CheckpointBarriers | None = None

    def trigger(self, barrier: CheckpointBarrier) -> None:
        number = barrier.checkpoint_id
        self.told.append(f"take {number}{SHOWN.get(barrier.options.alignment, '')}")
        if self.declines is not None:
            self.declines.abort(number, AbortReason.DECLINED)

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        self.told.append(f"{checkpoint_id}: {channel} {bytes(buffer.view()).decode()}")
        buffer.recycle()
        if self.declines_in_flight is not None:
            self.declines_in_flight.abort(checkpoint_id, AbortReason.DECLINED)

    def complete(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        self.told.append(f"complete {checkpoint_id}")
        self.metrics.append(metrics)

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        self.told.append(f"abort {checkpoint_id} {reason.name}")


class Inputs:
    """Channels, their barriers, and the subtask behind them; the test advances the clock."""

    def __init__(
        self, channels: int = 3, kind: type[BarrierHandler | BarrierTracker] = BarrierHandler
    ) -> None:
        self.now = 1000
        self.bytes_in = 0
        self.channels = [Channel() for _ in range(channels)]
        self.subtask = Subtask()
        self.barriers = kind(self, self.subtask, lambda: self.bytes_in)
        self.created: dict[int, int] = {}

    @property
    def told(self) -> list[str]:
        """The calls of the subtask since the property was read last."""
        told, self.subtask.told = self.subtask.told, []
        return told

    @property
    def blocked(self) -> list[int]:
        """The indices of the blocked channels."""
        return [index for index, channel in enumerate(self.channels) if channel.blocked]

    def barrier_of(self, number: int, options: CheckpointOptions = ALIGNED) -> CheckpointBarrier:
        """Return the barrier of a checkpoint; its creation time is that of the first call."""
        return CheckpointBarrier(number, self.created.setdefault(number, self.now), options)

    def barrier(self, number: int, *channels: int, options: CheckpointOptions = ALIGNED) -> None:
        """Let a barrier come on each of these channels, in place or with priority."""
        barrier = self.barrier_of(number, options)
        for index in channels:
            channel = self.channels[index]
            assert not channel.blocked, f"channel {index} is blocked"
            channel.blocked = options.data_type.is_blocking_upstream
            channel.barrier_arrives(number)
            self.barriers.on_barrier(index, barrier, self.now)
            self.barriers.check_invariants()

    def announce(self, number: int, *channels: int) -> None:
        """Let a barrier arrive and block each of these channels, behind the data that it holds."""
        for index in channels:
            channel = self.channels[index]
            channel.blocked = channel.announced = True
            channel.barrier_arrives(number)
            self.barriers.on_announcement(index, self.barrier_of(number, ALTERNATING), self.now)
            self.barriers.check_invariants()

    def announced(self, number: int, index: int) -> None:
        """Let the announced barrier come: aligned, or unaligned if it was converted."""
        channel = self.channels[index]
        options = ALTERNATING if channel.announced else UNALIGNED
        assert channel.blocked == channel.announced
        channel.announced = False
        self.barriers.on_barrier(index, self.barrier_of(number, options), self.now)
        self.barriers.check_invariants()

    def cancel(self, number: int, *channels: int) -> None:
        """Let a cancel marker come on each of these channels."""
        for index in channels:
            assert not self.channels[index].blocked, f"channel {index} is blocked"
            self.barriers.on_cancellation(index, number, self.now)
            self.barriers.check_invariants()

    def end(self, *channels: int) -> None:
        """Let the end of the partition come on each of these channels."""
        for index in channels:
            assert not self.channels[index].blocked, f"channel {index} is blocked"
            self.barriers.on_end_of_partition(index, self.now)
            self.barriers.check_invariants()

    def data(self, *channels: int, content: bytes = b"data") -> None:
        """Let a buffer of data arrive on each of these channels, and read it."""
        for index in channels:
            channel = self.channels[index]
            assert not channel.blocked, f"channel {index} is blocked"
            if channel.persist is not None:
                channel.persist(data(content))
            self.read(content)

    def read(self, content: bytes) -> None:
        """Read data that arrived earlier."""
        self.bytes_in += len(content)

    def pass_time(self, milliseconds: int) -> None:
        """Advance the clock, and call the barriers if their deadline has come."""
        self.now += milliseconds
        deadline = self.barriers.deadline_ms
        if deadline is not None and self.now >= deadline:
            self.barriers.on_time(self.now)
            self.barriers.check_invariants()
