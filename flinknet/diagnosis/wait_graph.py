"""The wait-for graph of a job's tasks, and the blame for each wait.

A backpressured task waits for a buffer of one of its result partitions. These buffers are held by
subpartitions that their consumers do not read. A waiting task therefore has edges to the consumers
that hold its buffers, each with a part of the waited seconds. A consumer has spent this time in one
of these ways:

- its worker is silent: the worker is to blame;
- its worker's event loop was blocked: the task that blocked it is to blame;
- its worker collected garbage for more than a little of the time: the collector is to blame;
- it was busy: the consumer itself is to blame;
- it was backpressured: the blame moves on along its own edges;
- it was idle, so it had not received the waiting data: the transit between the two is to blame.
  Transit gets only the rest of the wait after the other causes, because a task may also be idle
  while no task waits for it. If this rest is most of the wait, transit gets all of it, because a
  task that was idle through most of a wait does all its available work.

A task that is both busy and backpressured takes its share and passes the rest on, so there may be
several culprits. Exchanges form no cycle, so every chain ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from flinknet.diagnosis.pool_usage import OK_SHARE, PoolUsage
from flinknet.diagnosis.reading import Readings, TaskReading, WorkerReading
from flinknet.diagnosis.topology import Exchange, TaskKey, Topology

__all__ = ["Blame", "Blamed", "Wait", "WaitGraph"]

NOTICED = 0.02
"""Minimum share of its time that a task has waited, for its waits to be examined."""

HOLDS_MUCH = 0.1
"""Minimum share of the fullest subpartition's buffers for another to count as a cause."""


class Wait(NamedTuple):
    """An edge: the time for which one task has waited for another to read its output."""

    waiter: TaskKey
    waited_for: TaskKey
    seconds: float
    """Part of the waiter's lost time that belongs to this edge."""
    is_ongoing: bool
    buffers: float
    """Average number of buffers that the consumer's subpartitions hold."""


class Blamed(Enum):
    """The kind of culprit."""

    OPERATOR = "a task that was busy"
    TRANSIT = "the exchange between a task and the idle task that reads its output"
    LOOP = "a blocked event loop"
    GARBAGE = "a worker's garbage collector"
    SILENCE = "a worker that does not report"


class Blame(NamedTuple):
    """The culprit of a wait."""

    kind: Blamed
    task: TaskKey = (-1, -1)
    """The busy or idle task; unset for a worker."""
    waiter: TaskKey = (-1, -1)
    """The task that waited for the idle one."""
    worker_id: str = ""
    """The silent worker, or the worker of the event loop or collector; empty for tasks."""


_Shares: TypeAlias = Mapping[Blame, float]


class WaitGraph:
    """All waits of a job, with their culprits."""

    def __init__(self, topology: Topology, readings: Readings) -> None:
        self._topology = topology
        self._readings = readings
        self._shares: dict[TaskKey, _Shares] = {}
        self._waited_for: dict[TaskKey, float] = {}
        self.waits: dict[TaskKey, list[Wait]] = {
            task: self._waits_of(task, reading)
            for task, reading in readings.tasks.items()
            if reading.share(reading.backpressured_s) > NOTICED
        }
        """Waits by waiter, the longest first."""
        for task in self.waits:
            self._shares_of(task)

    def usage(self, task: TaskKey) -> PoolUsage:
        """Return the usage of a task's pools, with the time that a producer has waited for it.

        This is the largest share over its producers. It excludes waits for data in transit.
        """
        waited_for = self._waited_for.get(task, 0.0)
        return self._readings.tasks[task].usage._replace(waited_for=waited_for)

    def waiters(self, task: TaskKey) -> list[TaskKey]:
        """Return the tasks that directly wait for a task, the longest wait first."""
        every = [wait for waits in self.waits.values() for wait in waits if wait.waited_for == task]
        return [wait.waiter for wait in sorted(every, key=lambda wait: -wait.seconds)]

    def lost(self) -> dict[Blame, dict[TaskKey, float]]:
        """Return the seconds that each task has lost, by culprit."""
        lost: defaultdict[Blame, dict[TaskKey, float]] = defaultdict(dict)
        for task, waits in self.waits.items():
            seconds = sum(wait.seconds for wait in waits)
            for blame, share in self._shares_of(task).items():
                lost[blame][task] = seconds * share
        return dict(lost)

    def _waits_of(self, task: TaskKey, reading: TaskReading) -> list[Wait]:
        vertex, index = task
        held = _held(self._topology.outputs(vertex), index, reading.queues)
        every = sum(held.values())
        waits = [
            Wait(
                task,
                consumer,
                reading.backpressured_s * buffers / every,
                reading.is_waiting,
                buffers,
            )
            for consumer, buffers in held.items()
        ]
        return sorted(waits, key=lambda wait: -wait.seconds)

    def _shares_of(self, task: TaskKey) -> _Shares:
        """Return the shares of the blame for a task's waits; they add up to 1."""
        known = self._shares.get(task)
        if known is not None:
            return known
        shares: defaultdict[Blame, float] = defaultdict(float)
        waits = self.waits.get(task, [])
        every = sum(wait.seconds for wait in waits)
        reading = self._readings.tasks[task]
        for wait in waits:
            blames = self._blame(wait, every)
            for blame, share in blames.items():
                shares[blame] += share * wait.seconds / every
            # If several consumers hold equally many buffers, the task waits for all of them all the
            # time.
            seconds = min(every, wait.seconds * len(waits)) * (1 - self._on_the_way(wait, blames))
            longest = self._waited_for.get(wait.waited_for, 0.0)
            self._waited_for[wait.waited_for] = max(longest, reading.share(seconds))
        self._shares[task] = shares
        return shares

    def _stood_still(
        self, reading: TaskReading, worker: WorkerReading | None, waited_s: float
    ) -> tuple[float, float]:
        """Return the seconds of a wait with a blocked event loop, and with garbage collection.

        Garbage collection is a cause only if it is more than a little, because every program has
        some. A task loses to it at most the time in which the task had work.
        """
        if worker is None:
            return 0.0, 0.0
        held_up_s = min(waited_s, worker.held_up_s)
        is_much = reading.share(worker.garbage.seconds) > OK_SHARE
        garbage_s = min(worker.garbage.seconds, reading.busy_s) if is_much else 0.0
        return held_up_s, min(waited_s - held_up_s, garbage_s)

    def _on_the_way(self, wait: Wait, blames: _Shares) -> float:
        """Return the share of a wait in which the data was between two workers."""
        ends = [self._readings.tasks.get(task) for task in (wait.waiter, wait.waited_for)]
        if len({one.worker_id for one in ends if one is not None}) < len(ends):
            return 0.0
        return blames.get(Blame(Blamed.TRANSIT, wait.waited_for, wait.waiter), 0.0)

    def _blame(self, wait: Wait, every_s: float) -> _Shares:
        """Return the shares of blame for one wait of a task.

        The task has waited for ``every_s`` in total.
        """
        task = wait.waited_for
        reading = self._readings.tasks.get(task)
        if reading is None:
            return {Blame(Blamed.OPERATOR, task): 1.0}
        worker = self._readings.workers.get(reading.worker_id)
        if worker is not None and worker.silent_s:
            return {Blame(Blamed.SILENCE, worker_id=worker.worker_id): 1.0}
        # A blocked loop costs a task no more than the time of the block, even if the task waits for
        # many tasks on that loop. So the time is divided among the task's waits.
        held_up_s, garbage_s = self._stood_still(reading, worker, every_s)
        held_up_s, garbage_s = (wait.seconds * one / every_s for one in (held_up_s, garbage_s))
        stood_still_s = held_up_s + garbage_s
        # Workers report at different times: a young task may have been observed for longer.
        waiter = self._readings.tasks[wait.waiter]
        scale = waiter.seconds / reading.seconds if reading.seconds else 1.0
        busy_s = max(0.0, scale * reading.busy_s - stood_still_s)
        passed_on_s = scale * reading.backpressured_s
        if not self.waits.get(task):
            # Its own waits are too short to be examined.
            busy_s, passed_on_s = busy_s + passed_on_s, 0.0
        active_s = busy_s + passed_on_s
        waited_s = wait.seconds - stood_still_s
        explained_s = min(waited_s, active_s)
        # The consumer was idle for most of the wait, so the transit explains all of it.
        if explained_s < waited_s / 2:
            explained_s = 0.0
        shares: defaultdict[Blame, float] = defaultdict(float)
        shares[Blame(Blamed.LOOP, worker_id=reading.worker_id)] = held_up_s
        shares[Blame(Blamed.GARBAGE, worker_id=reading.worker_id)] = garbage_s
        if explained_s:
            shares[Blame(Blamed.OPERATOR, task)] = explained_s * busy_s / active_s
            if passed_on_s:
                for blame, share in self._shares_of(task).items():
                    shares[blame] += share * explained_s * passed_on_s / active_s
        transit = Blame(Blamed.TRANSIT, task, wait.waiter)
        shares[transit] = waited_s - explained_s
        return {blame: seconds / wait.seconds for blame, seconds in shares.items() if seconds > 0}


def _held(
    outputs: Iterable[Exchange], index: int, queues: Mapping[tuple[int, int], float]
) -> dict[TaskKey, float]:
    """Return the buffers of a task's output that each consumer holds, of those that hold many.

    One buffer of each subpartition does not count, because the writer is filling it. If no
    subpartition has more, these buffers count. If no consumer holds any, all of them count equally.
    """
    consumers = {
        (place, subpartition): (exchange.target, consumer)
        for place, exchange in enumerate(outputs)
        for subpartition, consumer in enumerate(exchange.consumers[index])
    }
    full = {which: queued - 1 for which, queued in queues.items() if queued > 1}
    chosen = full or queues or dict.fromkeys(consumers, 1.0)
    most = max(chosen.values(), default=0.0)
    held: defaultdict[TaskKey, float] = defaultdict(float)
    for which, buffers in chosen.items():
        if buffers >= HOLDS_MUCH * most and which in consumers:
            held[consumers[which]] += buffers
    return held
