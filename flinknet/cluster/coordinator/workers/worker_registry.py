"""The coordinator's list of workers: who is there, who is lost and why, whose slots are free.

Theory of operation
-------------------
A worker is there from its ``Register`` message on, until it is lost. A lost one may register again,
if no launcher replaces it, and is a new worker then: with all of its slots, and without any part in
an attempt. Nothing that it said before can be mistaken for news, since its connection was cut, and
what it still uploads bears the number of an attempt that goes on without it::

    REGISTERED  DISCONNECT -> LOST, EXIT -> EXPLAINED, FALL_SILENT -> EXPLAINED
    REGISTERED  CONNECT_AGAIN -> EXPLAINED
    LOST        EXIT -> EXPLAINED

- DISCONNECT: its control connection closes, which the kernel does before anybody knows why. That
  makes the loss a SUSPICION (``failure.py``).
- EXIT: the launcher says how the process ended; FALL_SILENT: nothing was heard of it for
  ``heartbeat_timeout_ms``, or its event loop has not turned for ``task_stuck_timeout_ms``;
  CONNECT_AGAIN: the same process registers once more, since it has lost a connection whose end the
  coordinator has not seen. Each makes the loss a CAUSE, which nothing changes any more.

Every message counts as a sign of life, and so does its pulse (``worker/pulse.py``), which comes
while user code holds its event loop up. A coordinator that was itself stopped must not blame its
workers for its own absence (``presence.py``): that is credited to every worker.

Of the lost ones the last are kept, so many as the caller says: a cluster that runs for long loses
workers again and again. Of a forgotten one nothing can be news any more, and its id is free.

Slots belong to a job attempt from its deployment until the worker has released it; a worker that
cannot release (a user function that never returns) keeps them.

No I/O and no clock: ``now`` comes in, ``next_tick`` says when to call ``tick``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from flinknet.cluster.control.failure import FailureCause, Gravity
from flinknet.cluster.control.hash_seed import SEED_VARIABLE, text_hash
from flinknet.cluster.control.job_state import AttemptKey
from flinknet.cluster.control.messages import Register
from flinknet.cluster.control.presence import Presence
from flinknet.cluster.control.software import check_software
from flinknet.errors import ConfigurationError
from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "WorkerEvent", "WorkerRecord", "WorkerRegistry", "WorkerState"]


class WorkerEvent(Enum):
    """What the coordinator notices of a worker."""

    DISCONNECT = "its control connection has closed"
    EXIT = "its process has ended"
    FALL_SILENT = "there was no sign of life for too long, or it was held up for too long"
    CONNECT_AGAIN = "its process registers on another connection"


class WorkerState(Enum):
    """Whether a worker is there."""

    REGISTERED = "it is there"
    LOST = "it is lost, and nobody has said how"
    EXPLAINED = "it is lost, and it is known how"


_S, _E = WorkerState, WorkerEvent

TRANSITIONS: Transitions[WorkerState, WorkerEvent] = Transitions(
    {
        (_S.REGISTERED, _E.DISCONNECT): _S.LOST,
        (_S.REGISTERED, _E.EXIT): _S.EXPLAINED,
        (_S.REGISTERED, _E.FALL_SILENT): _S.EXPLAINED,
        (_S.REGISTERED, _E.CONNECT_AGAIN): _S.EXPLAINED,
        (_S.LOST, _E.EXIT): _S.EXPLAINED,
    }
)

_GRAVITY = {WorkerState.LOST: Gravity.SUSPICION, WorkerState.EXPLAINED: Gravity.CAUSE}
"""Of a loss."""


@dataclass(slots=True)
class WorkerRecord:
    """What the coordinator knows of one worker."""

    worker_id: str
    pid: int
    address: str
    """Where its data plane listens."""
    slots: int
    metrics_address: str
    """Where it serves /metrics; empty if it does not."""
    heard_at: float
    """When the last message came, in the caller's clock."""
    lives_at: float
    """When the last sign of life came, a message or its pulse."""
    process: str = ""
    """The random name of its process."""
    pulsed_at: float = float("-inf")
    """When its pulse came last, which comes while its event loop is held up."""
    state: WorkerState = WorkerState.REGISTERED
    loss: FailureCause | None = None
    step_of: str = ""
    """Which subtask's thread has been at one call for longest, as its last heartbeat says."""
    step_s: float = 0.0
    """For how many seconds."""
    clock_offset_s: float = 0.0
    """By how much its clock is ahead of the coordinator's."""
    clock_error_s: float | None = None
    """By how much that may be wrong; None if it is not known."""
    occupied: dict[AttemptKey, int] = field(default_factory=dict)
    """Slots taken, by job attempt."""
    drains: bool = False
    """It was told to end, and waits until its jobs have left it."""
    is_dismissed: bool = False
    """They have, and it has been told."""

    @property
    def is_lost(self) -> bool:
        """It is gone, however much is known of that."""
        return self.state is not WorkerState.REGISTERED

    @property
    def status(self) -> str:
        """``REGISTERED``, ``DRAINING`` or ``LOST``, as clients and metrics are told."""
        if self.is_lost:
            return "LOST"
        return "DRAINING" if self.drains else "REGISTERED"

    @property
    def free_slots(self) -> int:
        """Slots that a new job may have; none on a worker that is lost or drains."""
        if self.is_lost or self.drains:
            return 0
        return self.slots - sum(self.occupied.values())


class WorkerRegistry:
    """The workers that registered with this coordinator, but those that were lost long ago."""

    def __init__(
        self,
        *,
        now: float,
        heartbeat_interval_s: float,
        heartbeat_timeout_s: float,
        stuck_timeout_s: float,
        lost_retained: int,
        takes_back: bool = False,
    ) -> None:
        """``lost_retained`` of the lost workers are remembered; with a ``stuck_timeout_s`` of 0 a
        worker's event loop may be held up for any time. ``takes_back`` says whether a lost worker
        may register again."""
        self._takes_back = takes_back
        self._lost_retained = lost_retained
        self._lost: deque[str] = deque()
        self.forgotten = 0
        """Lost workers that are not remembered any more."""
        self._timeout = heartbeat_timeout_s
        self._stuck_timeout = stuck_timeout_s
        self._presence = Presence(now=now, interval_s=heartbeat_interval_s)
        self._workers: dict[str, WorkerRecord] = {}

    def workers(self) -> tuple[WorkerRecord, ...]:
        """All workers, the last lost ones included, in order of registration."""
        return tuple(self._workers.values())

    def registered(self) -> tuple[WorkerRecord, ...]:
        """The workers that are there now, in order of registration."""
        return tuple(w for w in self._workers.values() if not w.is_lost)

    def get(self, worker_id: str) -> WorkerRecord | None:
        """One worker, or None if that id never registered, or is forgotten."""
        return self._workers.get(worker_id)

    def is_there(self, worker_id: str) -> bool:
        """Return whether this worker has registered and is not lost."""
        worker = self._workers.get(worker_id)
        return worker is not None and not worker.is_lost

    def one_was_held_up(self, since: float) -> bool:
        """Return whether the pulse of a worker that is there has come since that time: user code
        held its event loop up."""
        return any(worker.pulsed_at >= since for worker in self.registered())

    def register(self, message: Register, now: float) -> WorkerRecord:
        """Add a worker; ConfigurationError if the id is that of another, if it offers no slot, or
        if it hashes text in another way. Call ``connected_again`` before."""
        before = self._workers.get(message.worker_id)
        if before is not None and not (before.is_lost and self._takes_back):
            raise ConfigurationError(
                f"worker id {message.worker_id} is taken by pid {before.pid}"
                f"{', which is lost' if before.is_lost else ''}: start the worker with another "
                "--worker-id"
            )
        if message.slots < 1:
            raise ConfigurationError(
                f"worker {message.worker_id} offers {message.slots} slots: "
                "cluster.slots_per_worker must be 1 or more"
            )
        check_software(f"worker {message.worker_id}", message.software)
        if message.text_hash != text_hash():
            raise ConfigurationError(
                f"worker {message.worker_id} hashes text in another way than this cluster, so keys "
                "that hash() has a part in would go to the wrong subtasks: start it with the "
                f"coordinator's cluster.hash_seed (or {SEED_VARIABLE}), with the same kind of "
                "Python interpreter, and without -E or -I"
            )
        worker = WorkerRecord(
            worker_id=message.worker_id,
            pid=message.pid,
            address=message.address,
            slots=message.slots,
            metrics_address=message.metrics_address,
            heard_at=now,
            lives_at=now,
            process=message.process,
        )
        if before is not None:
            del self._workers[worker.worker_id]
            self._lost.remove(worker.worker_id)
        self._workers[worker.worker_id] = worker
        return worker

    def heard(self, worker_id: str, now: float) -> None:
        """A message of a worker has come."""
        worker = self._workers[worker_id]
        worker.heard_at = worker.lives_at = now

    def is_at_step(self, worker_id: str, subtask: str, seconds: float) -> None:
        """A heartbeat of a worker says at which call user code has been for longest."""
        worker = self._workers[worker_id]
        worker.step_of, worker.step_s = subtask, seconds

    def has_clock(self, worker_id: str, offset_s: float, error_s: float) -> None:
        """A heartbeat of a worker says by how much its clock is ahead, if it knows."""
        if error_s >= 0:
            worker = self._workers[worker_id]
            worker.clock_offset_s, worker.clock_error_s = offset_s, error_s

    def lives(self, worker_id: str, now: float) -> None:
        """A worker's pulse has come: its process is there, and its event loop is held up. Nothing
        happens if that worker never registered, or is forgotten."""
        worker = self._workers.get(worker_id)
        if worker is not None:
            worker.lives_at = worker.pulsed_at = now

    def drain(self, worker_id: str) -> None:
        """A worker was told to end: it gets nothing new."""
        self._workers[worker_id].drains = True

    def draining(self) -> tuple[WorkerRecord, ...]:
        """The workers that are there and drain, in order of registration."""
        return tuple(worker for worker in self.registered() if worker.drains)

    def occupy(self, worker_id: str, attempt: AttemptKey, slots: int) -> None:
        """Give slots of a worker to a job attempt."""
        worker = self._workers[worker_id]
        assert 0 < slots <= worker.free_slots, "slots are planned from what is free"
        worker.occupied[attempt] = slots

    def reoccupy(self, worker_id: str, attempt: AttemptKey, slots: int) -> None:
        """Give a job attempt so many slots of a worker in place of those that it has there, if the
        worker is there."""
        worker = self._workers.get(worker_id)
        if worker is not None and not worker.is_lost:
            worker.occupied.pop(attempt, None)
            if slots:
                worker.occupied[attempt] = slots

    def slots_of(self, worker_id: str, attempt: AttemptKey) -> int:
        """How many slots of a worker a job attempt occupies."""
        return self._workers[worker_id].occupied.get(attempt, 0)

    def release(self, worker_id: str, attempt: AttemptKey) -> None:
        """Take the attempt's slots back, if it has any there."""
        self._workers[worker_id].occupied.pop(attempt, None)

    def connection_closed(self, worker_id: str) -> FailureCause | None:
        """The control connection is gone; None if the worker was lost already."""
        reason = "its control connection closed"
        return self._lose(worker_id, WorkerEvent.DISCONNECT, reason)

    def connected_again(self, message: Register) -> FailureCause | None:
        """A worker registers; None unless the same process is registered already, and lost with
        its earlier connection."""
        worker = self._workers.get(message.worker_id)
        is_same = worker is not None and message.process and worker.process == message.process
        if not (is_same and self._takes_back):
            return None
        reason = "its control connection was cut, and it has connected again"
        return self._lose(message.worker_id, WorkerEvent.CONNECT_AGAIN, reason)

    def exited(self, worker_id: str, how: str) -> FailureCause | None:
        """The launcher knows how the process ended; it explains a loss that was only suspected.

        None if that worker never registered, or its loss is explained already.
        """
        return self._lose(worker_id, WorkerEvent.EXIT, how)

    def tick(self, now: float) -> list[FailureCause]:
        """Lose the workers that have been silent, or held up, for too long, and return why; call
        at ``next_tick`` or earlier."""
        away = self._presence.tick(now)
        causes: list[FailureCause | None] = []
        for worker in list(self._workers.values()):
            worker.heard_at += away
            worker.lives_at += away
            if worker.is_lost:
                continue
            if now - worker.lives_at >= self._timeout:
                reason = (
                    f"no sign of life for {self._timeout * 1000:.0f} ms "
                    "(cluster.heartbeat_timeout_ms): its process is stopped, or its machine is "
                    "gone or cannot be reached"
                )
            elif self._stuck_timeout and now - worker.heard_at >= self._stuck_timeout:
                reason = (
                    f"user code has held its event loop up for {self._stuck_timeout * 1000:.0f} ms "
                    "(cluster.task_stuck_timeout_ms)"
                )
            elif self._stuck_timeout and worker.step_s >= self._stuck_timeout:
                reason = (
                    f'user code of subtask "{worker.step_of}" has been at one call for '
                    f"{worker.step_s * 1000:.0f} ms (cluster.task_stuck_timeout_ms)"
                )
            else:
                continue
            causes.append(self._lose(worker.worker_id, WorkerEvent.FALL_SILENT, reason))
        return [cause for cause in causes if cause is not None]

    @property
    def next_tick(self) -> float:
        """When ``tick`` must be called, in the caller's clock."""
        return self._presence.next_tick

    def _lose(self, worker_id: str, event: WorkerEvent, reason: str) -> FailureCause | None:
        """What the event says of the loss; None if that worker never came, or nothing is new."""
        worker = self._workers.get(worker_id)
        if worker is None or (worker.state, event) not in TRANSITIONS:
            return None
        worker.state = TRANSITIONS[worker.state, event]
        gravity = _GRAVITY[worker.state]
        if worker.drains:
            worker.loss = FailureCause.of_drained_worker(worker_id, worker.pid)
        else:
            worker.loss = FailureCause.of_lost_worker(worker_id, worker.pid, reason, gravity)
        worker.occupied.clear()
        if worker_id not in self._lost:
            self._lost.append(worker_id)
            self._forget_oldest()
        return worker.loss

    def _forget_oldest(self) -> None:
        while len(self._lost) > self._lost_retained:
            del self._workers[self._lost.popleft()]
            self.forgotten += 1
