"""The coordinator's registry of workers: their states, losses and slots.

Theory of operation
-------------------
A worker is present from its ``Register`` message until it is lost::

    REGISTERED  DISCONNECT -> LOST, EXIT -> EXPLAINED, FALL_SILENT -> EXPLAINED
    REGISTERED  CONNECT_AGAIN -> EXPLAINED
    LOST        EXIT -> EXPLAINED

- DISCONNECT: its control connection closes. The kernel does this before the reason is known, so the
  loss is only a SUSPICION (``failure.py``).
- EXIT: the launcher reports how the process ended.
- FALL_SILENT: the worker was silent for ``heartbeat_timeout_ms``, or user code has blocked it for
  ``task_stuck_timeout_ms``.
- CONNECT_AGAIN: the same process registers once more, because it has lost a connection that still
  looks open to the coordinator.

The last three make the loss a CAUSE, which later events cannot change. A lost worker may register
again if no launcher replaces it. It then counts as a new worker: all of its slots are free, and it
takes part in no attempt. Its earlier messages cannot be confused with new ones, since the old
connection was cut. Its late uploads carry the number of an attempt that goes on without it.

Slots belong to a job attempt from its deployment until the worker releases it. A worker that cannot
release the attempt, because a user function never returns, keeps them.

The registry does no I/O and has no clock: callers pass ``now``, and ``next_tick`` says when to call
``tick``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.hash_seed import SEED_VARIABLE, text_hash
from flinknet.cluster.control.job_state import AttemptKey
from flinknet.cluster.control.messages import Register
from flinknet.cluster.control.presence import Presence
from flinknet.cluster.control.software import check_software
from flinknet.errors import ConfigurationError
from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "WorkerEvent", "WorkerRecord", "WorkerRegistry", "WorkerState"]


class WorkerEvent(Enum):
    """An event in the life of a worker, as the coordinator sees it."""

    DISCONNECT = "its control connection has closed"
    EXIT = "its process has ended"
    FALL_SILENT = "there was no sign of life for too long, or it was held up for too long"
    CONNECT_AGAIN = "its process registers on another connection"


class WorkerState(Enum):
    """Whether a worker is registered or lost."""

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

_RANK = {WorkerState.LOST: CauseRank.SUSPICION, WorkerState.EXPLAINED: CauseRank.CAUSE}
"""The rank of a loss, by the worker's state after it."""


@dataclass(slots=True)
class WorkerRecord:
    """The coordinator's record of one worker."""

    worker_id: str
    pid: int
    address: str
    """Address of its data plane."""
    slots: int
    metrics_address: str
    """Address of its /metrics endpoint; empty if it has none."""
    heard_at: float
    """Time of its last message, in the caller's clock."""
    lives_at: float
    """Time of its last sign of life: a message or a pulse."""
    process: str = ""
    """Random name of its process."""
    pulsed_at: float = float("-inf")
    """Time of its last pulse (``worker/pulse.py``), sent while its event loop is blocked."""
    state: WorkerState = WorkerState.REGISTERED
    loss: FailureCause | None = None
    step_of: str = ""
    """The subtask with the longest current call of user code, from the last heartbeat."""
    step_s: float = 0.0
    """Seconds that this call has lasted."""
    clock_offset_s: float = 0.0
    """Seconds by which its clock is ahead of the coordinator's."""
    clock_error_s: float | None = None
    """Error bound of ``clock_offset_s``; None if the offset is not known."""
    occupied: dict[AttemptKey, int] = field(default_factory=dict)
    """Slots taken, by job attempt."""
    drains: bool = False
    """Whether it was told to end and waits until its jobs have left."""
    is_dismissed: bool = False
    """Whether it has been told to stop, because its jobs have left."""

    @property
    def is_lost(self) -> bool:
        """Whether it is lost, for a known reason or not."""
        return self.state is not WorkerState.REGISTERED

    @property
    def status(self) -> str:
        """``REGISTERED``, ``DRAINING`` or ``LOST``, for clients and metrics."""
        if self.is_lost:
            return "LOST"
        return "DRAINING" if self.drains else "REGISTERED"

    @property
    def free_slots(self) -> int:
        """Number of slots for new jobs; 0 if the worker is lost or draining."""
        if self.is_lost or self.drains:
            return 0
        return self.slots - sum(self.occupied.values())


class WorkerRegistry:
    """All workers that have registered, except those lost long ago."""

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
        """Create an empty registry.

        ``lost_retained`` is the number of lost workers to remember. The oldest are forgotten,
        because a cluster that runs for long loses workers again and again. With ``stuck_timeout_s``
        0 a worker's event loop may be blocked for any time. ``takes_back`` allows a lost worker to
        register again.
        """
        self._takes_back = takes_back
        self._lost_retained = lost_retained
        self._lost: deque[str] = deque()
        """Ids of the remembered lost workers, in order of their loss."""
        self.forgotten = 0
        """Number of lost workers that have been forgotten. Their ids may be used again."""
        self._timeout = heartbeat_timeout_s
        self._stuck_timeout = stuck_timeout_s
        self._presence = Presence(now=now, interval_s=heartbeat_interval_s)
        self._workers: dict[str, WorkerRecord] = {}

    def workers(self) -> tuple[WorkerRecord, ...]:
        """Return all workers, including the remembered lost ones, in order of registration."""
        return tuple(self._workers.values())

    def registered(self) -> tuple[WorkerRecord, ...]:
        """Return the workers that are present now, in order of registration."""
        return tuple(w for w in self._workers.values() if not w.is_lost)

    def get(self, worker_id: str) -> WorkerRecord | None:
        """Return a worker, or None if the id never registered or is forgotten."""
        return self._workers.get(worker_id)

    def is_there(self, worker_id: str) -> bool:
        """Return whether this worker has registered and is not lost."""
        worker = self._workers.get(worker_id)
        return worker is not None and not worker.is_lost

    def one_was_held_up(self, since: float) -> bool:
        """Return whether a present worker has sent a pulse since that time.

        A pulse means that user code was blocking the worker's event loop.
        """
        return any(worker.pulsed_at >= since for worker in self.registered())

    def register(self, message: Register, now: float) -> WorkerRecord:
        """Add a worker; call ``connected_again`` first.

        Raises ConfigurationError if the id belongs to another worker, if the worker offers no
        slots, or if it hashes text differently.
        """
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
                f"worker {message.worker_id} hashes text differently from this cluster, so keys "
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
        """Note that a worker has sent a message."""
        worker = self._workers[worker_id]
        worker.heard_at = worker.lives_at = now

    def is_at_step(self, worker_id: str, subtask: str, seconds: float) -> None:
        """Note from a worker's heartbeat which user call has lasted longest."""
        worker = self._workers[worker_id]
        worker.step_of, worker.step_s = subtask, seconds

    def has_clock(self, worker_id: str, offset_s: float, error_s: float) -> None:
        """Note a worker's clock offset from its heartbeat; a negative error means it is unknown."""
        if error_s >= 0:
            worker = self._workers[worker_id]
            worker.clock_offset_s, worker.clock_error_s = offset_s, error_s

    def lives(self, worker_id: str, now: float) -> None:
        """Note a worker's pulse: its process is alive, but its event loop is blocked.

        Does nothing if the worker never registered or is forgotten.
        """
        worker = self._workers.get(worker_id)
        if worker is not None:
            worker.lives_at = worker.pulsed_at = now

    def drain(self, worker_id: str) -> None:
        """Mark a worker that was told to end: no new subtasks are placed on it."""
        self._workers[worker_id].drains = True

    def draining(self) -> tuple[WorkerRecord, ...]:
        """Return the present workers that drain, in order of registration."""
        return tuple(worker for worker in self.registered() if worker.drains)

    def occupy(self, worker_id: str, attempt: AttemptKey, slots: int) -> None:
        """Assign slots of a worker to a job attempt."""
        worker = self._workers[worker_id]
        assert 0 < slots <= worker.free_slots, "slots are planned from what is free"
        worker.occupied[attempt] = slots

    def reoccupy(self, worker_id: str, attempt: AttemptKey, slots: int) -> None:
        """Set the number of slots that a job attempt has on a worker.

        Does nothing if the worker is not present.
        """
        worker = self._workers.get(worker_id)
        if worker is not None and not worker.is_lost:
            worker.occupied.pop(attempt, None)
            if slots:
                worker.occupied[attempt] = slots

    def slots_of(self, worker_id: str, attempt: AttemptKey) -> int:
        """Return the number of slots that a job attempt occupies on a worker."""
        return self._workers[worker_id].occupied.get(attempt, 0)

    def release(self, worker_id: str, attempt: AttemptKey) -> None:
        """Free the slots that an attempt occupies on a worker, if any."""
        self._workers[worker_id].occupied.pop(attempt, None)

    def connection_closed(self, worker_id: str) -> FailureCause | None:
        """Handle a closed control connection; return None if the worker was lost already."""
        reason = "its control connection closed"
        return self._lose(worker_id, WorkerEvent.DISCONNECT, reason)

    def connected_again(self, message: Register) -> FailureCause | None:
        """Lose a worker if its process registers again, since the earlier connection is gone.

        Returns None if the process is not registered, or if a launcher replaces lost workers.
        """
        worker = self._workers.get(message.worker_id)
        is_same = worker is not None and message.process and worker.process == message.process
        if not (is_same and self._takes_back):
            return None
        reason = "its control connection was cut, and it has connected again"
        return self._lose(message.worker_id, WorkerEvent.CONNECT_AGAIN, reason)

    def exited(self, worker_id: str, how: str) -> FailureCause | None:
        """Handle the launcher's report of how a process ended, which explains a suspected loss.

        Returns None if the worker never registered, or if its loss is explained already.
        """
        return self._lose(worker_id, WorkerEvent.EXIT, how)

    def tick(self, now: float) -> list[FailureCause]:
        """Lose the workers that have been silent or blocked for too long, and return the causes.

        Call at ``next_tick`` or earlier.
        """
        # A coordinator that was itself stopped must not blame its workers for its own absence
        # (``presence.py``). That time is credited to every worker.
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
                    f"user code has blocked its event loop for {self._stuck_timeout * 1000:.0f} ms "
                    "(cluster.task_stuck_timeout_ms)"
                )
            elif self._stuck_timeout and worker.step_s >= self._stuck_timeout:
                reason = (
                    f'user code of subtask "{worker.step_of}" has been in one call for '
                    f"{worker.step_s * 1000:.0f} ms (cluster.task_stuck_timeout_ms)"
                )
            else:
                continue
            causes.append(self._lose(worker.worker_id, WorkerEvent.FALL_SILENT, reason))
        return [cause for cause in causes if cause is not None]

    @property
    def next_tick(self) -> float:
        """Time at which ``tick`` must be called, in the caller's clock."""
        return self._presence.next_tick

    def _lose(self, worker_id: str, event: WorkerEvent, reason: str) -> FailureCause | None:
        """Apply a loss event; return the cause, or None if the event adds nothing."""
        worker = self._workers.get(worker_id)
        if worker is None or (worker.state, event) not in TRANSITIONS:
            return None
        worker.state = TRANSITIONS[worker.state, event]
        rank = _RANK[worker.state]
        if worker.drains:
            worker.loss = FailureCause.of_drained_worker(worker_id, worker.pid)
        else:
            worker.loss = FailureCause.of_lost_worker(worker_id, worker.pid, reason, rank)
        worker.occupied.clear()
        if worker_id not in self._lost:
            self._lost.append(worker_id)
            self._forget_oldest()
        return worker.loss

    def _forget_oldest(self) -> None:
        while len(self._lost) > self._lost_retained:
            del self._workers[self._lost.popleft()]
            self.forgotten += 1
