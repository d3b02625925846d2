"""Sentences about culprits, with evidence."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TypeAlias

from flinknet.diagnosis.comparison import Comparison
from flinknet.diagnosis.reading import Readings
from flinknet.diagnosis.topology import TaskKey, Topology
from flinknet.diagnosis.wait_graph import WaitGraph
from flinknet.texts import counted

__all__ = ["Said", "Sentences"]

Said: TypeAlias = tuple[str, list[str]]
"""A sentence and its evidence."""

NAMED_MAX = 3
"""Maximum number of subtasks named in a sentence and in its evidence."""


class Sentences:
    """Describes the tasks of one job."""

    def __init__(self, topology: Topology, readings: Readings, graph: WaitGraph) -> None:
        self._topology = topology
        self._readings = readings
        self._graph = graph
        self._comparison = Comparison(topology, readings)

    def slow(self, tasks: Sequence[TaskKey]) -> Said:
        """Describe an operator that is too slow for its input."""
        evidence = [self.activity(task) for task in tasks[:NAMED_MAX]]
        for task in tasks[:NAMED_MAX]:
            evidence += self._pools(task)
        return f"{self._subject(tasks)} is the bottleneck: it is slower than its input", evidence

    def amplifying(self, tasks: Sequence[TaskKey]) -> Said:
        """Describe an operator that produces too much for the operators behind it."""
        factor = max(self._comparison.factor(task) for task in tasks)
        behind = {wait.waited_for for task in tasks for wait in self._graph.waits.get(task, [])}
        told = [*tasks[:NAMED_MAX], *sorted(behind)[:NAMED_MAX]]
        sentence = (
            f"{self._subject(tasks)} makes {factor:,.0f} records of each record that it reads, and "
            "the operators behind it have to process them"
        )
        return sentence, [self.activity(task) for task in told]

    def skewed_by_key(self, tasks: Sequence[TaskKey], key_groups: Sequence[int]) -> Said:
        """Describe subtasks that have the hot keys."""
        plural = "s" if len(key_groups) > 1 else ""
        of = f" of key group{plural} {', '.join(map(str, key_groups))}" if key_groups else ""
        sentence = f"{self._subject(tasks)} gets most of the records{of}: the keys are skewed"
        return sentence, [
            *map(self.activity, tasks[:NAMED_MAX]),
            *self._beside(tasks),
            *self._pools(tasks[0]),
        ]

    def skewed_by_source(self, tasks: Sequence[TaskKey]) -> Said:
        """Describe subtasks with an input from producers that make most of the records."""
        uneven = [
            task
            for exchange in self._topology.inputs(tasks[0][0])
            for task in self._comparison.uneven_producers(exchange)
        ]
        sentence = (
            f"{self._subject(tasks)} gets most of the records, because {self._names(uneven)} makes "
            "most of them"
        )
        return sentence, [
            *map(self.activity, [*tasks[:NAMED_MAX], *uneven[:NAMED_MAX]]),
            *self._beside(tasks),
            *self._pools(tasks[0]),
        ]

    def starved(self, waiter: TaskKey, reader: TaskKey) -> Said:
        """Describe a task with too few buffers, at either end of an exchange."""
        pools = {task: self._comparison.starved_pools(task) for task in (waiter, reader)}
        starved = waiter if pools[waiter] else reader
        worker = self._readings.workers[self._readings.tasks[starved].worker_id]
        sentence = (
            f"{self._topology.task_name(starved)} has too few network buffers: worker "
            f"{worker.worker_id} has given out all of its {worker.segments} "
            "(raise network.network_memory_bytes)"
        )
        return sentence, [
            *(
                f"the pool of {pool.owner} has {pool.size} buffers, and could use {pool.maximum}"
                for of_task in pools.values()
                for pool in of_task
            ),
            self.activity(waiter),
            self.activity(reader),
        ]

    def slow_link(self, waiter: TaskKey, reader: TaskKey) -> Said:
        """Describe a slow connection between two workers."""
        writes, reads = self._readings.tasks[waiter], self._readings.tasks[reader]
        sentence = (
            f"the connection from worker {writes.worker_id} to worker {reads.worker_id} is slow: "
            f"{self._topology.task_name(waiter)} waits, and {self._topology.task_name(reader)} has "
            "nothing to do"
        )
        return sentence, [
            self.activity(waiter),
            self.activity(reader),
            *self._connection(writes.worker_id, reads.worker_id),
            *self._pools(reader),
        ]

    def silent(self, worker_id: str, tasks: Sequence[TaskKey]) -> Said:
        """Describe a worker that no longer reports."""
        worker = self._readings.workers[worker_id]
        why = "its process is stopped, or something blocks its event loop"
        if worker.is_alive:
            why = "its process runs, so something blocks its event loop"
        sentence = f"worker {worker_id} has not reported for {worker.silent_s:.1f} s: {why}"
        return sentence, [f"it runs {counted(len(tasks), 'subtask')}: {self._names(tasks)}"]

    def held_up(self, worker_id: str) -> Said:
        """Describe a worker with a blocked event loop."""
        worker = self._readings.workers[worker_id]
        worst = max(worker.held_up, key=lambda one: one.seconds)
        seconds = max(one.seconds for one in self._readings.tasks.values())
        for_s = f"for {worker.held_up_s:.2f} of {seconds:.1f} s"
        if worst.task:
            sentence = f"{worst.task} has blocked the event loop of worker {worker_id} {for_s}"
        else:
            sentence = f"the process of worker {worker_id} was paused {for_s}"
        evidence = []
        for one in worker.held_up[:NAMED_MAX]:
            where = f", last seen in {one.stack}" if one.stack else ""
            evidence.append(f"{one.task or 'the whole process'}: {one.seconds:.2f} s{where}")
        return sentence, evidence

    def collecting(self, worker_id: str, seconds: float) -> Said:
        """Describe a worker with a busy garbage collector, over a period of ``seconds``."""
        garbage = self._readings.workers[worker_id].garbage
        share = min(1.0, garbage.seconds / seconds) if seconds else 1.0
        sentence = (
            f"the garbage collector takes {share:.0%} of the time of worker {worker_id}, and stops "
            "all of its threads meanwhile"
        )
        evidence = [
            f"generation {one.generation}: {one.collections} collections in {seconds:.1f} s took "
            f"{one.seconds:.2f} s and freed {one.objects:,} objects"
            for one in garbage.generations
            if one.collections
        ]
        for begun in garbage.subtasks[:NAMED_MAX]:
            name = begun.subtask or "code of the worker itself"
            evidence.append(f"collections of {begun.seconds:.2f} s began in {name}")
        evidence.append(
            "to reduce it, keep fewer objects (state in RocksDB, arrays instead of lists of "
            "lists), avoid reference cycles, do not call gc.collect() in functions, and call "
            "gc.freeze() in open() after loading data"
        )
        return sentence, evidence

    def activity(self, task: TaskKey) -> str:
        """Describe a task's times and its throughput."""
        name, reading = self._topology.task_name(task), self._readings.tasks.get(task)
        if reading is None:
            return f"{name} has not been reported"
        return (
            f"{name} was busy {reading.share(reading.busy_s):.0%}, backpressured "
            f"{reading.share(reading.backpressured_s):.0%} and idle "
            f"{reading.share(reading.idle_s):.0%} of {reading.seconds:.1f} s; "
            f"{reading.per_second(reading.records_in):,.0f} records/s in, "
            f"{reading.per_second(reading.records_out):,.0f} out"
        )

    def _beside(self, tasks: Sequence[TaskKey]) -> list[str]:
        """Describe the other subtasks of the operator."""
        siblings = [task for task in self._topology.siblings(tasks[0]) if task not in tasks]
        others = self._comparison.read(siblings)
        if not others:
            return []
        busy = fmean(one.share(one.busy_s) for one in others)
        records = fmean(one.per_second(one.records_in) for one in others)
        subtasks = counted(len(others), "other subtask")
        return [f"{subtasks}: {busy:.0%} busy and {records:,.0f} records/s on average"]

    def _pools(self, task: TaskKey) -> list[str]:
        if task not in self._readings.tasks:
            return []
        name = self._topology.task_name(task)
        return [f"{name}: {one}" for one in self._graph.usage(task).sentences()]

    def _connection(self, sender: str, receiver: str) -> list[str]:
        """Describe the queues of the connection between two workers."""
        workers = self._readings.workers
        if sender not in workers or receiver not in workers:
            return []
        peers = workers[receiver].address, receiver
        return [
            f"{counted(one.backlog, 'buffer')} queued for the connection to {one.connection.peer}, "
            f"with credit for {one.credit}; {one.connection.buffers_in_flight} in its socket"
            for one in workers[sender].connections
            if one.connection.peer in peers
        ]

    def _subject(self, tasks: Sequence[TaskKey]) -> str:
        """Return the operator's name if all its subtasks are in ``tasks``, else their names."""
        vertex = self._topology.vertices[tasks[0][0]]
        return vertex.name if len(tasks) == vertex.parallelism else self._names(tasks)

    def _names(self, tasks: Sequence[TaskKey]) -> str:
        names = ", ".join(map(self._topology.task_name, tasks[:NAMED_MAX]))
        more = len(tasks) - NAMED_MAX
        return f"{names} and {more} more" if more > 0 else names
