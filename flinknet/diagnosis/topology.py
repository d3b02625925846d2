"""The job as a diagnosis sees it: vertices, the exchanges between them, and who reads whose output.

Vertices have their places in the graph as numbers, exchanges stand in the order of its edges. A
task is a vertex and the index of a subtask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

__all__ = ["Exchange", "TaskKey", "Topology", "Vertex"]

TaskKey: TypeAlias = tuple[int, int]
"""Vertex and index of a subtask."""

_KEYED = frozenset(("HASH", "COLUMN HASH"))


class Vertex(NamedTuple):
    """An operator, or a chain of them."""

    id: int
    name: str
    parallelism: int
    rest_id: str
    """What it is called in Flink's REST: 32 hex digits."""


class Exchange(NamedTuple):
    """An edge of the job graph."""

    source: int
    target: int
    name: str
    """The partitioner's name, ``"HASH"``."""
    consumers: tuple[range, ...]
    """For each subtask of the source, the subtasks of the target that read its subpartitions, in
    their order."""

    @property
    def is_keyed(self) -> bool:
        """Whether the key of a record says where it goes."""
        return self.name in _KEYED


class Topology(NamedTuple):
    """One job."""

    vertices: Sequence[Vertex]
    exchanges: Sequence[Exchange]

    def task_name(self, task: TaskKey) -> str:
        """What people call a subtask: ``"Map (2/4)"``."""
        vertex = self.vertices[task[0]]
        return f"{vertex.name} ({task[1] + 1}/{vertex.parallelism})"

    def outputs(self, vertex: int) -> list[Exchange]:
        """The exchanges that a vertex writes, in the order of its result partitions."""
        return [one for one in self.exchanges if one.source == vertex]

    def inputs(self, vertex: int) -> list[Exchange]:
        """The exchanges that a vertex reads, in the order of its gates."""
        return [one for one in self.exchanges if one.target == vertex]

    def tasks(self) -> list[TaskKey]:
        """All subtasks, in order."""
        return [(one.id, index) for one in self.vertices for index in range(one.parallelism)]

    def producers(self, task: TaskKey) -> list[TaskKey]:
        """The tasks that a task reads."""
        vertex, index = task
        return [
            (exchange.source, producer)
            for exchange in self.inputs(vertex)
            for producer, consumers in enumerate(exchange.consumers)
            if index in consumers
        ]

    def siblings(self, task: TaskKey) -> list[TaskKey]:
        """The other subtasks of its vertex."""
        vertex, index = task
        every = range(self.vertices[vertex].parallelism)
        return [(vertex, other) for other in every if other != index]
