"""How a task compares with others: who has much more to do, and who makes much more of it.

What is compared is per second: workers report at different times, so that one task may have been
looked at for twice as long as another when a job is young.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median

from flinknet.buffer.local_pool import LocalBufferPoolStatistics
from flinknet.diagnosis.reading import Readings, TaskReading
from flinknet.diagnosis.topology import Exchange, TaskKey, Topology

__all__ = ["SKEW", "Comparison"]

SKEW = 2.0
"""How many times as much as the others a subtask must have to do to be the hot one."""

HOT_SHARE = 0.25
"""Part of a subtask's records from which on a key group is named."""


class Comparison:
    """Compares the tasks of one job by what was read of them."""

    def __init__(self, topology: Topology, readings: Readings) -> None:
        self._topology = topology
        self._readings = readings

    def read(self, tasks: Iterable[TaskKey]) -> list[TaskReading]:
        """What is known of some tasks, as far as it is."""
        return [self._readings.tasks[task] for task in tasks if task in self._readings.tasks]

    def factor(self, task: TaskKey) -> float:
        """How many records a task makes of each one that it reads; 0 if it reads none."""
        reading = self._readings.tasks[task]
        if not self._topology.inputs(task[0]) or not reading.records_in:
            return 0.0
        return reading.records_out / reading.records_in

    def is_hot(self, task: TaskKey) -> bool:
        """Whether it gets many more records than the other subtasks of its operator."""
        siblings = self.read(self._topology.siblings(task))
        if not siblings or task not in self._readings.tasks:
            return False
        reading = self._readings.tasks[task]
        others = median(one.per_second(one.records_in) for one in siblings)
        return _is_much(reading, reading.records_in, others)

    def uneven_producers(self, exchange: Exchange) -> list[TaskKey]:
        """The producers that make many more records than the others do."""
        every = [
            (exchange.source, index)
            for index in range(self._topology.vertices[exchange.source].parallelism)
        ]
        readings = {
            task: self._readings.tasks[task] for task in every if task in self._readings.tasks
        }
        made = {task: one.per_second(one.records_out) for task, one in readings.items()}
        return [
            task
            for task, reading in readings.items()
            if len(made) > 1
            and _is_much(
                reading, reading.records_out, fmean(made[one] for one in made if one != task)
            )
        ]

    def hot_key_groups(self, tasks: Iterable[TaskKey]) -> tuple[int, ...]:
        """The key groups that many of their records are of."""
        hot = []
        for reading in self.read(tasks):
            counts = reading.latest.key_groups
            every = sum(one.records for one in counts)
            hot += [
                one.key_group
                for one in counts
                if one.key_group >= 0 and one.records >= HOT_SHARE * every
            ]
        return tuple(hot)

    def starved_pools(self, task: TaskKey) -> list[LocalBufferPoolStatistics]:
        """The pools of a task that would have more buffers if its worker had any left."""
        reading = self._readings.tasks[task]
        worker = self._readings.workers.get(reading.worker_id)
        if worker is None or worker.segments_free:
            return []
        pools = [one.pool for one in reading.latest.partitions]
        pools += [one.floating_pool for one in reading.latest.gates]
        return [pool for pool in pools if pool.size < pool.maximum]


def _is_much(reading: TaskReading, records: int, others_per_s: float) -> bool:
    """Whether a task's records are many beside what others had in as long, one at the least."""
    return records >= SKEW * max(1.0, others_per_s * reading.seconds)
