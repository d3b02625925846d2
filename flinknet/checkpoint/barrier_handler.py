"""The barrier handler: where a subtask's checkpoint lies among what its channels deliver.

Theory of operation (Flink's SingleCheckpointBarrierHandler with its states). A checkpoint is
*taken* at one moment, between two batches. It is a consistent cut if on every channel what came
before that channel's barrier is processed before this moment, or stored as the channel's state; and
what comes behind the barrier is neither. There are two ways to that:

- *aligned*: the barrier blocks its channel at the producer; when every channel has had it, the
  checkpoint is taken and all go on. Nothing is stored.
- *unaligned*: it is taken at once; what has arrived on each channel and is not processed, and what
  arrives until its own barrier, is *in flight*: it is stored, and processed later. A barrier with
  priority has overtaken some of it in the channel's queue, and is polled before it.

How a barrier came, by the options that it carries, says what to do with its channel, and nothing
else: one exchange with FORCED_ALIGNED barriers neither keeps others from overtaking nor waits for
them. The first barrier with priority makes the checkpoint unaligned for the subtask; a channel
whose barrier comes in order then has nothing in flight but what it has delivered until there. If
all come in order, it is aligned. So a savepoint, whose barriers never have priority, always is.

*Alternating*: it begins aligned, and goes on unaligned when ``aligned_timeout_ms`` have passed
since the barrier was created, at the coordinator, so that the time-out is one for the whole way
through the job. It is looked at with every barrier, announcement and end (*passive*), and when
``deadline_ms`` has come (*active*): the subtask asks for that after every call, and calls
``on_time``, as a mail. Channels that are blocked go on then. A barrier that waits behind data in
its channel, of which the handler knows because it is announced, is let overtake that; from then on
it is one that came with priority. So is one that is announced later.

::

    WAITING     ANNOUNCE -> ANNOUNCED, BARRIER -> ALIGNING, OVERTAKE -> PERSISTING
    ANNOUNCED   ANNOUNCE -> ANNOUNCED, BARRIER -> ALIGNING, OVERTAKE -> PERSISTING
    ANNOUNCED   ABORT -> WAITING
    ALIGNING    ANNOUNCE -> ALIGNING, BARRIER -> ALIGNING, OVERTAKE -> PERSISTING
    ALIGNING    FINISH -> WAITING, ABORT -> WAITING
    PERSISTING  ANNOUNCE -> PERSISTING, BARRIER -> PERSISTING
    PERSISTING  FINISH -> WAITING, ABORT -> WAITING

One checkpoint is under way at a time. A newer one *subsumes* it. What comes of an older one, or of
one that has ended here, is ignored, but for its channel, which goes on. A channel that has *ended*
counts as one that has had its barrier: in a checkpoint under way, and in all that follow.

What the subtask does (see ``barrier_listener.py`` for what it is told):

- it hands its events to ``handle_event`` (``barrier_events.py``), the ends of channels included,
  where the reader gives them to it: between two batches;
- it calls ``on_time(now_ms)`` when ``deadline_ms`` has come, and ``on_trigger`` when the
  coordinator triggers it itself, its inputs having finished: both as mails;
- it calls ``abort`` for a checkpoint that it cannot take, or that the coordinator has aborted: what
  is blocked goes on at once, and does not wait for the cancel marker.

Owned: which channels are open, miss the barrier, are blocked by it, have been told to persist.
Invariants: no channel is blocked but while ALIGNING, and none persists but while PERSISTING; those
blocked have had the barrier; some barrier is missing while a checkpoint is under way, or it would
be complete, and none is otherwise.
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
    """What a barrier handler does with an input channel; see InputChannel."""

    def resume_consumption(self) -> None:
        """Let the producer go on behind the barrier that blocked it."""

    def start_persisting(self, checkpoint_id: int, persist: Callable[[Buffer], None]) -> bool:
        """Hand out the data in front of the channel's barrier: at once what has arrived and not
        been polled, and each buffer that arrives before the barrier does; each with a reference.
        False if the channel cannot take part."""

    def stop_persisting(self, checkpoint_id: int) -> None:
        """The checkpoint is over: hand out nothing more."""

    def convert_to_priority_event(self, checkpoint_id: int) -> bool:
        """Let the barrier overtake everything if it waits in the channel, and can; it is an
        unaligned one then, which blocks nobody."""


class BarrierChannels(Protocol):
    """A gate, as the barrier handler sees it."""

    @property
    def channels(self) -> Sequence[BarrierChannel]:
        """The channels, by their indices; one may be replaced before it has delivered anything."""


class BarrierState(Enum):
    """How far the checkpoint under way is, if there is one."""

    WAITING = "no checkpoint is under way"
    ANNOUNCED = "the barrier of one has arrived behind data; no channel has had it"
    ALIGNING = "some channels have had the barrier, and are blocked by it or have ended"
    PERSISTING = "it was taken; what channels deliver until their barrier is stored"


class BarrierStep(Enum):
    """What moves a checkpoint on."""

    ANNOUNCE = "its barrier has arrived on a channel, behind data"
    BARRIER = "a channel has had its barrier, or ended"
    OVERTAKE = "it is taken before every channel has had its barrier"
    FINISH = "every channel has had its barrier"
    ABORT = "it is given up"


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
    """The barriers of all channels of a gate, or of several united; exactly once.

    Times are milliseconds since 1970, as in barriers.
    """

    def __init__(
        self, gate: BarrierChannels, listener: BarrierListener, bytes_in: Callable[[], int]
    ) -> None:
        """``bytes_in`` is how many bytes of data the subtask's reader has read."""
        self.state = BarrierState.WAITING
        self.checkpoint_id = -1
        """The checkpoint under way, or the last one of which anything came; -1 for none."""
        self.deadline_ms: int | None = None
        """When ``on_time`` is to be called."""
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
        """Whether a checkpoint is under way."""
        return self.state is not BarrierState.WAITING

    # -- what comes -------------------------------------------------------------------------------

    def on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """A barrier with a time-out has arrived on a channel, and waits there behind data."""
        if self._is_late(barrier.checkpoint_id):
            return
        self._begin(barrier, now_ms)
        self._step(BarrierStep.ANNOUNCE)
        if self.state is BarrierState.PERSISTING:
            self._gate.channels[channel].convert_to_priority_event(self.checkpoint_id)
        else:
            self.on_time(now_ms)

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> None:
        """A channel delivers a barrier. Raises RemoteProtocolError for a second one of the same
        checkpoint, and for one of a job whose checkpoints are at least once."""
        options = barrier.options
        if options.alignment is Alignment.AT_LEAST_ONCE:
            raise RemoteProtocolError(
                f"channel {channel} delivered {barrier}, but checkpoints are exactly once here: "
                f"every subtask of a job must have the same mode"
            )
        if self._is_late(barrier.checkpoint_id):
            log.debug("channel %d: %s comes too late", channel, barrier)
            if options.data_type.is_blocking_upstream:
                self._gate.channels[channel].resume_consumption()
            return
        self._begin(barrier, now_ms)
        if channel not in self._missing:
            raise RemoteProtocolError(f"channel {channel} delivered {barrier} twice")
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
        """A channel delivers a cancel marker: its barrier will not come."""
        self.abort(checkpoint_id, AbortReason.CANCELLATION_BARRIER)

    def on_end_of_partition(self, channel: int, now_ms: int) -> None:
        """A channel has ended: no barrier comes any more, and nothing is in flight."""
        self._open.discard(channel)
        if channel in self._missing:
            self._had_barrier(channel, now_ms)
            self._settle(now_ms)

    def on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """The coordinator has the subtask take a checkpoint, because all of those upstream have
        finished: what is left of its channels is their end."""
        if not self._is_late(barrier.checkpoint_id):
            self._begin(barrier, now_ms)
            self._step(BarrierStep.BARRIER)
            self._missing.clear()
            self._settle(now_ms)

    def on_time(self, now_ms: int) -> None:
        """Go on unaligned if the time is over; nothing if it is not, or if there is none."""
        if self.deadline_ms is not None and now_ms >= self.deadline_ms:
            assert self._timeoutable is not None
            log.debug("checkpoint %d is not aligned in time", self.checkpoint_id)
            self._overtake(self._timeoutable.to_unaligned())

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Give up a checkpoint, also one that is still to come; nothing if it has ended here."""
        if self._is_late(checkpoint_id):
            return
        if checkpoint_id == self.checkpoint_id:
            self._abort(reason)
            return
        self._subsume()
        self.checkpoint_id = checkpoint_id
        self._listener.abort(checkpoint_id, reason)

    # -- the checkpoint under way -----------------------------------------------------------------

    def _is_late(self, checkpoint_id: int) -> bool:
        """Whether it has ended here, or a newer one has begun."""
        return checkpoint_id < self.checkpoint_id or (
            checkpoint_id == self.checkpoint_id and not self.is_pending
        )

    def _begin(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """A barrier is known of the checkpoint under way, or of a new one."""
        if barrier.checkpoint_id > self.checkpoint_id:
            self._subsume()
            self.checkpoint_id = barrier.checkpoint_id
            self._missing = set(self._open)
            self._account = AlignmentAccount(barrier.timestamp_ms, now_ms)
        known, options = self._barrier, barrier.options
        if known is None or known.options.alignment is Alignment.FORCED_ALIGNED:
            self._barrier = barrier
        if (
            options.aligned_timeout_ms is not None
            and options.is_timeoutable
            and self._timeoutable is None
            and self.state is not BarrierState.PERSISTING
        ):
            self._timeoutable = barrier
            # The clock may have been set back since the barrier was made, or be another machine's.
            self.deadline_ms = min(barrier.timestamp_ms, now_ms) + options.aligned_timeout_ms

    def _subsume(self) -> None:
        if self.is_pending:
            self._abort(AbortReason.SUBSUMED)

    def _had_barrier(self, channel: int, now_ms: int) -> None:
        self._step(BarrierStep.BARRIER)
        self._missing.remove(channel)
        self._account.barrier(now_ms, self._bytes_in())

    def _settle(self, now_ms: int) -> None:
        """After a barrier or an end: the checkpoint may be aligned, or complete, or time out."""
        if not self.is_pending or self._missing:
            self.on_time(now_ms)
            return
        if self.state is BarrierState.ALIGNING:
            assert self._barrier is not None
            self._listener.trigger(self._barrier)
        if self.is_pending:
            self._step(BarrierStep.FINISH)
            metrics = self._account.ended(now_ms, self._bytes_in())
            self._release()
            self._listener.complete(self.checkpoint_id, metrics)

    def _overtake(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint now, and have nobody wait for it."""
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
        """Nothing is under way any more."""
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
        """Raise AssertionError if the accounts do not add up."""
        blocked = set(self._blocked)
        assert not blocked or self.state is BarrierState.ALIGNING, "a channel is blocked in vain"
        assert not blocked & self._missing, "a channel is blocked that has had no barrier"
        assert len(blocked) == len(self._blocked), "a channel is blocked twice"
        assert blocked <= self._open, "a channel that has ended is blocked"
        assert not self._persisting or self.state is BarrierState.PERSISTING, (
            "a channel persists what no checkpoint stores"
        )
        assert self._missing <= self._open, "the barrier of a channel that has ended is missing"
        assert bool(self._missing) == self.is_pending, "no barrier is missing, or one too many"
        assert self.deadline_ms is None or self.state in _MAY_TIME_OUT, "a deadline was left behind"
