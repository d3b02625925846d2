"""Causes of the waits in a job: skew, amplification, the network, or the task itself.

Blames (``wait_graph.py``) of one kind and one place become one finding: the subtasks of an
operator, the channels between two workers, or all that blocked one event loop. Such a finding
counts if some task has lost more than one refresh interval to it, and a larger share than Flink
calls OK. A spike shorter than a refresh interval is thus never a finding. If a task has waited for
so long in total, but a little for each of many places, the place with the largest loss counts. An
event loop that was blocked for longer, a garbage collector, and a silent worker are findings even
if no task waits for them.

No lost time counts twice. A task that blocks its own event loop is not named again as a slow
operator for the rest of the same waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from flinknet.diagnosis.comparison import Comparison
from flinknet.diagnosis.finding import (
    Culprit,
    Finding,
    FindingKind,
    LostTime,
    TaskName,
    Throughput,
)
from flinknet.diagnosis.pool_usage import OK_SHARE
from flinknet.diagnosis.reading import Readings, WorkerReading
from flinknet.diagnosis.sentences import Said, Sentences
from flinknet.diagnosis.topology import TaskKey, Topology
from flinknet.diagnosis.wait_graph import Blame, Blamed, WaitGraph

__all__ = ["AMPLIFICATION", "LOST_MAX", "Causes"]

AMPLIFICATION = 100.0
"""Minimum number of output records per input record for a finding of amplification.

From this factor on, the amplification is the cause, rather than the work of the operators behind.
"""

LOST_MAX = 100
"""Maximum number of tasks that a finding lists."""

NAMED_SHARE = 0.1
"""Minimum cost of a named subtask, as a share of the worst subtask's cost."""

_Lost: TypeAlias = Mapping[TaskKey, float]

_Operator: TypeAlias = tuple[FindingKind, int]
"""Kind of the problem, and the vertex."""

_Transit: TypeAlias = tuple[FindingKind, str, str]
"""Kind of the problem, and the sending and the receiving worker."""

_Place: TypeAlias = _Operator | _Transit | tuple[Blamed, str]
"""Key of the blames that become one finding."""


class Causes:
    """The causes of the waits of a job."""

    def __init__(self, topology: Topology, readings: Readings, graph: WaitGraph) -> None:
        self._topology = topology
        self._readings = readings
        self._graph = graph
        self._comparison = Comparison(topology, readings)
        self._say = Sentences(topology, readings, graph)

    def findings(self) -> list[Finding]:
        """Return the findings, the worst first."""
        return sorted(self._find(), key=lambda finding: -finding.severity)

    def _find(self) -> Iterator[Finding]:
        lost = self._graph.lost()
        operators: defaultdict[_Operator, defaultdict[TaskKey, list[_Lost]]]
        operators = defaultdict(lambda: defaultdict(list))
        transits: defaultdict[_Transit, dict[Blame, _Lost]] = defaultdict(dict)
        of_workers: defaultdict[tuple[Blamed, str], list[_Lost]] = defaultdict(list)
        for blame, by_task in lost.items():
            if blame.worker_id:
                of_workers[blame.kind, blame.worker_id].append(by_task)
                continue
            between = self._why_in_transit(blame) if blame.kind is Blamed.TRANSIT else None
            if between is not None:
                transits[between][blame] = by_task
                continue
            # A task that blocks its own event loop is not named as a slow operator as well.
            worker_id = self._holds_up_itself(blame.task)
            if worker_id is not None:
                of_workers[Blamed.LOOP, worker_id].append(by_task)
                continue
            kind, culprit = self._why_busy(blame.task)
            operators[kind, culprit[0]][culprit].append(by_task)
        places: dict[_Place, _Lost] = {}
        places |= {key: _together(one.values()) for key, one in transits.items()}
        places |= {key: _together(chain(*one.values())) for key, one in operators.items()}
        places |= {key: _together(one) for key, one in of_workers.items()}
        counted = self._counted(places)
        yield from self._of_workers(places, counted)
        for operator, blamed in operators.items():
            if operator in counted:
                of_each = {task: _together(parts) for task, parts in blamed.items()}
                yield self._operator(operator[0], of_each)
        for transit, blames in transits.items():
            if transit in counted:
                yield self._transit(transit[0], blames)

    def _counted(self, places: Mapping[_Place, _Lost]) -> set[_Place]:
        """Return the places that count as causes.

        These are the places to which a task has lost more than a spike and more than OK. If a task
        has lost this much only to all places together, the one with its largest loss counts.
        """
        counted = {place for place, lost in places.items() if self._counts(lost)}
        explained = {task for place in counted for task in places[place]}
        every = _together(places.values())
        for task, seconds in every.items():
            if task not in explained and self._counts({task: seconds}):
                counted.add(max(places, key=lambda place: places[place].get(task, 0.0)))
        return counted

    def _counts(self, lost: _Lost) -> bool:
        """Return whether a task's loss is more than a spike and more than OK."""
        return any(
            seconds > self._readings.refresh_s and self._share(task, seconds) > OK_SHARE
            for task, seconds in lost.items()
        )

    def _share(self, task: TaskKey, seconds: float) -> float:
        return self._readings.tasks[task].share(seconds)

    def _holds_up_itself(self, task: TaskKey) -> str | None:
        """Return the worker of a task that blocks its own event loop the most.

        Returns None for any other task, and if the event loop was not blocked for long.
        """
        reading = self._readings.tasks.get(task)
        worker = None if reading is None else self._readings.workers.get(reading.worker_id)
        if worker is None or not self._is_held_up(worker):
            return None
        worst = max(worker.held_up, key=lambda one: one.seconds)
        return worker.worker_id if worst.task == self._topology.task_name(task) else None

    def _why_busy(self, task: TaskKey) -> tuple[FindingKind, TaskKey]:
        """Return why a task was so busy, and which task is the culprit."""
        for waiter in self._graph.waiters(task):
            if self._comparison.factor(waiter) >= AMPLIFICATION:
                return FindingKind.AMPLIFICATION, waiter
        if not self._comparison.is_hot(task):
            return FindingKind.SLOW_OPERATOR, task
        exchanges = self._topology.inputs(task[0])
        if any(one.is_keyed for one in exchanges):
            return FindingKind.SKEW_BY_KEY, task
        if any(self._comparison.uneven_producers(one) for one in exchanges):
            return FindingKind.SKEW_BY_SOURCE, task
        return FindingKind.SLOW_OPERATOR, task

    def _why_in_transit(self, blame: Blame) -> tuple[FindingKind, str, str] | None:
        """Return the cause that keeps buffers from an idle task, and the workers at both ends.

        Returns None if only the task itself can be the cause, because it does not take the present
        data.
        """
        ends = blame.waiter, blame.task
        writer, reader = (self._readings.tasks[end].worker_id for end in ends)
        if any(self._comparison.starved_pools(end) for end in ends):
            return FindingKind.STARVED_POOL, writer, writer
        return None if writer == reader else (FindingKind.SLOW_LINK, writer, reader)

    # -- findings ---------------------------------------------------------------------------------

    def _operator(self, kind: FindingKind, blamed: Mapping[TaskKey, _Lost]) -> Finding:
        seconds = {task: sum(lost.values()) for task, lost in blamed.items()}
        least_s = NAMED_SHARE * max(seconds.values())
        tasks = sorted(
            (one for one in blamed if seconds[one] >= least_s), key=lambda t: -seconds[t]
        )
        key_groups: tuple[int, ...] = ()
        match kind:
            case FindingKind.AMPLIFICATION:
                said = self._say.amplifying(tasks)
            case FindingKind.SKEW_BY_KEY:
                key_groups = self._comparison.hot_key_groups(tasks)
                said = self._say.skewed_by_key(tasks, key_groups)
            case FindingKind.SKEW_BY_SOURCE:
                said = self._say.skewed_by_source(tasks)
            case _:
                said = self._say.slow(tasks)
        culprit = self._culprit(tasks)._replace(key_groups=key_groups)
        return self._finding(kind, said, culprit, _together(blamed.values()), tasks)

    def _transit(self, kind: FindingKind, blames: Mapping[Blame, _Lost]) -> Finding:
        worst = max(blames, key=lambda blame: sum(blames[blame].values()))
        ends = worst.waiter, worst.task
        if kind is FindingKind.STARVED_POOL:
            starved = [end for end in ends if self._comparison.starved_pools(end)]
            said, culprit = self._say.starved(*ends), self._culprit(starved[:1])
        else:
            workers = tuple(self._readings.tasks[end].worker_id for end in ends)
            said, culprit = self._say.slow_link(*ends), Culprit("", "", (), workers)
        return self._finding(kind, said, culprit, _together(blames.values()), [worst.task])

    def _of_workers(
        self, places: Mapping[_Place, _Lost], counted: Collection[_Place]
    ) -> Iterator[Finding]:
        for worker_id, worker in self._readings.workers.items():
            tasks = self._on_worker(worker_id)
            if worker.silent_s:
                silent = places.get((Blamed.SILENCE, worker_id), {})
                said = self._say.silent(worker_id, tasks)
                culprit = Culprit("", "", (), (worker_id,))
                finding = self._finding(FindingKind.SILENT_WORKER, said, culprit, silent, tasks)
                # No task on a silent worker makes progress.
                yield finding._replace(severity=1.0)
                continue
            loop, garbage = (Blamed.LOOP, worker_id), (Blamed.GARBAGE, worker_id)
            if loop in counted or self._is_held_up(worker):
                found = self._held_up(worker_id, places.get(loop, {}), tasks)
                yield self._at_least(found, worker.held_up_s, worker_id)
            if garbage in counted or self._is_much(worker.garbage.seconds, worker_id):
                said = self._say.collecting(worker_id, self._seconds(worker_id))
                begun = [one.subtask for one in worker.garbage.subtasks[:1]]
                named = [task for task in tasks if self._topology.task_name(task) in begun]
                culprit = self._culprit(named) if named else Culprit("", "", (), (worker_id,))
                kind = FindingKind.GARBAGE_COLLECTION
                found = self._finding(kind, said, culprit, places.get(garbage, {}), named)
                yield self._at_least(found, worker.garbage.seconds, worker_id)

    def _on_worker(self, worker_id: str) -> list[TaskKey]:
        readings = self._readings.tasks.items()
        return sorted(task for task, one in readings if one.worker_id == worker_id)

    def _seconds(self, worker_id: str) -> float:
        """Return how long the tasks of a worker were observed, in seconds."""
        tasks = self._on_worker(worker_id)
        return max((self._readings.tasks[task].seconds for task in tasks), default=0.0)

    def _is_held_up(self, worker: WorkerReading) -> bool:
        return self._is_much(worker.held_up_s, worker.worker_id)

    def _is_much(self, lost_s: float, worker_id: str) -> bool:
        """Return whether a worker has lost more than a spike and more than OK."""
        seconds = self._seconds(worker_id)
        return lost_s > self._readings.refresh_s and lost_s > OK_SHARE * seconds > 0

    def _at_least(self, finding: Finding, lost_s: float, worker_id: str) -> Finding:
        """Raise a finding's severity to the share of the worker's time that was lost."""
        share = min(1.0, lost_s / (self._seconds(worker_id) or lost_s))
        return finding._replace(severity=max(finding.severity, share))

    def _held_up(self, worker_id: str, lost: _Lost, tasks: Sequence[TaskKey]) -> Finding:
        worst = max(self._readings.workers[worker_id].held_up, key=lambda one: one.seconds)
        named = [task for task in tasks if self._topology.task_name(task) == worst.task]
        kind = FindingKind.BLOCKED_LOOP if worst.task else FindingKind.PAUSED_PROCESS
        culprit = self._culprit(named) if named else Culprit("", "", (), (worker_id,))
        return self._finding(kind, self._say.held_up(worker_id), culprit, lost, named)

    def _culprit(self, tasks: Sequence[TaskKey]) -> Culprit:
        vertex = self._topology.vertices[tasks[0][0]]
        names = tuple(TaskName.of(self._topology, task) for task in tasks)
        workers = {one.worker_id for one in self._comparison.read(tasks)}
        return Culprit(vertex.name, vertex.rest_id, names, tuple(sorted(workers)))

    def _finding(
        self, kind: FindingKind, said: Said, culprit: Culprit, lost: _Lost, of: Sequence[TaskKey]
    ) -> Finding:
        """Make a finding with the throughput of the tasks in ``of``."""
        order = sorted(lost, key=lambda task: -lost[task])
        times = tuple(self._lost_time(task, lost[task]) for task in order[:LOST_MAX])
        sentence, evidence = said
        return Finding(
            kind=kind,
            sentence=sentence,
            evidence=tuple(evidence),
            culprit=culprit,
            severity=max((one.share for one in times), default=0.0),
            lost=times,
            lost_s=sum(lost.values()),
            throughput=Throughput.of(self._comparison.read(of)),
        )

    def _lost_time(self, task: TaskKey, seconds: float) -> LostTime:
        reading = self._readings.tasks[task]
        name = TaskName.of(self._topology, task)
        share = self._share(task, seconds)
        return LostTime(name, seconds, share, reading.is_waiting, Throughput.of([reading]))


def _together(lost: Iterable[_Lost]) -> dict[TaskKey, float]:
    every: defaultdict[TaskKey, float] = defaultdict(float)
    for one in lost:
        for task, seconds in one.items():
            every[task] += seconds
    return dict(every)
