"""Where a job, or some regions of it, stand between a failure, or a submission, and a new start.

Theory of operation
-------------------
One table serves both scopes. ``Scope.JOB``: the attempt has failed, and the next one is to begin.
``Scope.REGIONS``: some regions have failed while the others go on. A job recovers in one scope at a
time; if all of its attempt fails while regions recover, the scope widens (SPREAD)::

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

- A job that is to wait for slots from its submission on is QUEUED before its first attempt, for as
  long as its submission says.
- A job without a checkpoint to seek goes from BACKING_OFF straight to BEGIN.
- RUNNING also covers an attempt that is failing: only its end says if another one follows.
- An answer to a search is judged for the outputs that begin again. It therefore never serves a
  wider scope than the one it was judged for: if more regions fail, or all of the attempt, the
  checkpoint is sought again. A search that is still unanswered is judged when its answer comes, so
  the wider scope takes it over (SEEKING_IN_VAIN, SEEKING).
- A job has at most one search under way.
- Regions in BACKING_OFF or READY also wait until nothing of them runs; ``region_failover.py`` knows
  that.

Each transition replaces the data of the state before, so data of one state is never seen in
another one. No clock: times come in, and ``deadline`` says when to look again.
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
    """What happens to a job's recovery."""

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
    """Where a job's recovery stands."""

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
    """What begins again together."""

    JOB = "all of the job, as its next attempt"
    REGIONS = "the regions that were given up"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search for the newest good checkpoint has come to."""

    failure: str | None = None
    """Why it cannot be continued from any; None if it can."""
    is_final: bool = False
    """Whether no later search may succeed, so that the job must fail with that."""


@dataclass(frozen=True, slots=True)
class _Restart:
    """What begins again, and when at the earliest."""

    scope: Scope
    at: float
    answer: Answer = Answer()
    patience_s: float | None = None
    """How long it waits for slots; None for as long as every restart does."""


@dataclass(frozen=True, slots=True)
class _End:
    """When and how the job has ended."""

    at: float
    is_cancelled: bool


_WAITS_FOR_SLOTS = (RecoveryState.QUEUED, RecoveryState.WAITING_FOR_SLOTS)

_TIMED = (RecoveryState.BACKING_OFF, RecoveryState.READY, *_WAITS_FOR_SLOTS)
"""The states in which a start begins, or goes one step further, as soon as it is time."""


class Recovery:
    """The recovery of one job. Times are the coordinator's clock, in seconds."""

    __slots__ = ("_data", "_slots_timeout_s", "state")

    def __init__(self, slots_timeout_s: float) -> None:
        """``slots_timeout_s``: how long a restart waits for slots at most."""
        self.state = RecoveryState.RUNNING
        self._data: _Restart | _End | None = None
        self._slots_timeout_s = slots_timeout_s

    # -- answers

    @property
    def scope(self) -> Scope | None:
        """What is to begin again; None if nothing is."""
        return self._data.scope if isinstance(self._data, _Restart) else None

    @property
    def ended_at(self) -> float | None:
        """When the job has ended; None if it has not."""
        return self._data.at if isinstance(self._data, _End) else None

    @property
    def is_cancelled(self) -> bool:
        """Whether a client has ended the job between two attempts."""
        return isinstance(self._data, _End) and self._data.is_cancelled

    @property
    def answer(self) -> Answer:
        """What the search has come to for what begins now."""
        return self._restart.answer

    @property
    def deadline(self) -> float | None:
        """When to look again at the latest; None for as long as nothing else happens."""
        if self.state not in _TIMED:
            return None
        if self.state in _WAITS_FOR_SLOTS:
            return self._slots_deadline(self._restart)
        return self._restart.at

    def is_due(self, now: float) -> bool:
        """Whether the restart may go one step further."""
        return self.state in _TIMED and now >= self._restart.at

    def _slots_deadline(self, restart: _Restart) -> float:
        patience_s = restart.patience_s
        return restart.at + (self._slots_timeout_s if patience_s is None else patience_s)

    # -- events

    def queue(self, now: float, patience_s: float) -> None:
        """The first attempt is to wait for slots, for so long at most."""
        self._become(RecoveryEvent.QUEUE, _Restart(Scope.JOB, now, patience_s=patience_s))

    def resume(self) -> None:
        """The job is taken over from the coordinator before this one."""
        self._become(RecoveryEvent.RESUME)

    def get_worker(self, now: float) -> None:
        """A worker is registered, which matters to a job that was taken over."""
        if self.state is RecoveryState.AWAITING_WORKERS:
            self._become(RecoveryEvent.GET_WORKER, replace(self._restart, at=now))
        elif self.state is RecoveryState.RESUMED:
            self._become(RecoveryEvent.GET_WORKER)

    def fail(self, at: float) -> None:
        """The attempt has failed; the next one may begin then."""
        self._become(RecoveryEvent.FAIL, _Restart(Scope.JOB, at))

    def fail_regions(self, at: float) -> None:
        """Regions have failed, and may begin again then; so may those that failed before, and not
        earlier."""
        if isinstance(self._data, _Restart):
            at = max(at, self._data.at)
        self._become(RecoveryEvent.FAIL_REGIONS, _Restart(Scope.REGIONS, at))

    def spread(self) -> None:
        """No regions are left to begin again alone; nothing happens if none were to."""
        if self.scope is Scope.REGIONS:
            self._become(RecoveryEvent.SPREAD)

    def seek(self) -> None:
        """A search for the newest good checkpoint begins."""
        self._become(RecoveryEvent.SEEK, self._restart)

    def answered(self, answer: Answer, now: float) -> None:
        """The search has come to that; what is to begin may begin now at the earliest."""
        if self.state is RecoveryState.SEEKING_IN_VAIN:
            self._become(RecoveryEvent.ANSWER)
            return
        restart = self._restart
        self._become(RecoveryEvent.ANSWER, replace(restart, at=max(restart.at, now), answer=answer))

    def lack_slots(self, now: float) -> bool:
        """The free slots do not suffice; return whether they have not for too long."""
        restart = self._restart
        self._become(RecoveryEvent.LACK_SLOTS, restart)
        return now >= self._slots_deadline(restart)

    def begin(self) -> None:
        """The next attempt, or the first one, begins, or the regions begin again. If the answer of
        the search is final, the attempt begins only to fail with that."""
        is_final = isinstance(self._data, _Restart) and self._data.answer.is_final
        self._become(RecoveryEvent.GIVE_UP if is_final else RecoveryEvent.BEGIN)

    def give_up(self) -> None:
        """The present attempt is to fail, and none may follow."""
        self._become(RecoveryEvent.GIVE_UP)

    def end(self, now: float, *, cancelled: bool) -> None:
        """The job ends; ``cancelled`` if a client has ended it between two attempts."""
        self._become(RecoveryEvent.END, _End(now, cancelled))

    # -- how

    @property
    def _restart(self) -> _Restart:
        assert isinstance(self._data, _Restart), f"nothing begins again in {self.state.name}"
        return self._data

    def _become(self, event: RecoveryEvent, data: _Restart | _End | None = None) -> None:
        self.state, self._data = TRANSITIONS[self.state, event], data
