"""State machine for the restart of a job, or of some of its regions.

Theory of operation
-------------------
One table serves both scopes. ``Scope.JOB``: the attempt has failed, and the next one will start.
``Scope.REGIONS``: some regions have failed while the others go on. A job recovers in one scope at a
time. If the whole attempt fails while regions recover, the scope widens (SPREAD)::

    RUNNING            BEGIN -> RUNNING, RESUME -> RESUMED, FAIL -> BACKING_OFF
    RUNNING            FAIL_REGIONS -> BACKING_OFF, GIVE_UP -> GIVING_UP, END -> ENDED
    RUNNING            QUEUE -> QUEUED
    QUEUED             BEGIN -> RUNNING, LACK_SLOTS -> QUEUED, END -> ENDED
    RESUMED            GET_WORKER -> RUNNING, FAIL -> AWAITING_WORKERS, END -> ENDED
    AWAITING_WORKERS   GET_WORKER -> BACKING_OFF, END -> ENDED
    BACKING_OFF        SEEK -> SEEKING, BEGIN -> RUNNING, LACK_SLOTS -> WAITING_FOR_SLOTS
    BACKING_OFF        FAIL_REGIONS -> BACKING_OFF, SPREAD -> RUNNING
    BACKING_OFF        GIVE_UP -> GIVING_UP, END -> ENDED
    SEEKING            ANSWER -> READY, FAIL_REGIONS -> SEEKING, SPREAD -> SEEKING_IN_VAIN
    SEEKING            GIVE_UP -> GIVING_UP, END -> ENDED
    SEEKING_IN_VAIN    ANSWER -> RUNNING, FAIL -> SEEKING, END -> ENDED
    READY              BEGIN -> RUNNING, LACK_SLOTS -> WAITING_FOR_SLOTS
    READY              FAIL_REGIONS -> BACKING_OFF, SPREAD -> RUNNING
    READY              GIVE_UP -> GIVING_UP, END -> ENDED
    WAITING_FOR_SLOTS  BEGIN -> RUNNING, LACK_SLOTS -> WAITING_FOR_SLOTS
    WAITING_FOR_SLOTS  FAIL_REGIONS -> BACKING_OFF, SPREAD -> RUNNING
    WAITING_FOR_SLOTS  GIVE_UP -> GIVING_UP, END -> ENDED
    GIVING_UP          END -> ENDED

- QUEUED: the first attempt waits for slots, for as long as the submission says.
- RUNNING includes an attempt that is failing. Whether another one follows is decided at its end.
- A job without a checkpoint to seek goes from BACKING_OFF directly to BEGIN.
- The answer to a search is judged for the outputs that will restart. It never serves a wider scope:
  if more regions fail, or the whole attempt, the search is repeated. A search that is still under
  way is judged when its answer arrives, so the wider scope takes it over (SEEKING_IN_VAIN,
  SEEKING). A job has at most one search under way.
- Regions in BACKING_OFF or READY also wait until all their subtasks are released
  (``region_failover.py``).

Each transition replaces the data of the previous state, so that no data outlives its state. No
clock: times are arguments, and ``deadline`` says when to check again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from flinknet.transitions import Transitions

__all__ = [
    "TRANSITIONS",
    "Answer",
    "Recovery",
    "RecoveryEvent",
    "RecoveryState",
    "Scope",
]


class RecoveryEvent(Enum):
    """An event in a job's recovery."""

    BEGIN = "an attempt begins, or the regions begin again"
    QUEUE = "the free slots do not suffice for the first attempt, which may wait for them"
    RESUME = "the job is taken over from the coordinator before this one"
    GET_WORKER = "a worker is registered"
    FAIL = "the attempt has failed, and another one may follow"
    FAIL_REGIONS = "some regions have failed, and may begin again"
    SPREAD = "all of the attempt fails while regions were to begin again"
    SEEK = "a search for the newest good checkpoint begins"
    ANSWER = "the search has been answered"
    LACK_SLOTS = "the free slots do not suffice"
    GIVE_UP = "the present attempt is to fail, and none may follow"
    END = "the job ends"


class RecoveryState(Enum):
    """The state of a job's recovery."""

    RUNNING = "nothing is to begin again"
    QUEUED = "the first attempt waits for slots"
    RESUMED = "the attempt is the previous coordinator's, and no worker has registered yet"
    AWAITING_WORKERS = "that attempt has failed, and no worker has registered yet"
    BACKING_OFF = "something begins again later"
    SEEKING = "the newest good checkpoint is being sought"
    SEEKING_IN_VAIN = "it is being sought for regions, and all of the attempt fails meanwhile"
    READY = "it is known what to continue from, or why that cannot be known"
    WAITING_FOR_SLOTS = "it could begin again, and the free slots did not suffice"
    GIVING_UP = "the present attempt fails, and none follows"
    ENDED = "the job has ended"


_S, _E = RecoveryState, RecoveryEvent

TRANSITIONS: Transitions[RecoveryState, RecoveryEvent] = Transitions(
    {
        (_S.RUNNING, _E.BEGIN): _S.RUNNING,
        (_S.RUNNING, _E.QUEUE): _S.QUEUED,
        (_S.QUEUED, _E.BEGIN): _S.RUNNING,
        (_S.QUEUED, _E.LACK_SLOTS): _S.QUEUED,
        (_S.QUEUED, _E.END): _S.ENDED,
        (_S.RUNNING, _E.RESUME): _S.RESUMED,
        (_S.RUNNING, _E.FAIL): _S.BACKING_OFF,
        (_S.RUNNING, _E.FAIL_REGIONS): _S.BACKING_OFF,
        (_S.RUNNING, _E.GIVE_UP): _S.GIVING_UP,
        (_S.RUNNING, _E.END): _S.ENDED,
        (_S.RESUMED, _E.GET_WORKER): _S.RUNNING,
        (_S.RESUMED, _E.FAIL): _S.AWAITING_WORKERS,
        (_S.RESUMED, _E.END): _S.ENDED,
        (_S.AWAITING_WORKERS, _E.GET_WORKER): _S.BACKING_OFF,
        (_S.AWAITING_WORKERS, _E.END): _S.ENDED,
        (_S.BACKING_OFF, _E.SEEK): _S.SEEKING,
        (_S.BACKING_OFF, _E.BEGIN): _S.RUNNING,
        (_S.BACKING_OFF, _E.LACK_SLOTS): _S.WAITING_FOR_SLOTS,
        (_S.BACKING_OFF, _E.FAIL_REGIONS): _S.BACKING_OFF,
        (_S.BACKING_OFF, _E.SPREAD): _S.RUNNING,
        (_S.BACKING_OFF, _E.GIVE_UP): _S.GIVING_UP,
        (_S.BACKING_OFF, _E.END): _S.ENDED,
        (_S.SEEKING, _E.ANSWER): _S.READY,
        (_S.SEEKING, _E.FAIL_REGIONS): _S.SEEKING,
        (_S.SEEKING, _E.SPREAD): _S.SEEKING_IN_VAIN,
        (_S.SEEKING, _E.GIVE_UP): _S.GIVING_UP,
        (_S.SEEKING, _E.END): _S.ENDED,
        (_S.SEEKING_IN_VAIN, _E.ANSWER): _S.RUNNING,
        (_S.SEEKING_IN_VAIN, _E.FAIL): _S.SEEKING,
        (_S.SEEKING_IN_VAIN, _E.END): _S.ENDED,
        (_S.READY, _E.BEGIN): _S.RUNNING,
        (_S.READY, _E.LACK_SLOTS): _S.WAITING_FOR_SLOTS,
        (_S.READY, _E.FAIL_REGIONS): _S.BACKING_OFF,
        (_S.READY, _E.SPREAD): _S.RUNNING,
        (_S.READY, _E.GIVE_UP): _S.GIVING_UP,
        (_S.READY, _E.END): _S.ENDED,
        (_S.WAITING_FOR_SLOTS, _E.BEGIN): _S.RUNNING,
        (_S.WAITING_FOR_SLOTS, _E.LACK_SLOTS): _S.WAITING_FOR_SLOTS,
        (_S.WAITING_FOR_SLOTS, _E.FAIL_REGIONS): _S.BACKING_OFF,
        (_S.WAITING_FOR_SLOTS, _E.SPREAD): _S.RUNNING,
        (_S.WAITING_FOR_SLOTS, _E.GIVE_UP): _S.GIVING_UP,
        (_S.WAITING_FOR_SLOTS, _E.END): _S.ENDED,
        (_S.GIVING_UP, _E.END): _S.ENDED,
    }
)


class Scope(Enum):
    """The part of a job that restarts together."""

    JOB = "all of the job, as its next attempt"
    REGIONS = "the regions that were given up"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a search for the newest intact checkpoint."""

    failure: str | None = None
    """Why the job cannot continue from any checkpoint; None if it can."""
    is_final: bool = False
    """Whether no later search can succeed, so that the job must fail with ``failure``."""


@dataclass(frozen=True, slots=True)
class _Restart:
    """The scope of a start, and its earliest time."""

    scope: Scope
    at: float
    answer: Answer = Answer()
    patience_s: float | None = None
    """Time limit for getting slots; None for the limit that applies to every restart."""


@dataclass(frozen=True, slots=True)
class _End:
    """When and how the job has ended."""

    at: float
    is_cancelled: bool


_WAITS_FOR_SLOTS = (RecoveryState.QUEUED, RecoveryState.WAITING_FOR_SLOTS)

_TIMED = (RecoveryState.BACKING_OFF, RecoveryState.READY, *_WAITS_FOR_SLOTS)
"""States in which the start proceeds as soon as its time has come."""


class Recovery:
    """The recovery of one job. Times are seconds of the coordinator's clock."""

    __slots__ = ("_data", "_slots_timeout_s", "state")

    def __init__(self, slots_timeout_s: float) -> None:
        """``slots_timeout_s`` limits how long a restart waits for slots."""
        self.state = RecoveryState.RUNNING
        self._data: _Restart | _End | None = None
        """The data of the present state."""
        self._slots_timeout_s = slots_timeout_s

    # -- queries

    @property
    def scope(self) -> Scope | None:
        """The scope of the pending start; None if no start is pending."""
        return self._data.scope if isinstance(self._data, _Restart) else None

    @property
    def ended_at(self) -> float | None:
        """When the job ended; None if it has not."""
        return self._data.at if isinstance(self._data, _End) else None

    @property
    def is_cancelled(self) -> bool:
        """Whether a client cancelled the job between two attempts."""
        return isinstance(self._data, _End) and self._data.is_cancelled

    @property
    def answer(self) -> Answer:
        """The result of the search, for the start that is due now."""
        return self._restart.answer

    @property
    def deadline(self) -> float | None:
        """Time of the next check at the latest; None if only another event can change the state."""
        if self.state not in _TIMED:
            return None
        if self.state in _WAITS_FOR_SLOTS:
            return self._slots_deadline(self._restart)
        return self._restart.at

    def is_due(self, now: float) -> bool:
        """Return whether the start may proceed."""
        return self.state in _TIMED and now >= self._restart.at

    def _slots_deadline(self, restart: _Restart) -> float:
        patience_s = restart.patience_s
        return restart.at + (self._slots_timeout_s if patience_s is None else patience_s)

    # -- events

    def queue(self, now: float, patience_s: float) -> None:
        """Let the first attempt wait for slots, for at most ``patience_s``."""
        self._become(RecoveryEvent.QUEUE, _Restart(Scope.JOB, now, patience_s=patience_s))

    def resume(self) -> None:
        """Take the job over from the previous coordinator."""
        self._become(RecoveryEvent.RESUME)

    def get_worker(self, now: float) -> None:
        """Note that a worker is registered; this matters only to a job that was taken over."""
        if self.state is RecoveryState.AWAITING_WORKERS:
            self._become(RecoveryEvent.GET_WORKER, replace(self._restart, at=now))
        elif self.state is RecoveryState.RESUMED:
            self._become(RecoveryEvent.GET_WORKER)

    def fail(self, at: float) -> None:
        """Note that the attempt has failed; the next one may start at ``at``."""
        self._become(RecoveryEvent.FAIL, _Restart(Scope.JOB, at))

    def fail_regions(self, at: float) -> None:
        """Note that regions have failed; they may restart at ``at``.

        Regions that failed before restart with them, and not before their own time.
        """
        if isinstance(self._data, _Restart):
            at = max(at, self._data.at)
        self._become(RecoveryEvent.FAIL_REGIONS, _Restart(Scope.REGIONS, at))

    def spread(self) -> None:
        """Note that the whole attempt fails; do nothing unless regions were to restart."""
        if self.scope is Scope.REGIONS:
            self._become(RecoveryEvent.SPREAD)

    def seek(self) -> None:
        """Note that a search for the newest intact checkpoint has started."""
        self._become(RecoveryEvent.SEEK, self._restart)

    def answered(self, answer: Answer, now: float) -> None:
        """Take the result of the search; the start is due at ``now`` at the earliest."""
        if self.state is RecoveryState.SEEKING_IN_VAIN:
            self._become(RecoveryEvent.ANSWER)
            return
        restart = self._restart
        self._become(RecoveryEvent.ANSWER, replace(restart, at=max(restart.at, now), answer=answer))

    def lack_slots(self, now: float) -> bool:
        """Note that the free slots do not suffice; return whether the time limit has passed."""
        restart = self._restart
        self._become(RecoveryEvent.LACK_SLOTS, restart)
        return now >= self._slots_deadline(restart)

    def begin(self) -> None:
        """Note that an attempt, or the failed regions, start.

        If the result of the search is final, the attempt starts only to fail with it.
        """
        is_final = isinstance(self._data, _Restart) and self._data.answer.is_final
        self._become(RecoveryEvent.GIVE_UP if is_final else RecoveryEvent.BEGIN)

    def give_up(self) -> None:
        """Let the present attempt fail, with no other one after it."""
        self._become(RecoveryEvent.GIVE_UP)

    def end(self, now: float, *, cancelled: bool) -> None:
        """End the job; ``cancelled`` if a client has ended it between two attempts."""
        self._become(RecoveryEvent.END, _End(now, cancelled))

    # -- implementation

    @property
    def _restart(self) -> _Restart:
        assert isinstance(self._data, _Restart), f"nothing begins again in {self.state.name}"
        return self._data

    def _become(self, event: RecoveryEvent, data: _Restart | _End | None = None) -> None:
        self.state, self._data = TRANSITIONS[self.state, event], data
