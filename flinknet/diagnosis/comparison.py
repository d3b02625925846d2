"""Comparison of tasks: which have much more input than others, or produce much more output.

Figures are compared per second. Workers report at different times, so when a job is young, one task
may have been observed for twice as long as another.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median

from flinknet.buffer.local_pool import LocalBufferPoolStatistics
from flinknet.diagnosis.reading import Readings, TaskReading
from flinknet.diagnosis.topology import Exchange, TaskKey, Topology

__all__ = ["SKEW", "Comparison"]

SKEW = 2.0
"""Minimum ratio of a hot subtask's input to the others'."""

HOT_SHARE = 0.25
"""Minimum share of a subtask's records for a key group to be named."""


class Comparison:
    """Compares the tasks of one job by their readings."""

    def __init__(self, topology: Topology, readings: Readings) -> None:
        self._topology = topology
        self._readings = readings

    def read(self, tasks: Iterable[TaskKey]) -> list[TaskReading]:
        """Return the readings of some tasks, as far as they exist."""
        return [self._readings.tasks[task] for task in tasks if task in self._readings.tasks]

    def factor(self, task: TaskKey) -> float:
        """Return the number of output records per input record; 0 without input."""
        reading = self._readings.tasks[task]
        if not self._topology.inputs(task[0]) or not reading.records_in:
            return 0.0
        return reading.records_out / reading.records_in

    def is_hot(self, task: TaskKey) -> bool:
        """Return whether the task gets many more records than its operator's other subtasks."""
        siblings = self.read(self._topology.siblings(task))
        if not siblings or task not in self._readings.tasks:
            return False
        reading = self._readings.tasks[task]
        others = median(one.per_second(one.records_in) for one in siblings)
        return _is_much(reading, reading.records_in, others)

    def uneven_producers(self, exchange: Exchange) -> list[TaskKey]:
        """Return the producers that make many more records than the others."""
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
        """Return the key groups with a large share of the tasks' records."""
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
        """Return the pools of a task that could grow if its worker had free buffers."""
        reading = self._readings.tasks[task]
        worker = self._readings.workers.get(reading.worker_id)
        if worker is None or worker.segments_free:  # With free buffers, no pool is starved.
            return []
        pools = [one.pool for one in reading.latest.partitions]
        pools += [one.floating_pool for one in reading.latest.gates]
        return [pool for pool in pools if pool.size < pool.maximum]


def _is_much(reading: TaskReading, records: int, others_per_s: float) -> bool:
    """Return whether a task has many more records than others had in the same time.

    One record by the others is assumed as a minimum.
    """
    return records >= SKEW * max(1.0, others_per_s * reading.seconds)
