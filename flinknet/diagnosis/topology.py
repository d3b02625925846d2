"""Topology of a job for its diagnosis: vertices, exchanges, and readers of outputs.

Vertices are numbered by their positions in the graph. Exchanges are in the order of its edges. A
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
    """An operator, or a chain of operators."""

    id: int
    name: str
    parallelism: int
    rest_id: str
    """Id in Flink's REST API: 32 hex digits."""


class Exchange(NamedTuple):
    """An edge of the job graph."""

    source: int
    target: int
    name: str
    """The partitioner's name, such as ``"HASH"``."""
    consumers: tuple[range, ...]
    """For each subtask of the source, the target's subtasks that read its subpartitions.

    They are in the order of the subpartitions.
    """

    @property
    def is_keyed(self) -> bool:
        """Whether a record's key determines its subtask."""
        return self.name in _KEYED


class Topology(NamedTuple):
    """The topology of one job."""

    vertices: Sequence[Vertex]
    exchanges: Sequence[Exchange]

    def task_name(self, task: TaskKey) -> str:
        """Return the display name of a subtask, such as ``"Map (2/4)"``."""
        vertex = self.vertices[task[0]]
        return f"{vertex.name} ({task[1] + 1}/{vertex.parallelism})"

    def outputs(self, vertex: int) -> list[Exchange]:
        """Return the exchanges that a vertex writes, in the order of its result partitions."""
        return [one for one in self.exchanges if one.source == vertex]

    def inputs(self, vertex: int) -> list[Exchange]:
        """Return the exchanges that a vertex reads, in the order of its gates."""
        return [one for one in self.exchanges if one.target == vertex]

    def tasks(self) -> list[TaskKey]:
        """Return all subtasks in order."""
        return [(one.id, index) for one in self.vertices for index in range(one.parallelism)]

    def producers(self, task: TaskKey) -> list[TaskKey]:
        """Return the tasks that a task reads from."""
        vertex, index = task
        return [
            (exchange.source, producer)
            for exchange in self.inputs(vertex)
            for producer, consumers in enumerate(exchange.consumers)
            if index in consumers
        ]

    def siblings(self, task: TaskKey) -> list[TaskKey]:
        """Return the other subtasks of the task's vertex."""
        vertex, index = task
        every = range(self.vertices[vertex].parallelism)
        return [(vertex, other) for other in every if other != index]
