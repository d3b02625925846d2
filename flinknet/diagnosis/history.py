"""Recent reports of workers: differences of counters, and averages of other figures.

Reports contain counters that only increase, so the activity in a period is the difference of two
reports. The history keeps a few counters of the last ``REFRESHES`` intervals for each subtask, and
for each task that blocked an event loop. Of the latest report it keeps everything. Figures that are
no counters, such as the usage of pools, are averaged over the reports of the period.

Until there are enough reports, the period begins at the start of the subtask, with all counters at
0. A worker that is asked more often than it reports on its own does not shorten the period. The
history forgets a subtask or a worker that is no longer in any report.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple, TypeAlias, TypeVar

from flinknet.diagnosis.pool_usage import PoolUsage
from flinknet.diagnosis.reading import TaskReading
from flinknet.diagnosis.topology import TaskKey
from flinknet.metrics.garbage_totals import NO_GARBAGE, GarbageTotals
from flinknet.metrics.worker_statistics import HeldUp, SubtaskTotals, WorkerStatistics

__all__ = ["REFRESHES", "History"]

REFRESHES = 10
"""Number of report intervals that a diagnosis covers.

A spike shorter than one interval is then at most a tenth of the time, which Flink still calls OK.
"""

APART = 0.8
"""Share of an interval after which a report counts as the next one.

Reports may come a little early or late.
"""

Name: TypeAlias = tuple[str, int, int, int]
"""Job, attempt, vertex and index of a subtask."""


class _Counts(NamedTuple):
    at: float
    idle_ms: float
    busy_ms: float
    backpressured_ms: float
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    queues: tuple[tuple[int, int, int], ...]
    gate_bytes: tuple[int, ...]
    usage: PoolUsage | None


_NOTHING = _Counts(0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, (), (), None)
"""Counters of a new subtask."""


class _Process(NamedTuple):
    at: float
    held_up: Mapping[str, float]
    garbage: GarbageTotals


_UNBORN = _Process(0.0, {}, NO_GARBAGE)

T = TypeVar("T", _Counts, _Process)


class History:
    """The reports of one coordinator's workers; ``now`` is a time in seconds."""

    def __init__(self, refresh_s: float) -> None:
        self.refresh_s = refresh_s
        self._counts: defaultdict[Name, deque[_Counts]] = defaultdict(_kept)
        self._latest: dict[Name, tuple[str, SubtaskTotals]] = {}
        self._of_worker: dict[str, set[Name]] = {}
        self._processes: dict[str, deque[_Process]] = {}
        self._stacks: dict[str, tuple[HeldUp, ...]] = {}

    def take(self, worker_id: str, statistics: WorkerStatistics, now: float) -> None:
        """Record a report of a worker."""
        names = set()
        for task in statistics.subtasks:
            name = task.job_id, task.attempt, task.vertex, task.subtask_index
            names.add(name)
            self._latest[name] = worker_id, task
            self._append(self._counts[name], _counts(task, now))
        for gone in self._of_worker.get(worker_id, set()) - names:
            self._drop(gone)
        self._of_worker[worker_id] = names
        held_up = {one.task: one.seconds for one in statistics.held_up}
        kept = self._processes.setdefault(worker_id, deque(maxlen=REFRESHES + 1))
        self._append(kept, _Process(now, held_up, statistics.garbage))
        self._stacks[worker_id] = statistics.held_up

    def forget(self, worker_id: str) -> None:
        """Forget a lost worker."""
        for name in self._of_worker.pop(worker_id, set()):
            self._drop(name)
        self._processes.pop(worker_id, None)
        self._stacks.pop(worker_id, None)

    def tasks(
        self, job_id: str, attempt: int, refreshes: int = REFRESHES
    ) -> dict[TaskKey, TaskReading]:
        """Return the reported subtasks of an attempt, over a number of intervals."""
        return {
            (vertex, index): _reading(self._counts[name], *self._latest[name], refreshes)
            for name in self._latest
            for of_job, of_attempt, vertex, index in [name]
            if (of_job, of_attempt) == (job_id, attempt)
        }

    def held_up(self, worker_id: str, seconds: float) -> tuple[HeldUp, ...]:
        """Return the tasks that blocked a worker's event loop, up to its latest report.

        The period has ``seconds``. Time that tasks with the same names blocked before it, such as
        those of an earlier attempt, does not count.
        """
        kept = self._processes.get(worker_id)
        if kept is None:
            return ()
        before = _last_before(kept, kept[-1].at - seconds).held_up
        grown = [
            one._replace(seconds=min(seconds, one.seconds - before.get(one.task, 0.0)))
            for one in self._stacks[worker_id]
        ]
        return tuple(one for one in grown if one.seconds > 0)

    def garbage(self, worker_id: str, seconds: float) -> GarbageTotals:
        """Return the activity of a worker's garbage collector in the same period."""
        kept = self._processes.get(worker_id)
        if kept is None:
            return NO_GARBAGE
        return kept[-1].garbage.since(_last_before(kept, kept[-1].at - seconds).garbage)

    def _append(self, kept: deque[T], taken: T) -> None:
        """Append a record, or replace the last one.

        The last record is replaced if it is too close to the one before it to count as an interval.
        """
        if len(kept) > 1 and kept[-1].at - kept[-2].at < APART * self.refresh_s:
            kept.pop()
        kept.append(taken)

    def _drop(self, name: Name) -> None:
        self._counts.pop(name, None)
        self._latest.pop(name, None)


def _kept() -> deque[_Counts]:
    return deque(maxlen=REFRESHES + 1)


def _last_before(kept: deque[_Process], start: float) -> _Process:
    """Return the last record up to ``start``.

    Without one, return the oldest record if more than ``REFRESHES`` are kept, otherwise an empty
    record.
    """
    earlier = [one for one in kept if one.at <= start]
    if earlier:
        return earlier[-1]
    return kept[0] if len(kept) > REFRESHES else _UNBORN


def _counts(task: SubtaskTotals, now: float) -> _Counts:
    moved, times = task.io_metrics, task.times
    return _Counts(
        now,
        times.accumulated_idle_time_ms,
        times.accumulated_busy_time_ms,
        times.accumulated_backpressured_time_ms,
        moved.records_in,
        moved.records_out,
        moved.bytes_in,
        moved.bytes_out,
        tuple(
            (place, row.subpartition, row.queued_buffers)
            for place, partition in enumerate(task.partitions)
            for row in partition.longest_queues
        ),
        tuple(gate.bytes_in_local + gate.bytes_in_remote for gate in task.gates),
        PoolUsage.of(task),
    )


def _reading(
    kept: deque[_Counts], worker_id: str, latest: SubtaskTotals, refreshes: int
) -> TaskReading:
    # With too few reports, the period begins at the start of the subtask, with all counters at 0.
    first, last = kept[-1 - refreshes] if len(kept) > refreshes else _NOTHING, kept[-1]
    idle_s = (last.idle_ms - first.idle_ms) / 1000
    busy_s = max(0.0, last.busy_ms - first.busy_ms) / 1000
    backpressured_s = (last.backpressured_ms - first.backpressured_ms) / 1000
    seconds = idle_s + busy_s + backpressured_s
    usages = [one.usage for one in list(kept)[-refreshes:] if one.usage is not None]
    return TaskReading(
        worker_id=worker_id,
        idle_s=idle_s,
        busy_s=busy_s,
        backpressured_s=backpressured_s,
        records_in=last.records_in - first.records_in,
        records_out=last.records_out - first.records_out,
        bytes_in=last.bytes_in - first.bytes_in,
        bytes_out=last.bytes_out - first.bytes_out,
        queues=_average(kept),
        usage=PoolUsage.average(usages, backpressured_s / seconds if seconds else 0.0),
        latest=latest,
        gate_bytes=tuple(
            after - before
            for after, before in zip_longest(last.gate_bytes, first.gate_bytes, fillvalue=0)
        ),
    )


def _average(kept: Iterable[_Counts]) -> dict[tuple[int, int], float]:
    sums: Counter[tuple[int, int]] = Counter()
    readings = 0
    for one in kept:
        readings += 1
        for place, subpartition, queued in one.queues:
            sums[place, subpartition] += queued
    return {which: total / readings for which, total in sums.items()}
