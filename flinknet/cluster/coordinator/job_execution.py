"""One attempt to run a job: its state machine, without I/O and without a clock.

Theory of operation
-------------------
The states are those of ``control/job_state.py`` and ``control/subtask_state.py``::

    CREATED -> DEPLOYING -> RUNNING -> FINISHING --> FINISHED
                   |           |           |
                   +-----------+-----------+> FAILING ----> FAILED      (a cause was settled)
                   +-----------+-----> CANCELLING -> CANCELED    (the user asked)

- DEPLOYING: every worker was told to open its subtasks; RUNNING once all have.
- Each subtask is *pending* until it has finished, failed, or its worker has released the attempt or
  is lost; each worker *holds* its slots until it has released the attempt or is lost.
- The end of a job means that its slots are free. FINISHING (every subtask has finished), FAILING
  and CANCELLING end when nothing is pending and nobody holds slots. A user function that never
  returns can keep both for ever: after the cancel timeout the job ends without them, and
  ``holders`` says who has not let go.
- Then, if the job has two-phase sinks, one worker is told to commit what they have prepared, or to
  abort it if the job has not finished: the *settler*. If it is lost, another one is told the same.
  A commit that fails makes the job fail; an abort that fails, or that nobody is left to do, changes
  nothing more.
- A failure report is *settled* at once if it is a CAUSE; a lighter one waits for a heavier one
  until the cause grace ends (``failure.py`` tells why). Meanwhile nothing is cancelled, because
  cancelling could silence the very subtask that knows the origin. After a cause is settled it never
  changes.
- The loss of a worker that has nothing pending is no failure: what it produced has been
  acknowledged.
- An execution of a coordinator that has ended is ``resumed`` by its successor: nobody runs or holds
  anything of it any more. What was FINISHING still is, and has its sinks committed by the first
  worker that offers itself; what was not finished has failed.

Inputs are the methods; each returns the messages to send, as (worker id, message). ``deadline``
says when to call ``tick``. Inputs that come too late (after the end, for a subtask that is done)
change nothing. Flink: ExecutionGraph.

An execution runs the pipelined regions that it is given: their subtasks are deployed, run and
cancelled together. Today these are all regions of the job. To run one after the other, the
dispatcher begins an execution for each; nothing here knows of the rest of the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from flinknet.cluster.control import job_state, subtask_state
from flinknet.cluster.control.failure import FailureCause, Gravity
from flinknet.cluster.control.job_state import JobEvent, JobState
from flinknet.cluster.control.messages import Cancel, Deploy, Message, Run, Settle
from flinknet.cluster.control.subtask_state import SubtaskEvent, SubtaskState
from flinknet.cluster.coordinator.pipelined_region import PipelinedRegion
from flinknet.errors import JobFailedError, RemoteProtocolError

__all__ = ["Commands", "JobExecution", "SubtaskKey"]

SubtaskKey: TypeAlias = tuple[int, int]
"""(vertex, index)"""

Commands: TypeAlias = list[tuple[str, Message]]
"""(worker id, message to send to it)"""


class JobExecution:
    """The states of one job attempt and of its subtasks."""

    def __init__(
        self,
        job_id: str,
        attempt: int,
        regions: Sequence[PipelinedRegion],
        assignment: Mapping[str, Sequence[SubtaskKey]],
        *,
        cause_grace_s: float,
        cancel_timeout_s: float,
        commit_timeout_s: float | None = None,
    ) -> None:
        """``assignment`` says which subtasks of the regions each worker runs; without a
        ``commit_timeout_s`` there is nothing to commit."""
        assert any(assignment.values()), "a job has at least one subtask"
        self.job_id = job_id
        self.attempt = attempt
        self.regions = {region.name: region for region in regions}
        """The pipelined regions that it runs, by name: today all of the job's."""
        self.state = JobState.CREATED
        self.cause: FailureCause | None = None
        self.deadline: float | None = None
        self._cause_grace = cause_grace_s
        self._cancel_timeout = cancel_timeout_s
        self._worker_of = {key: worker for worker, keys in assignment.items() for key in keys}
        self._states = dict.fromkeys(self._worker_of, SubtaskState.DEPLOYING)
        self._unopened = {worker for worker, keys in assignment.items() if keys}
        self._holders = set(self._unopened)
        self._commit_timeout = commit_timeout_s
        self._settler: str | None = None
        self._unfit: set[str] = set()
        self._is_resumed = False
        self._helpers: list[str] = []
        """Those that came after it was resumed."""

    @property
    def workers(self) -> tuple[str, ...]:
        """The workers that have part in this attempt."""
        return tuple(dict.fromkeys([*self._worker_of.values(), *self._helpers]))

    @property
    def holders(self) -> tuple[str, ...]:
        """The workers that have not released the attempt, nor are lost: their slots are taken."""
        return tuple(worker for worker in self.workers if worker in self._holders)

    @property
    def is_ending(self) -> bool:
        """Nothing is deployed any more, and the end comes within the time-outs."""
        return self.state.is_ending or self._waits_for_cause

    def subtask_states(self) -> dict[SubtaskKey, SubtaskState]:
        """The state of every subtask now."""
        return dict(self._states)

    def region_states(self) -> dict[str, dict[str, int]]:
        """How many subtasks of each region are in which state."""
        return {
            name: Counter(self._states[subtask].value for subtask in sorted(region.subtasks))
            for name, region in self.regions.items()
        }

    def worker_of(self, subtask: SubtaskKey) -> str:
        """Where a subtask was deployed; RemoteProtocolError if the job has no such subtask."""
        if subtask not in self._worker_of:
            raise RemoteProtocolError(f"job {self.job_id} has no subtask {subtask}")
        return self._worker_of[subtask]

    def resume(
        self, state: JobState, cause: FailureCause | None, lost: FailureCause, now: float
    ) -> Commands:
        """Go on where the coordinator before this one has come to, instead of ``start``; ``lost``
        says how that has ended, and is the failure of what was not finished."""
        finished = state in (JobState.FINISHING, JobState.FINISHED)
        for key in self._states:
            self._move(key, SubtaskEvent.FINISH if finished else SubtaskEvent.RELEASE)
        self._is_resumed = True
        self._unopened.clear()
        self._holders.clear()
        self._unfit.update(self.workers)
        self.state, self.cause = state, cause
        return self.fail(lost, now) if self._may_be_cancelled else self._advance(now)

    def offer(self, worker_id: str, now: float) -> Commands:
        """A worker is there; it may be of use to an attempt that was resumed."""
        if not self._is_resumed or self.state is not JobState.FINISHING:
            return []
        if worker_id not in self._helpers:
            self._helpers.append(worker_id)
            self._unfit.discard(worker_id)
        return self._settle_sinks(now) if self._settler is None else []

    def start(self) -> Commands:
        """Tell every worker to open its subtasks."""
        self._become(JobEvent.DEPLOY)
        return [(worker, Deploy(self.job_id, self.attempt)) for worker in self.workers]

    def opened(self, worker_id: str) -> Commands:
        """A worker has opened all its subtasks."""
        self._unopened.discard(worker_id)
        if not self.state.takes(JobEvent.OPEN) or self._unopened:
            return []
        self._become(JobEvent.OPEN)
        for key in self._states:
            self._move(key, SubtaskEvent.RUN)
        return [(worker, Run(self.job_id, self.attempt)) for worker in self.workers]

    def finished(self, subtask: SubtaskKey, now: float) -> Commands:
        """A subtask has come to its end and its result has been taken in."""
        if not self._move(subtask, SubtaskEvent.FINISH):
            return []
        return self._advance(now)

    def failed(self, subtask: SubtaskKey, cause: FailureCause, now: float) -> Commands:
        """A subtask has failed."""
        if not self._move(subtask, SubtaskEvent.FAIL):
            return []
        return self._weigh(cause, now)

    def open_failed(self, worker_id: str, cause: FailureCause, now: float) -> Commands:
        """A worker could not open its subtasks; it will run none of them."""
        self._move_all_of(worker_id, SubtaskEvent.FAIL)
        return self._weigh(cause, now)

    def released(self, worker_id: str, now: float) -> Commands:
        """A worker holds nothing of this attempt any more, also after the end.

        RemoteProtocolError if it dropped subtasks that nobody asked it to cancel.
        """
        if self._may_be_cancelled and self._pending_of(worker_id):
            raise RemoteProtocolError(f"worker {worker_id} dropped subtasks nobody cancelled")
        self._holders.discard(worker_id)
        self._move_all_of(worker_id, SubtaskEvent.RELEASE)
        return self._advance(now)

    def settled(self, worker_id: str, cause: FailureCause | None, now: float) -> Commands:
        """The settler has committed or aborted, or could not because of ``cause``."""
        if worker_id != self._settler or self.state.is_terminal:
            return []
        if cause is None or self.state is not JobState.FINISHING:
            self._end()
            return []
        return self._fail_commit(cause, now)

    def worker_lost(self, cause: FailureCause, now: float) -> Commands:
        """A worker is lost, or it became known why it was."""
        self._holders.discard(cause.worker_id)
        self._unfit.add(cause.worker_id)
        if self._settler == cause.worker_id and not self.state.is_terminal:
            return self._settle_sinks(now, cause)
        if self._move_all_of(cause.worker_id, SubtaskEvent.FAIL) or self._waits_for_cause:
            return self._weigh(cause, now)
        return self._advance(now)

    def fail(self, cause: FailureCause, now: float) -> Commands:
        """Something has failed that concerns all of the job, the coordinator for one; nothing
        happens to a job that has ended or is ending."""
        if not self._may_be_cancelled:
            return []
        return self._weigh(cause, now)

    def cancel(self, now: float) -> Commands:
        """The user wants the job to stop."""
        if not self._may_be_cancelled:
            return []
        self._become(JobEvent.CANCEL)
        self.cause = None
        return self._cancel_pending(now)

    def tick(self, now: float) -> Commands:
        """Act on a deadline that has passed."""
        if self.deadline is None or now < self.deadline:
            return []
        if self._waits_for_cause:
            return self._settle(now)
        if self._settler is None:
            return self._settle_sinks(now)
        if self.state is not JobState.FINISHING:
            self._end()
            return []
        self._unfit.add(self._settler)
        return self._fail_commit(self._commit_timed_out(self._settler), now)

    @property
    def _waits_for_cause(self) -> bool:
        return self.cause is not None and self._may_be_cancelled

    @property
    def _may_be_cancelled(self) -> bool:
        """Subtasks are deployed or run, and nothing has decided yet how that ends."""
        return self.state.takes(JobEvent.CANCEL)

    def _weigh(self, cause: FailureCause, now: float) -> Commands:
        if not self._may_be_cancelled:
            return self._advance(now)
        if self.cause is None:
            self.deadline = now + self._cause_grace
        if self.cause is None or cause.gravity > self.cause.gravity:
            self.cause = cause
        return self._settle(now) if self.cause.gravity is Gravity.CAUSE else []

    def _settle(self, now: float) -> Commands:
        self._become(JobEvent.FAIL)
        return self._cancel_pending(now)

    def _cancel_pending(self, now: float) -> Commands:
        pending = {self._worker_of[key] for key, state in self._states.items() if state.is_pending}
        self.deadline = now + self._cancel_timeout
        cancels: Commands = [
            (worker, Cancel(self.job_id, self.attempt))
            for worker in self.workers
            if worker in pending
        ]
        return cancels + self._advance(now)

    def _pending_of(self, worker_id: str) -> list[SubtaskKey]:
        return [
            key
            for key, worker in self._worker_of.items()
            if worker == worker_id and self._states[key].is_pending
        ]

    def _move(self, subtask: SubtaskKey, event: SubtaskEvent) -> bool:
        """Whether the event still changed the subtask."""
        state = self._states[subtask]
        if not state.takes(event):
            return False
        self._states[subtask] = subtask_state.TRANSITIONS[state, event]
        return True

    def _move_all_of(self, worker_id: str, event: SubtaskEvent) -> bool:
        """Whether the event still changed any subtask of the worker."""
        pending = self._pending_of(worker_id)
        for subtask in pending:
            self._move(subtask, event)
        return bool(pending)

    def _advance(self, now: float) -> Commands:
        """Go on to the end as far as subtasks and workers let it."""
        if self._waits_for_cause or any(state.is_pending for state in self._states.values()):
            return []
        if self.state.takes(JobEvent.FINISH):
            self._become(JobEvent.FINISH)
            self.deadline = now + self._cancel_timeout
        if not self.state.is_ending or self._holders or self._settler is not None:
            return []
        return [] if self._awaits_offer else self._settle_sinks(now)

    @property
    def _awaits_offer(self) -> bool:
        """Its sinks are to be committed, and no worker is known that could do it."""
        commits = self.state is JobState.FINISHING and self._commit_timeout is not None
        return self._is_resumed and commits and not self._helpers

    def _settle_sinks(self, now: float, loss: FailureCause | None = None) -> Commands:
        """Have a worker commit or abort, another one after a ``loss``; end if there is no need."""
        fit = [worker for worker in self.workers if worker not in self._unfit]
        commit = self.state is JobState.FINISHING
        if self._commit_timeout is None or not (fit or commit):
            self._end()
            return []
        if not fit:
            return self._fail_commit(loss or self._nobody_commits(), now)
        self._settler = fit[0]
        self.deadline = now + self._commit_timeout
        return [(fit[0], Settle(self.job_id, self.attempt, commit))]

    def _fail_commit(self, cause: FailureCause, now: float) -> Commands:
        self.cause = cause
        self._become(JobEvent.FAIL)
        return self._settle_sinks(now)

    def _commit_timed_out(self, worker_id: str) -> FailureCause:
        return FailureCause(
            Gravity.CAUSE,
            worker_id,
            0,
            JobFailedError.__name__,
            f"committing the sinks took longer than {self._commit_timeout:g} s "
            "(cluster.commit_timeout_ms)",
        )

    def _nobody_commits(self) -> FailureCause:
        reason = "it was the last worker that could have committed the sinks"
        return FailureCause.of_lost_worker(self.workers[-1], 0, reason)

    def _end(self) -> None:
        self._become(JobEvent.END)
        self.deadline = None

    def _become(self, event: JobEvent) -> None:
        self.state = job_state.TRANSITIONS[self.state, event]
