"""The barrier tracker: checkpoints of subtasks with at-least-once processing.

Theory of operation (Flink's CheckpointBarrierTracker). The tracker counts barriers; it blocks and
stores nothing. A checkpoint is taken when every channel has delivered its barrier. On channels that
delivered it early, data from behind the barrier is then part of the checkpoint. That data is
repeated after a restore.

Several checkpoints may be pending. A complete one drops all earlier ones, because some of their
barriers will never come; until then, a late barrier can still complete an older one. A cancel
marker aborts its checkpoint and all earlier ones. An aborted checkpoint is remembered until every
channel has delivered its barrier or marker, so that these do not begin it again. A channel that has
ended counts as having delivered its barrier. At most ``PENDING_MAX`` checkpoints are remembered;
the oldest is forgotten first.

Invariants: the ids rise; a pending checkpoint misses a barrier of an open channel.
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
"""As in Flink: with this many concurrent checkpoints, the oldest will never complete."""


class _Pending:
    """One checkpoint, with its missing barriers."""

    __slots__ = ("aborted", "account", "barrier", "missing")

    def __init__(
        self, barrier: CheckpointBarrier | None, missing: set[int], account: AlignmentAccount
    ) -> None:
        self.barrier = barrier
        """The first barrier; None if the checkpoint was aborted before any barrier came."""
        self.aborted = barrier is None
        self.missing = missing
        self.account = account


class BarrierTracker:
    """The barriers of all channels of a gate, or of a union of gates, for at-least-once processing.

    The interface is that of ``BarrierHandler``, without timeouts.
    """

    deadline_ms: int | None = None

    def __init__(
        self, gate: BarrierChannels, listener: BarrierListener, bytes_in: Callable[[], int]
    ) -> None:
        self.checkpoint_id = -1
        """The newest checkpoint that an event concerned; -1 for none."""
        self._bytes_in = bytes_in
        self._gate = gate
        self._listener = listener
        self._open = set(range(len(gate.channels)))
        self._pending: dict[int, _Pending] = {}

    @property
    def is_pending(self) -> bool:
        """Whether a checkpoint is pending."""
        return any(not pending.aborted for pending in self._pending.values())

    # -- events -----------------------------------------------------------------------------------

    def on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Ignore a barrier behind queued data: no channel waits for it."""

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Handle a delivered barrier; a blocked channel continues at once.

        Raises RemoteProtocolError for an unaligned barrier.
        """
        options = barrier.options
        if options.alignment is Alignment.UNALIGNED:
            raise RemoteProtocolError(
                f"channel {channel} delivered {barrier}, but this subtask's checkpoints are "
                "at-least-once: every subtask of a job must have the same mode"
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
        """Handle a delivered cancel marker: neither its barrier nor older ones will come."""
        for older in [number for number in self._pending if number < checkpoint_id]:
            self._abort(older, AbortReason.CANCELLATION_BARRIER)
            del self._pending[older]  # Checkpoints begin in the order of their ids.
        self.abort(checkpoint_id, AbortReason.CANCELLATION_BARRIER)
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            pending.missing.discard(channel)
        self._settle(now_ms)

    def on_end_of_partition(self, channel: int, now_ms: int) -> None:
        """Handle the end of a channel: no more barriers come."""
        self._open.discard(channel)
        for pending in self._pending.values():
            pending.missing.discard(channel)
            pending.account.barrier(now_ms, self._bytes_in())
        self._settle(now_ms)

    def on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Take a checkpoint at the request of the coordinator; see BarrierHandler."""
        if barrier.checkpoint_id > self.checkpoint_id:
            account = AlignmentAccount(barrier.timestamp_ms, now_ms)
            self._begin(barrier.checkpoint_id, barrier, account)
            self._pending[barrier.checkpoint_id].missing.clear()
            self._settle(now_ms)

    def on_time(self, now_ms: int) -> None:
        """Do nothing, because a tracker has no timeouts."""

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Abort a checkpoint, even a future one; ignored if it has ended here."""
        if checkpoint_id > self.checkpoint_id:
            self.checkpoint_id = checkpoint_id
            if self._open:  # Remember it, so that a barrier to come does not begin it again.
                self._begin(checkpoint_id, None, AlignmentAccount(0, 0))
            self._listener.abort(checkpoint_id, reason)
        elif checkpoint_id in self._pending:
            self._abort(checkpoint_id, reason)

    # -- pending checkpoints ----------------------------------------------------------------------

    def _begin(
        self, checkpoint_id: int, barrier: CheckpointBarrier | None, account: AlignmentAccount
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self._pending[checkpoint_id] = _Pending(barrier, set(self._open), account)
        if len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]

    def _settle(self, now_ms: int) -> None:
        """Take the complete checkpoints, and drop older ones."""
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
        """Raise AssertionError if the state is inconsistent."""
        assert list(self._pending) == sorted(self._pending), "older checkpoints follow newer ones"
        assert len(self._pending) <= PENDING_MAX, "too many checkpoints are remembered"
        for checkpoint_id, pending in self._pending.items():
            assert checkpoint_id <= self.checkpoint_id, "the newest checkpoint is not known"
            assert pending.missing, "a complete checkpoint was not taken"
            assert pending.missing <= self._open, "the barrier of an ended channel is missing"
