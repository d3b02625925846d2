"""State machine of one job attempt, without I/O and without a clock.

Theory of operation
-------------------
The states are defined in ``control/job_state.py`` and ``control/subtask_state.py``::

    CREATED -> DEPLOYING -> RUNNING -> FINISHING --> FINISHED
       |           |           |           |
       +-----------+-----------+-----------+> FAILING ----> FAILED      (a cause was settled)
       +-----------+-----------+-----> CANCELLING -> CANCELED    (the user asked)

- CREATED: the subtasks are placed, or NOWHERE while the job waits for slots. DEPLOYING: every
  worker was told to open its subtasks. RUNNING: all have opened them.
- A subtask is *pending* until it has finished or failed, or its worker has released the attempt or
  is lost. A worker *holds* its slots until it has released the attempt or is lost.
- An attempt in FINISHING (all subtasks have finished), FAILING or CANCELLING ends when no subtask
  is pending and no worker holds slots. A user function that never returns can keep both for ever,
  so the attempt ends after the cancel timeout in any case. ``holders`` then names the workers.
- Before the end, one worker commits the output that two-phase sinks have prepared, or aborts it
  unless the job has finished. If this *settler* is lost, another worker gets the same order. A
  failed commit fails the job. An abort that fails, or for which no worker is left, changes nothing.
- Every method returns messages to send, as (worker id, message). ``deadline`` says when to call
  ``tick``. An input that comes too late, after the end or for a subtask that is done, is ignored.
- An attempt runs all pipelined regions of the job together. Failed regions may be *given up* while
  the others go on (``region_failover.py``): only their subtasks are cancelled. Once these are
  released, the dispatcher has them redeployed under a new number. Messages under the old number are
  late. If they are not released within the cancel timeout, the whole attempt fails.

Flink: ExecutionGraph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from flinknet.cluster.control import job_state, subtask_state
from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.job_state import JobEvent, JobState
from flinknet.cluster.control.messages import Cancel, Deploy, Message, Run, Settle
from flinknet.cluster.control.subtask_state import SubtaskEvent, SubtaskState
from flinknet.cluster.coordinator.jobs.pipelined_region import PipelinedRegion
from flinknet.cluster.coordinator.jobs.region_failover import RegionFailover
from flinknet.errors import JobFailedError, RemoteProtocolError

__all__ = ["NOWHERE", "Commands", "JobExecution", "Part", "SubtaskKey"]

SubtaskKey: TypeAlias = tuple[int, int]
"""(vertex, index)"""

Part: TypeAlias = tuple[str, int]
"""(worker id, number under which the worker has subtasks of the job)"""

NOWHERE = ""
"""The worker id of subtasks that are not placed, while the job waits for slots."""

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
        by_region: bool = False,
    ) -> None:
        """Place the subtasks of the regions according to ``assignment``, by worker.

        Without ``commit_timeout_s`` there is nothing to commit. ``by_region`` allows regions to be
        given up and redeployed alone.
        """
        assert any(assignment.values()), "a job has at least one subtask"
        self.job_id = job_id
        self.attempt = attempt
        self.regions = {region.name: region for region in regions}
        """The pipelined regions of the job, by name."""
        self.failover = RegionFailover(regions, enabled=by_region)
        self.state = JobState.CREATED
        self.cause: FailureCause | None = None
        self._deadline: float | None = None
        self._cause_grace = cause_grace_s
        self._cancel_timeout = cancel_timeout_s
        self._worker_of = {key: worker for worker, keys in assignment.items() for key in keys}
        self._numbers = dict.fromkeys(self._worker_of, attempt)
        self._by_part: dict[Part, list[SubtaskKey]]
        """The subtasks of each part: an index of the two mappings above."""
        self._index_parts()
        self._states = dict.fromkeys(self._worker_of, SubtaskState.DEPLOYING)
        self._counts = Counter(self._states.values())
        """Number of subtasks in each state, so that the end of one costs no look at the others."""
        self._failed: set[SubtaskKey] = set()
        """Subtasks that have failed since regions were last given up."""
        self._unopened: set[Part] = {
            (worker, attempt) for worker, keys in assignment.items() if keys and worker != NOWHERE
        }
        self._holders: set[Part] = set(self._unopened)
        """Parts that occupy slots."""
        self._commit_timeout = commit_timeout_s
        self._settler: str | None = None
        """The worker that was ordered to commit or abort."""
        self._unfit: set[str] = set()
        """Workers that cannot become the settler, such as lost ones."""
        self._is_resumed = False
        self._helpers: list[str] = []
        """Workers that offered themselves after the attempt was resumed."""

    @property
    def workers(self) -> tuple[str, ...]:
        """The workers that take part in this attempt."""
        placed = [worker for worker, _ in self._by_part if worker != NOWHERE]
        return tuple(dict.fromkeys([*placed, *self._helpers]))

    @property
    def holders(self) -> tuple[str, ...]:
        """The workers that still occupy slots: neither released nor lost."""
        holders = {worker for worker, _ in self._holders}
        return tuple(worker for worker in self.workers if worker in holders)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All (worker id, number) pairs with subtasks of the attempt."""
        return tuple(self._by_part)

    @property
    def deadline(self) -> float | None:
        """Time at which ``tick`` must be called at the latest; None for no deadline."""
        times = [at for at in (self._deadline, self.failover.deadline) if at is not None]
        return min(times, default=None)

    @property
    def all_run(self) -> bool:
        """Whether every subtask runs or has finished."""
        runs = self.state is JobState.RUNNING and not self.failover.given_up
        return runs and not self._counts[SubtaskState.DEPLOYING]

    @property
    def is_ending(self) -> bool:
        """Whether no more subtasks are deployed and the attempt ends within the timeouts."""
        return self.state.is_ending or self._waits_for_cause

    def subtask_states(self) -> dict[SubtaskKey, SubtaskState]:
        """Return the current state of every subtask."""
        return dict(self._states)

    def region_states(self) -> dict[str, dict[str, int]]:
        """Return the number of subtasks in each state, per region."""
        return {
            name: Counter(self._states[subtask].value for subtask in sorted(region.subtasks))
            for name, region in self.regions.items()
        }

    def runs_on(self, worker_id: str) -> bool:
        """Return whether the worker has a subtask that has not ended."""
        return any(self._states[key].is_pending for key in self._subtasks_of(worker_id))

    def is_settled_by(self, worker_id: str) -> bool:
        """Return whether the worker commits or aborts the prepared output of the sinks."""
        return self._settler == worker_id and not self.state.is_terminal

    def worker_of(self, subtask: SubtaskKey) -> str:
        """Return the worker on which a subtask was deployed.

        Raises RemoteProtocolError if the job has no such subtask.
        """
        if subtask not in self._worker_of:
            raise RemoteProtocolError(f"job {self.job_id} has no subtask {subtask}")
        return self._worker_of[subtask]

    def number_of(self, subtask: SubtaskKey) -> int:
        """Return the number under which a subtask was last deployed.

        It is the number of the attempt, or that of a restart of the subtask's region. Raises
        RemoteProtocolError if the job has no such subtask.
        """
        self.worker_of(subtask)
        return self._numbers[subtask]

    def held_subtasks(self) -> dict[Part, list[SubtaskKey]]:
        """Return the subtasks that occupy slots, by worker and number."""
        held: dict[Part, list[SubtaskKey]] = {part: [] for part in sorted(self._holders)}
        for key, worker in self._worker_of.items():
            part = worker, self._numbers[key]
            if part in held and not self.failover.has_let_go(key):
                held[part].append(key)
        return held

    def resume(
        self, state: JobState, cause: FailureCause | None, lost: FailureCause, now: float
    ) -> Commands:
        """Continue from the state that the previous coordinator reached; call instead of ``start``.

        No worker runs or holds anything of the attempt any more. An attempt that was FINISHING
        still is: the first worker that offers itself commits its sinks. An attempt that was still
        deploying or running fails with ``lost``, which describes the end of the previous
        coordinator.
        """
        finished = state in (JobState.FINISHING, JobState.FINISHED)
        for key in self._states:
            self._move(key, SubtaskEvent.FINISH if finished else SubtaskEvent.RELEASE)
        self._is_resumed = True
        self._unopened.clear()
        self._holders.clear()
        # Workers of the former attempt are unfit until they offer themselves (``offer``).
        self._unfit.update(self.workers)
        self.state, self.cause = state, cause
        return self.fail(lost, now) if self._may_be_cancelled else self._advance(now)

    def offer(self, worker_id: str, now: float) -> Commands:
        """Offer a worker to a resumed attempt, which may need it to commit sinks."""
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

    def redeploy(
        self,
        regions: frozenset[str],
        number: int,
        assignment: Mapping[str, Sequence[SubtaskKey]],
    ) -> Commands:
        """Open regions again that were given up and released, under a new number."""
        self.failover.redeployed(regions)
        for worker, keys in assignment.items():
            for key in keys:
                self._worker_of[key], self._numbers[key] = worker, number
                self._set_state(key, SubtaskState.DEPLOYING)
            self._unopened.add((worker, number))
            self._holders.add((worker, number))
        self._index_parts()
        return [(worker, Deploy(self.job_id, number)) for worker in assignment]

    def opened(self, worker_id: str, number: int) -> Commands:
        """Note that a worker has opened all its subtasks."""
        part = worker_id, number
        if part not in self._unopened or self.state not in (JobState.DEPLOYING, JobState.RUNNING):
            return []
        self._unopened.discard(part)
        # All parts with one number start together, when the last of them is open.
        if any(other == number for _, other in self._unopened):
            return []
        if self.state.takes(JobEvent.OPEN):
            self._become(JobEvent.OPEN)
        for key in self._subtasks_of(number=number):
            self._move(key, SubtaskEvent.RUN)
        return [
            (worker, Run(self.job_id, number)) for worker, other in self.parts if other == number
        ]

    def finished(self, subtask: SubtaskKey, now: float) -> Commands:
        """Note that a subtask has finished and its result has been taken."""
        if not self._move(subtask, SubtaskEvent.FINISH):
            return []
        return self._advance(now)

    def failed(self, subtask: SubtaskKey, cause: FailureCause, now: float) -> Commands:
        """Note that a subtask has failed."""
        if not self._move(subtask, SubtaskEvent.FAIL):
            return []
        return self._advance(now) if self.failover.is_given_up(subtask) else self._weigh(cause, now)

    def open_failed(self, worker_id: str, number: int, cause: FailureCause, now: float) -> Commands:
        """Note that a worker could not open its subtasks, and will run none of them."""
        mine = self._by_part.get((worker_id, number), [])
        self._move_all(mine, SubtaskEvent.FAIL)
        if all(map(self.failover.is_given_up, mine)):
            return self._advance(now)
        return self._weigh(cause, now)

    def released(
        self, worker_id: str, number: int, subtasks: Sequence[SubtaskKey], now: float
    ) -> Commands:
        """Note that a worker has released the attempt, or only these ``subtasks`` of it.

        Also valid after the end of the attempt. Raises RemoteProtocolError if the worker dropped
        subtasks that it was not told to cancel.
        """
        mine = self._by_part.get((worker_id, number), [])
        if subtasks:
            asked = set(subtasks)
            mine = [key for key in mine if key in asked]
        else:
            self._holders.discard((worker_id, number))
        if self._may_be_cancelled and any(map(self._runs_unasked, mine)):
            raise RemoteProtocolError(
                f"worker {worker_id} released subtasks that were not cancelled"
            )
        self._move_all(mine, SubtaskEvent.RELEASE)
        self.failover.released(mine)
        return self._advance(now)

    def settled(self, worker_id: str, cause: FailureCause | None, now: float) -> Commands:
        """Note that the settler has committed or aborted, or could not because of ``cause``."""
        if worker_id != self._settler or self.state.is_terminal:
            return []
        if cause is None or self.state is not JobState.FINISHING:
            self._end()
            return []
        return self._fail_commit(cause, now)

    def worker_lost(self, cause: FailureCause, now: float) -> Commands:
        """Handle the loss of a worker, or a better explanation of that loss."""
        self._holders = {part for part in self._holders if part[0] != cause.worker_id}
        self._unfit.add(cause.worker_id)
        if self._settler == cause.worker_id and not self.state.is_terminal:
            return self._settle_sinks(now, cause)
        mine = self._subtasks_of(cause.worker_id)
        # The loss of a worker without pending subtasks is no failure: its output has been
        # acknowledged.
        news = self._move_all(mine, SubtaskEvent.FAIL)
        self.failover.released(mine)
        if news or self._waits_for_cause:
            return self._weigh(cause, now)
        return self._advance(now)

    def fail(self, cause: FailureCause, now: float) -> Commands:
        """Handle a failure of the whole job, such as the end of the coordinator.

        Does nothing if the job has ended or is ending.
        """
        if not self._may_be_cancelled:
            return []
        # The cause concerns every region.
        self.failover.enabled = False
        return self._weigh(cause, now)

    def cancel(self, now: float) -> Commands:
        """Cancel the attempt at the user's request."""
        if not self._may_be_cancelled:
            return []
        self._become(JobEvent.CANCEL)
        # A failure that still waits for a better cause does not count any more.
        self.cause = None
        return self._cancel_pending(now)

    def tick(self, now: float) -> Commands:
        """Act on a deadline that has passed."""
        if self.failover.deadline is not None and now >= self.failover.deadline:
            self.cause = self.failover.cause
            return self._fail_all(now)
        if self._deadline is None or now < self._deadline:
            return []
        if self._waits_for_cause:
            return self._settle(now)
        if self._settler is None:
            # The cancel timeout has passed: subtasks that still run are not waited for.
            return self._settle_sinks(now)
        if self.state is not JobState.FINISHING:
            # An abort that takes too long changes nothing.
            self._end()
            return []
        self._unfit.add(self._settler)
        return self._fail_commit(self._commit_timed_out(self._settler), now)

    @property
    def _waits_for_cause(self) -> bool:
        return self.cause is not None and self._may_be_cancelled

    @property
    def _may_be_cancelled(self) -> bool:
        """Whether subtasks are deployed or running, and no end of the attempt has been decided."""
        return self.state.takes(JobEvent.CANCEL)

    def _weigh(self, cause: FailureCause, now: float) -> Commands:
        if not self._may_be_cancelled:
            return self._advance(now)
        # A CAUSE is settled at once. A lighter failure waits for a heavier one until the cause
        # grace ends (``failure.py`` explains why). Nothing is cancelled in the meantime, because
        # cancelling could silence the subtask that knows the origin. A settled cause never changes.
        if self.cause is None:
            self._deadline = now + self._cause_grace
        if self.cause is None or cause.rank > self.cause.rank:
            self.cause = cause
        return self._settle(now) if self.cause.rank is CauseRank.CAUSE else []

    def _settle(self, now: float) -> Commands:
        assert self.cause is not None, "it is settled now"
        # Until all workers have opened their subtasks, a failure concerns the whole attempt.
        regions = self._broken() if self.state is JobState.RUNNING else frozenset()
        if not self.failover.concerns_some(regions):
            return self._fail_all(now)
        held = [key for key in self.failover.subtasks_of(regions) if self._is_held(key)]
        self.failover.give_up(regions, held, self.cause, now, now + self._cancel_timeout)
        self._failed.clear()
        self.cause = self._deadline = None
        return [*self._cancels_of(held), *self._advance(now)]

    def _fail_all(self, now: float) -> Commands:
        self._become(JobEvent.FAIL)
        return self._cancel_pending(now)

    def _broken(self) -> frozenset[str]:
        """Return the regions that cannot go on.

        Subtasks that were deployed together start together. Until all of them are open, the failure
        of one affects the regions of all.
        """
        regions = self.failover.regions_of(self._failed)
        unopened = {number for _, number in self._unopened}
        for number in unopened & {self._numbers[key] for key in self._failed}:
            regions |= self.failover.regions_of(self._subtasks_of(number=number))
            self._unopened = {part for part in self._unopened if part[1] != number}
        return regions

    def _is_held(self, key: SubtaskKey) -> bool:
        return (self._worker_of[key], self._numbers[key]) in self._holders

    def _cancels_of(self, subtasks: Sequence[SubtaskKey]) -> Commands:
        """Return orders to cancel subtasks, or a whole part if no other subtask is in it."""
        by_part: dict[Part, list[SubtaskKey]] = {}
        for key in subtasks:
            by_part.setdefault((self._worker_of[key], self._numbers[key]), []).append(key)
        cancels: Commands = []
        for (worker, number), keys in by_part.items():
            is_all = len(keys) == len(self._by_part[worker, number])
            rows = [] if is_all else [list(key) for key in keys]
            cancels.append((worker, Cancel(self.job_id, number, rows)))
        return cancels

    def _cancel_pending(self, now: float) -> Commands:
        self.failover.end()
        self._deadline = now + self._cancel_timeout
        # No worker reports the release of subtasks that were never placed.
        self._move_all(self._subtasks_of(NOWHERE), SubtaskEvent.RELEASE)
        cancels: Commands = [
            (worker, Cancel(self.job_id, number))
            for (worker, number), keys in self._by_part.items()
            if any(self._states[key].is_pending for key in keys)
        ]
        return cancels + self._advance(now)

    def _subtasks_of(
        self, worker_id: str | None = None, number: int | None = None
    ) -> list[SubtaskKey]:
        """Return the subtasks on a worker, or under a number, or both."""
        return [
            key
            for (worker, other), keys in self._by_part.items()
            if worker_id in (None, worker) and number in (None, other)
            for key in keys
        ]

    def _index_parts(self) -> None:
        self._by_part = {}
        for key, worker in self._worker_of.items():
            self._by_part.setdefault((worker, self._numbers[key]), []).append(key)

    def _runs_unasked(self, key: SubtaskKey) -> bool:
        return self._states[key].is_pending and not self.failover.is_given_up(key)

    def _move(self, subtask: SubtaskKey, event: SubtaskEvent) -> bool:
        """Apply an event to a subtask; return whether it changed the state."""
        state = self._states[subtask]
        if not state.takes(event):
            return False
        self._set_state(subtask, subtask_state.TRANSITIONS[state, event])
        return True

    def _set_state(self, subtask: SubtaskKey, state: SubtaskState) -> None:
        self._counts[self._states[subtask]] -= 1
        self._counts[state] += 1
        self._states[subtask] = state
        if state is SubtaskState.FAILED:
            self._failed.add(subtask)
        else:
            self._failed.discard(subtask)

    def _move_all(self, subtasks: Sequence[SubtaskKey], event: SubtaskEvent) -> bool:
        """Apply an event; return whether it changed a subtask that was not given up."""
        news = [key for key in subtasks if self._move(key, event)]
        return not all(map(self.failover.is_given_up, news))

    def _advance(self, now: float) -> Commands:
        """Proceed towards the end as far as subtasks and workers allow."""
        if self._waits_for_cause or self.failover.given_up:
            return []
        if any(count and state.is_pending for state, count in self._counts.items()):
            return []
        if self.state.takes(JobEvent.FINISH):
            self._become(JobEvent.FINISH)
            self._deadline = now + self._cancel_timeout
        if not self.state.is_ending or self._holders or self._settler is not None:
            return []
        return [] if self._awaits_offer else self._settle_sinks(now)

    @property
    def _awaits_offer(self) -> bool:
        """Whether sinks are to be committed, but no worker has offered itself yet."""
        commits = self.state is JobState.FINISHING and self._commit_timeout is not None
        return self._is_resumed and commits and not self._helpers

    def _settle_sinks(self, now: float, loss: FailureCause | None = None) -> Commands:
        """Order a worker to commit or abort, or end the attempt if there is nothing to do.

        After the ``loss`` of the settler, another worker gets the order.
        """
        fit = [worker for worker in self.workers if worker not in self._unfit]
        commit = self.state is JobState.FINISHING
        if self._commit_timeout is None or not (fit or commit):
            self._end()
            return []
        if not fit:
            return self._fail_commit(loss or self._nobody_commits(), now)
        self._settler = fit[0]
        self._deadline = now + self._commit_timeout
        return [(fit[0], Settle(self.job_id, self.attempt, commit))]

    def _fail_commit(self, cause: FailureCause, now: float) -> Commands:
        self.cause = cause
        self._become(JobEvent.FAIL)
        return self._settle_sinks(now)

    def _commit_timed_out(self, worker_id: str) -> FailureCause:
        return FailureCause(
            CauseRank.CAUSE,
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
        self._deadline = None

    def _become(self, event: JobEvent) -> None:
        self.state = job_state.TRANSITIONS[self.state, event]
