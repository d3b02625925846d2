"""Why the one who is to blame holds others up: skew, amplification, the network, or itself.

Theory of operation. Blames (``wait_graph.py``) of one kind and one place become one finding: those
of the subtasks of an operator, of the channels between two workers, of what held up one loop. A
blame counts if some task has lost more than one refresh to it, and more than Flink calls OK: so a
spike that is shorter than a refresh never does. A loop that was held up for longer, and a worker
that says nothing, are findings whoever waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

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
from flinknet.diagnosis.reading import Readings
from flinknet.diagnosis.sentences import Said, Sentences
from flinknet.diagnosis.topology import TaskKey, Topology
from flinknet.diagnosis.wait_graph import Blame, Blamed, WaitGraph

__all__ = ["AMPLIFICATION", "LOST_MAX", "Causes"]

AMPLIFICATION = 100.0
"""Records that an operator makes of each one from which on that is the news, and not that those
behind it have much to do."""

LOST_MAX = 100
"""Tasks that a finding lists."""

_Lost = Mapping[TaskKey, float]


class Causes:
    """What is to blame for the waits of a job."""

    def __init__(self, topology: Topology, readings: Readings, graph: WaitGraph) -> None:
        self._topology = topology
        self._readings = readings
        self._graph = graph
        self._comparison = Comparison(topology, readings)
        self._say = Sentences(topology, readings, graph)

    def findings(self) -> list[Finding]:
        """The worst first."""
        return sorted(self._find(), key=lambda finding: -finding.severity)

    def _find(self) -> Iterator[Finding]:
        operators: defaultdict[tuple[FindingKind, int], dict[TaskKey, list[_Lost]]]
        operators = defaultdict(lambda: defaultdict(list))
        transits: defaultdict[tuple[FindingKind, str, str], dict[Blame, _Lost]]
        transits = defaultdict(dict)
        of_workers: dict[tuple[Blamed, str], _Lost] = {}
        for blame, lost in self._graph.lost().items():
            if blame.worker_id:
                of_workers[blame.kind, blame.worker_id] = lost
            elif self._counts(lost):
                between = self._why_in_transit(blame) if blame.kind is Blamed.TRANSIT else None
                if between is not None:
                    transits[between][blame] = lost
                else:
                    kind, culprit = self._why_busy(blame.task)
                    operators[kind, culprit[0]][culprit].append(lost)
        yield from self._of_workers(of_workers)
        for (kind, _), blamed in operators.items():
            yield self._operator(kind, {task: _together(lost) for task, lost in blamed.items()})
        for (kind, *_), blames in transits.items():
            yield self._transit(kind, blames)

    def _counts(self, lost: _Lost) -> bool:
        """Whether that is more than a spike, and not OK."""
        return any(
            seconds > self._readings.refresh_s and self._share(task, seconds) > OK_SHARE
            for task, seconds in lost.items()
        )

    def _share(self, task: TaskKey, seconds: float) -> float:
        return self._readings.tasks[task].share(seconds)

    def _why_busy(self, task: TaskKey) -> tuple[FindingKind, TaskKey]:
        """What has given a task so much to do, and who is the culprit then."""
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
        """What keeps buffers from an idle task, and between which workers; None if that can only be
        the task, which does not take what is there."""
        ends = blame.waiter, blame.task
        writer, reader = (self._readings.tasks[end].worker_id for end in ends)
        if any(self._comparison.starved_pools(end) for end in ends):
            return FindingKind.STARVED_POOL, writer, writer
        return None if writer == reader else (FindingKind.SLOW_LINK, writer, reader)

    # -- findings ---------------------------------------------------------------------------------

    def _operator(self, kind: FindingKind, blamed: Mapping[TaskKey, _Lost]) -> Finding:
        tasks = sorted(blamed, key=lambda task: -sum(blamed[task].values()))
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

    def _of_workers(self, lost: Mapping[tuple[Blamed, str], _Lost]) -> Iterator[Finding]:
        for worker_id, worker in self._readings.workers.items():
            tasks = sorted(
                task for task, one in self._readings.tasks.items() if one.worker_id == worker_id
            )
            if worker.silent_s:
                silent = lost.get((Blamed.SILENCE, worker_id), {})
                said = self._say.silent(worker_id, tasks)
                culprit = Culprit("", "", (), (worker_id,))
                finding = self._finding(FindingKind.SILENT_WORKER, said, culprit, silent, tasks)
                yield finding._replace(severity=1.0)
                continue
            held_up = lost.get((Blamed.LOOP, worker_id), {})
            seconds = max(self._readings.tasks[task].seconds for task in tasks) if tasks else 0.0
            share = worker.held_up_s / seconds if seconds else 0.0
            if self._counts(held_up) or (
                worker.held_up_s > self._readings.refresh_s and share > OK_SHARE
            ):
                finding = self._held_up(worker_id, held_up, tasks)
                yield finding._replace(severity=max(finding.severity, min(1.0, share)))

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
        """``of`` whom the throughput is told."""
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
