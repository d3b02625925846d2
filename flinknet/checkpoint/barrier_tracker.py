"""The barrier tracker: checkpoints of subtasks that process every record at least once.

Theory of operation (Flink's CheckpointBarrierTracker). Barriers are counted, nothing is blocked and
nothing stored: a checkpoint is taken when its barrier has come on every channel. What came before
on channels that were ahead of it is part of the checkpoint, and comes again after a restore.

Several checkpoints may be under way. One that is complete drops all before it, of which some
barriers will never come; until then a late barrier completes an older one, too. A cancel marker
aborts its checkpoint, and all before it; an aborted one is remembered until every channel has
delivered its barrier or marker, so that those do not begin it again. A channel that has ended
counts as one that has had its barrier. At most ``PENDING_MAX`` are remembered; of more, the oldest
is forgotten.

Owned: of each checkpoint under way, the channels whose barrier is missing. Invariants: the ids
rise; one under way misses a barrier, of an open channel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flinknet.checkpoint.alignment_metrics import AlignmentAccount
from flinknet.checkpoint.barrier_handler import BarrierChannels
from flinknet.checkpoint.barrier_listener import AbortReason, BarrierListener
from flinknet.errors import RemoteProtocolError
from flinknet.wire.events import Alignment, CheckpointBarrier

__all__ = ["PENDING_MAX", "BarrierTracker"]

log = logging.getLogger("flinknet.checkpoint")

PENDING_MAX = 50
"""As in Flink: so many concurrent checkpoints make no sense, so the oldest will never complete."""


class _Pending:
    """One checkpoint: what it misses, and whether it was aborted."""

    __slots__ = ("aborted", "account", "barrier", "missing")

    def __init__(
        self, barrier: CheckpointBarrier | None, missing: set[int], account: AlignmentAccount
    ) -> None:
        self.barrier = barrier
        """None if it was aborted before any came."""
        self.aborted = barrier is None
        self.missing = missing
        self.account = account


class BarrierTracker:
    """The barriers of all channels of a gate, or of several united; at least once.

    It has the interface of ``BarrierHandler``, but no time-out.
    """

    deadline_ms: int | None = None

    def __init__(
        self, gate: BarrierChannels, listener: BarrierListener, bytes_in: Callable[[], int]
    ) -> None:
        self.checkpoint_id = -1
        """The newest checkpoint of which anything came; -1 for none."""
        self._bytes_in = bytes_in
        self._gate = gate
        self._listener = listener
        self._open = set(range(len(gate.channels)))
        self._pending: dict[int, _Pending] = {}

    @property
    def is_pending(self) -> bool:
        """Whether a checkpoint is under way."""
        return any(not pending.aborted for pending in self._pending.values())

    # -- what comes -------------------------------------------------------------------------------

    def on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """A barrier has arrived behind data: nothing waits for it."""

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """A channel delivers a barrier; if it blocks, the channel goes on at once. Raises
        RemoteProtocolError for one that is unaligned."""
        options = barrier.options
        if options.alignment is Alignment.UNALIGNED:
            raise RemoteProtocolError(
                f"channel {channel} delivered {barrier}, but checkpoints are at least once here: "
                f"every subtask of a job must have the same mode"
            )
        if options.data_type.is_blocking_upstream:
            self._gate.channels[channel].resume_consumption()
        if barrier.checkpoint_id > self.checkpoint_id:
            account = AlignmentAccount(barrier.timestamp_ms, now_ms)
            self._begin(barrier.checkpoint_id, barrier, account)
        pending = self._pending.get(barrier.checkpoint_id)
        if pending is not None:
            pending.missing.discard(channel)
            pending.account.barrier(now_ms, self._bytes_in())
        self._settle(now_ms)

    def on_cancellation(self, channel: int, checkpoint_id: int, now_ms: int) -> None:
        """A channel delivers a cancel marker: its barrier will not come, nor older ones."""
        for older in [number for number in self._pending if number < checkpoint_id]:
            self._abort(older, AbortReason.CANCELLATION_BARRIER)
            del self._pending[older]
        self.abort(checkpoint_id, AbortReason.CANCELLATION_BARRIER)
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            pending.missing.discard(channel)
        self._settle(now_ms)

    def on_end_of_partition(self, channel: int, now_ms: int) -> None:
        """A channel has ended: no barrier comes any more."""
        self._open.discard(channel)
        for pending in self._pending.values():
            pending.missing.discard(channel)
            pending.account.barrier(now_ms, self._bytes_in())
        self._settle(now_ms)

    def on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """The coordinator has the subtask take a checkpoint; see BarrierHandler."""
        if barrier.checkpoint_id > self.checkpoint_id:
            account = AlignmentAccount(barrier.timestamp_ms, now_ms)
            self._begin(barrier.checkpoint_id, barrier, account)
            self._pending[barrier.checkpoint_id].missing.clear()
            self._settle(now_ms)

    def on_time(self, now_ms: int) -> None:
        """There is no time-out."""

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Give up a checkpoint, also one that is still to come; nothing if it has ended here."""
        if checkpoint_id > self.checkpoint_id:
            self.checkpoint_id = checkpoint_id
            if self._open:
                self._begin(checkpoint_id, None, AlignmentAccount(0, 0))
            self._listener.abort(checkpoint_id, reason)
        elif checkpoint_id in self._pending:
            self._abort(checkpoint_id, reason)

    # -- checkpoints under way --------------------------------------------------------------------

    def _begin(
        self, checkpoint_id: int, barrier: CheckpointBarrier | None, account: AlignmentAccount
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self._pending[checkpoint_id] = _Pending(barrier, set(self._open), account)
        if len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]

    def _settle(self, now_ms: int) -> None:
        """Take what is complete, and drop what is older."""
        complete = [number for number, pending in self._pending.items() if not pending.missing]
        for checkpoint_id in complete:
            pending = self._pending[checkpoint_id]
            if not pending.aborted:
                for older in [number for number in self._pending if number < checkpoint_id]:
                    del self._pending[older]
                self._take(checkpoint_id, pending, now_ms)
            del self._pending[checkpoint_id]

    def _take(self, checkpoint_id: int, pending: _Pending, now_ms: int) -> None:
        assert pending.barrier is not None
        self._listener.trigger(pending.barrier)
        if not pending.aborted:
            self._listener.complete(checkpoint_id, pending.account.ended(now_ms, self._bytes_in()))

    def _abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        pending = self._pending[checkpoint_id]
        if not pending.aborted:
            log.debug("checkpoint %d is aborted: %s", checkpoint_id, reason.value)
            pending.aborted = True
            self._listener.abort(checkpoint_id, reason)

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        assert list(self._pending) == sorted(self._pending), "older checkpoints come behind newer"
        assert len(self._pending) <= PENDING_MAX, "more checkpoints are remembered than may be"
        for checkpoint_id, pending in self._pending.items():
            assert checkpoint_id <= self.checkpoint_id, "the newest checkpoint is not known"
            assert pending.missing, "a checkpoint that is complete was not taken"
            assert pending.missing <= self._open, "the barrier of an ended channel is missing"
