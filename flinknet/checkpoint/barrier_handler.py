"""The barrier handler: decides at which point between two batches a subtask takes a checkpoint.

Theory of operation (Flink's SingleCheckpointBarrierHandler with its states). A checkpoint is
*taken* at one moment. It is a consistent cut if, on every channel, all data before the barrier is
processed before that moment or stored as channel state, and no data behind the barrier is.

- *Aligned*: the barrier blocks its channel at the producer. When every channel has delivered it,
  the checkpoint is taken and all channels continue. Nothing is stored.
- *Unaligned*: the checkpoint is taken at once. Data that has arrived and is not processed, and data
  that arrives before the channel's barrier, is *in flight*: it is stored, and processed later. A
  barrier with priority has overtaken some of that data in the queue, and is polled before it.
- *Alternating*: the checkpoint begins aligned. It continues unaligned when ``aligned_timeout_ms``
  have passed since the coordinator created the barrier, so one timeout covers the whole way through
  the job. The handler checks the time at every barrier, announcement and end (*passive*), and in
  ``on_time``, which the subtask calls by mail at ``deadline_ms`` (*active*).

::

    WAITING     ANNOUNCE -> ANNOUNCED, BARRIER -> ALIGNING, OVERTAKE -> PERSISTING
    ANNOUNCED   ANNOUNCE -> ANNOUNCED, BARRIER -> ALIGNING, OVERTAKE -> PERSISTING
    ANNOUNCED   ABORT -> WAITING
    ALIGNING    ANNOUNCE -> ALIGNING, BARRIER -> ALIGNING, OVERTAKE -> PERSISTING
    ALIGNING    FINISH -> WAITING, ABORT -> WAITING
    PERSISTING  ANNOUNCE -> PERSISTING, BARRIER -> PERSISTING
    PERSISTING  FINISH -> WAITING, ABORT -> WAITING

One checkpoint is pending at a time, and a newer one *subsumes* it. Events of an older or ended
checkpoint only unblock their channel. A channel that has *ended* counts as having delivered its
barrier, in the pending checkpoint and in all later ones. All methods are called between two
batches, from the reader's events or from mails; ``barrier_listener.py`` has the calls in return.

Invariants: a channel is blocked only in ALIGNING, and only if it has delivered the barrier;
channels persist only in PERSISTING; a barrier is missing if and only if a checkpoint is pending.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Protocol

from flinknet.buffer.buffer import Buffer
from flinknet.checkpoint.alignment_metrics import AlignmentAccount
from flinknet.checkpoint.barrier_listener import AbortReason, BarrierListener
from flinknet.errors import RemoteProtocolError
from flinknet.transitions import Transitions
from flinknet.wire.events import Alignment, CheckpointBarrier

__all__ = [
    "TRANSITIONS",
    "BarrierChannel",
    "BarrierChannels",
    "BarrierHandler",
    "BarrierState",
    "BarrierStep",
]

log = logging.getLogger("flinknet.checkpoint")


class BarrierChannel(Protocol):
    """An input channel, as the barrier handler uses it; see InputChannel."""

    def resume_consumption(self) -> None:
        """Let the producer continue after the barrier that blocked it."""

    def start_persisting(self, checkpoint_id: int, persist: Callable[[Buffer], None]) -> bool:
        """Pass the data in front of the channel's barrier to ``persist``.

        Called at once with the data that has arrived and was not polled, and later with each buffer
        that arrives before the barrier; each buffer carries a reference. Returns False if the
        channel cannot take part.
        """

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Stop persisting, because the checkpoint is over."""

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """Let a queued barrier overtake all data, if it can.

        It is then an unaligned barrier, which blocks no channel.
        """


class BarrierChannels(Protocol):
    """A gate, as the barrier handler uses it."""

    @property
    def channels(self) -> Sequence[BarrierChannel]:
        """The channels by index. A channel may be replaced before it has delivered anything."""


class BarrierState(Enum):
    """The progress of the pending checkpoint, if there is one."""

    WAITING = "no checkpoint is in progress"
    ANNOUNCED = "a barrier has arrived behind data; no channel has delivered it"
    ALIGNING = "some channels have delivered the barrier and are blocked, or have ended"
    PERSISTING = "it was taken; data that arrives before a channel's barrier is stored"


class BarrierStep(Enum):
    """A step of the pending checkpoint."""

    ANNOUNCE = "its barrier has arrived on a channel, behind data"
    BARRIER = "a channel has delivered its barrier, or has ended"
    OVERTAKE = "it is taken before every channel has delivered its barrier"
    FINISH = "every channel has delivered its barrier"
    ABORT = "it is aborted"


_S, _E = BarrierState, BarrierStep
_MAY_TIME_OUT = frozenset((_S.ANNOUNCED, _S.ALIGNING))

TRANSITIONS: Transitions[BarrierState, BarrierStep] = Transitions(
    {
        (_S.WAITING, _E.ANNOUNCE): _S.ANNOUNCED,
        (_S.WAITING, _E.BARRIER): _S.ALIGNING,
        (_S.WAITING, _E.OVERTAKE): _S.PERSISTING,
        (_S.ANNOUNCED, _E.ANNOUNCE): _S.ANNOUNCED,
        (_S.ANNOUNCED, _E.BARRIER): _S.ALIGNING,
        (_S.ANNOUNCED, _E.OVERTAKE): _S.PERSISTING,
        (_S.ANNOUNCED, _E.ABORT): _S.WAITING,
        (_S.ALIGNING, _E.ANNOUNCE): _S.ALIGNING,
        (_S.ALIGNING, _E.BARRIER): _S.ALIGNING,
        (_S.ALIGNING, _E.OVERTAKE): _S.PERSISTING,
        (_S.ALIGNING, _E.FINISH): _S.WAITING,
        (_S.ALIGNING, _E.ABORT): _S.WAITING,
        (_S.PERSISTING, _E.ANNOUNCE): _S.PERSISTING,
        (_S.PERSISTING, _E.BARRIER): _S.PERSISTING,
        (_S.PERSISTING, _E.FINISH): _S.WAITING,
        (_S.PERSISTING, _E.ABORT): _S.WAITING,
    }
)


class BarrierHandler:
    """The barriers of all channels of a gate, or of a union of gates, for exactly-once processing.

    Times are milliseconds since 1970, as in barriers.
    """

    def __init__(
        self, gate: BarrierChannels, listener: BarrierListener, bytes_in: Callable[[], int]
    ) -> None:
        """``bytes_in`` returns the bytes of data that the subtask's reader has read."""
        self.state = BarrierState.WAITING
        self.checkpoint_id = -1
        """The pending checkpoint, or the last one that an event concerned; -1 for none."""
        self.deadline_ms: int | None = None
        """The time to call ``on_time``, or None; the subtask reads it after every call."""
        self._gate = gate
        self._listener = listener
        self._bytes_in = bytes_in
        self._open = set(range(len(gate.channels)))
        self._barrier: CheckpointBarrier | None = None
        self._timeoutable: CheckpointBarrier | None = None
        self._account = AlignmentAccount(0, 0)
        self._missing: set[int] = set()
        self._blocked: list[int] = []
        self._persisting: list[int] = []

    @property
    def is_pending(self) -> bool:
        """Whether a checkpoint is pending."""
        return self.state is not BarrierState.WAITING

    # -- events -----------------------------------------------------------------------------------

    def on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Handle a barrier with a timeout that has arrived on a channel, behind queued data."""
        if self._is_late(barrier.checkpoint_id):
            return
        self._begin(barrier, now_ms)
        self._step(BarrierStep.ANNOUNCE)
        if self.state is BarrierState.PERSISTING:
            # The checkpoint is unaligned by now, so this barrier may overtake its data as well.
            self._gate.channels[channel].convert_to_priority_event(self.checkpoint_id)
        else:
            self.on_time(now_ms)

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Handle a delivered barrier.

        Raises RemoteProtocolError for a second barrier of the same checkpoint, and for one of a job
        with at-least-once checkpoints.
        """
        options = barrier.options
        if options.alignment is Alignment.AT_LEAST_ONCE:
            raise RemoteProtocolError(
                f"channel {channel} delivered {barrier}, but this subtask's checkpoints are "
                "exactly-once: every subtask of a job must have the same mode"
            )
        if self._is_late(barrier.checkpoint_id):
            log.debug("channel %d: %s arrived too late", channel, barrier)
            if options.data_type.is_blocking_upstream:
                self._gate.channels[channel].resume_consumption()
            return
        self._begin(barrier, now_ms)
        if channel not in self._missing:
            raise RemoteProtocolError(f"channel {channel} delivered {barrier} twice")
        # Only the options of the arriving barrier decide how its channel is treated. So an exchange
        # with FORCED_ALIGNED barriers neither stops other channels from overtaking nor waits for
        # them. The first priority barrier makes the checkpoint unaligned. A channel that delivers
        # its barrier in order after that has in flight only the data it delivered before. Barriers
        # of a savepoint never have priority, so a savepoint is always aligned.
        if options.alignment is Alignment.UNALIGNED and self.state is not BarrierState.PERSISTING:
            self._overtake(barrier)
            if not self.is_pending:
                return
        self._had_barrier(channel, now_ms)
        if options.data_type.is_blocking_upstream:
            if self.state is BarrierState.PERSISTING:
                self._gate.channels[channel].resume_consumption()
            else:
                self._blocked.append(channel)
        self._settle(now_ms)

    def on_cancellation(self, channel: int, checkpoint_id: int, now_ms: int) -> None:
        """Handle a delivered cancel marker: the barrier will not come."""
        self.abort(checkpoint_id, AbortReason.CANCELLATION_BARRIER)

    def on_end_of_partition(self, channel: int, now_ms: int) -> None:
        """Handle the end of a channel: no barrier comes any more, and nothing is in flight."""
        self._open.discard(channel)
        if channel in self._missing:
            self._had_barrier(channel, now_ms)
            self._settle(now_ms)

    def on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Take a checkpoint at the request of the coordinator.

        All producers have finished, so the channels deliver nothing but their ends.
        """
        if not self._is_late(barrier.checkpoint_id):
            self._begin(barrier, now_ms)
            self._step(BarrierStep.BARRIER)
            self._missing.clear()
            self._settle(now_ms)

    def on_time(self, now_ms: int) -> None:
        """Continue unaligned if the deadline has passed; otherwise do nothing."""
        if self.deadline_ms is not None and now_ms >= self.deadline_ms:
            assert self._timeoutable is not None
            log.debug("checkpoint %d was not aligned in time", self.checkpoint_id)
            self._overtake(self._timeoutable.to_unaligned())

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Abort a checkpoint, even a future one; ignored if it has ended here.

        Blocked channels continue at once, without waiting for the cancel marker.
        """
        if self._is_late(checkpoint_id):
            return
        if checkpoint_id == self.checkpoint_id:
            self._abort(reason)
            return
        self._subsume()
        self.checkpoint_id = checkpoint_id
        self._listener.abort(checkpoint_id, reason)

    # -- the pending checkpoint -------------------------------------------------------------------

    def _is_late(self, checkpoint_id: int) -> bool:
        """Return whether the checkpoint has ended here, or a newer one has begun."""
        return checkpoint_id < self.checkpoint_id or (
            checkpoint_id == self.checkpoint_id and not self.is_pending
        )

    def _begin(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Take a barrier of the pending checkpoint into account, or of a new one."""
        if barrier.checkpoint_id > self.checkpoint_id:
            self._subsume()
            self.checkpoint_id = barrier.checkpoint_id
            self._missing = set(self._open)
            self._account = AlignmentAccount(barrier.timestamp_ms, now_ms)
        known, options = self._barrier, barrier.options
        # FORCED_ALIGNED says something about one exchange only. Pass another barrier on if there is
        # one, so that the exchanges behind this subtask decide for themselves.
        if known is None or known.options.alignment is Alignment.FORCED_ALIGNED:
            self._barrier = barrier
        if (
            options.aligned_timeout_ms is not None
            and options.is_timeoutable
            and self._timeoutable is None
            and self.state is not BarrierState.PERSISTING
        ):
            self._timeoutable = barrier
            # The coordinator's clock may have been set back since it created the barrier, and the
            # offset of this machine's clock is known only approximately.
            self.deadline_ms = min(barrier.timestamp_ms, now_ms) + options.aligned_timeout_ms

    def _subsume(self) -> None:
        if self.is_pending:
            self._abort(AbortReason.SUBSUMED)

    def _had_barrier(self, channel: int, now_ms: int) -> None:
        self._step(BarrierStep.BARRIER)
        self._missing.remove(channel)
        self._account.barrier(now_ms, self._bytes_in())

    def _settle(self, now_ms: int) -> None:
        """After a barrier or an end, trigger, complete or time out the checkpoint if it is due."""
        if not self.is_pending or self._missing:
            self.on_time(now_ms)  # The passive check of the timeout.
            return
        if self.state is BarrierState.ALIGNING:
            assert self._barrier is not None
            self._listener.trigger(self._barrier)
        if self.is_pending:  # The listener may have aborted the checkpoint.
            self._step(BarrierStep.FINISH)
            metrics = self._account.ended(now_ms, self._bytes_in())
            self._release()
            self._listener.complete(self.checkpoint_id, metrics)

    def _overtake(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint now, so that no channel stays blocked for it."""
        self._step(BarrierStep.OVERTAKE)
        self._timeoutable = self.deadline_ms = None
        self._listener.trigger(barrier)
        channels, checkpoint_id = self._gate.channels, self.checkpoint_id
        for index in sorted(self._missing):
            if not self.is_pending:
                return
            self._persisting.append(index)
            persist = partial(self._persist, checkpoint_id, index)
            if not channels[index].start_persisting(checkpoint_id, persist):
                self._abort(AbortReason.NOT_READY)
            else:
                # A queued barrier was announced, so the handler can let it overtake the data. From
                # then on it counts as one that came with priority.
                channels[index].convert_to_priority_event(checkpoint_id)
        self._let_go()

    def _persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        if channel in self._persisting and checkpoint_id == self.checkpoint_id:
            self._account.persisted_bytes += buffer.size
            self._listener.persist(checkpoint_id, channel, buffer)
        else:
            buffer.recycle()

    def _abort(self, reason: AbortReason) -> None:
        log.debug("checkpoint %d is aborted: %s", self.checkpoint_id, reason.value)
        self._step(BarrierStep.ABORT)
        self._release()
        self._listener.abort(self.checkpoint_id, reason)

    def _release(self) -> None:
        """Clear the state of the pending checkpoint."""
        self._barrier = self._timeoutable = self.deadline_ms = None
        self._missing.clear()
        channels = self._gate.channels
        persisting, self._persisting = self._persisting, []
        for index in persisting:
            channels[index].stop_persisting(self.checkpoint_id)
        self._let_go()

    def _let_go(self) -> None:
        channels = self._gate.channels
        blocked, self._blocked = self._blocked, []
        for index in blocked:
            channels[index].resume_consumption()

    def _step(self, step: BarrierStep) -> None:
        before, self.state = self.state, TRANSITIONS[self.state, step]
        if self.state is not before:
            log.debug("checkpoint %d: %s", self.checkpoint_id, self.state.value)

    def check_invariants(self) -> None:
        """Raise AssertionError if the state is inconsistent."""
        blocked = set(self._blocked)
        assert not blocked or self.state is BarrierState.ALIGNING, (
            "a channel is blocked without a checkpoint"
        )
        assert not blocked & self._missing, "a channel is blocked that has delivered no barrier"
        assert len(blocked) == len(self._blocked), "a channel is blocked twice"
        assert blocked <= self._open, "a channel that has ended is blocked"
        assert not self._persisting or self.state is BarrierState.PERSISTING, (
            "a channel persists data without a checkpoint"
        )
        assert self._missing <= self._open, "the barrier of a channel that has ended is missing"
        assert bool(self._missing) == self.is_pending, "the number of missing barriers is wrong"
        assert self.deadline_ms is None or self.state in _MAY_TIME_OUT, (
            "a deadline is set without a checkpoint"
        )
