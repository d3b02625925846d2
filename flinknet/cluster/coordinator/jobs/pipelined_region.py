"""Pipelined regions: the parts of a job that must run at the same time.

A pipelined edge is read while it is written, so both of its ends must run together. Subtasks that
such edges connect form a *region*, which is deployed as a whole and fails as a whole. An edge
connects the subtasks of its two vertices that exchange records. These are all of them, or, for a
pointwise edge, a few each, so that parallel pipelines without a common edge are separate regions.

Edges between regions are read only when they are complete. A region can therefore run once the
regions that it consumes have finished. Regions that would wait for each other in a cycle are
merged.

Flink: SchedulingPipelinedRegion, PipelinedRegionComputeUtil.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from flinknet.graph.deployment import consumers_of
from flinknet.graph.graph import JobEdge, JobGraph

__all__ = ["PipelinedRegion", "pipelined_regions"]

_Subtask: TypeAlias = tuple[int, int]
"""(vertex, index)"""


@dataclass(frozen=True, slots=True)
class PipelinedRegion:
    """Some subtasks of a job, by vertex and index."""

    name: str
    """The name of its first subtask: ``"0-0"``."""
    subtasks: frozenset[_Subtask]
    consumes: frozenset[str]
    """Names of the regions that it consumes, after these are complete."""


def pipelined_regions(shape: JobGraph) -> tuple[PipelinedRegion, ...]:
    """Return the regions of a job in topological order: each after the regions that it consumes."""
    groups = _Groups(
        (vertex.id, index) for vertex in shape.vertices for index in range(vertex.parallelism)
    )
    for edge in shape.edges:
        if edge.exchange_mode.is_pipelined:
            for producers, consumers in _exchanges(shape, edge):
                groups.join([*producers, *consumers])
    consumed = _consumed(shape, groups)
    while circle := _circle(consumed):
        groups.join(circle)
        consumed = _consumed(shape, groups)
    members = groups.members()
    return tuple(
        PipelinedRegion(_name(first), members[first], frozenset(map(_name, consumed[first])))
        for first in TopologicalSorter(consumed).static_order()
    )


def _exchanges(
    shape: JobGraph, edge: JobEdge
) -> Iterator[tuple[Sequence[_Subtask], Sequence[_Subtask]]]:
    """Yield groups of producers and consumers of an edge that all exchange records."""
    sources = shape.vertices[edge.source].parallelism
    targets = shape.vertices[edge.target].parallelism
    consumers = [(edge.target, index) for index in range(targets)]
    if not edge.pointwise:
        yield [(edge.source, index) for index in range(sources)], consumers
        return
    for index in range(sources):
        reach = consumers_of(index, sources, targets, pointwise=True)
        yield [(edge.source, index)], consumers[reach.start : reach.stop]


def _consumed(shape: JobGraph, groups: _Groups) -> dict[_Subtask, set[_Subtask]]:
    """Return the groups that each group consumes; a group is named by its first subtask."""
    consumed: dict[_Subtask, set[_Subtask]] = {first: set() for first in groups.members()}
    for edge in shape.edges:
        for producers, consumers in _exchanges(shape, edge):
            sources = set(map(groups.first, producers))
            for consumer in set(map(groups.first, consumers)):
                consumed[consumer] |= sources - {consumer}
    return consumed


def _circle(consumed: dict[_Subtask, set[_Subtask]]) -> list[_Subtask]:
    """Return groups that consume each other in a cycle, or an empty list."""
    try:
        TopologicalSorter(consumed).prepare()
    except CycleError as error:
        circle: list[_Subtask] = error.args[1]
        return circle
    return []


class _Groups:
    """Disjoint sets of subtasks (union-find), each represented by its first subtask."""

    def __init__(self, subtasks: Iterable[_Subtask]) -> None:
        self._towards_first = {subtask: subtask for subtask in subtasks}

    def first(self, subtask: _Subtask) -> _Subtask:
        """Return the first subtask of a subtask's group."""
        towards = self._towards_first
        while towards[subtask] != subtask:
            # Path halving keeps the paths short.
            towards[subtask] = towards[towards[subtask]]
            subtask = towards[subtask]
        return subtask

    def join(self, subtasks: Iterable[_Subtask]) -> None:
        """Merge the groups of these subtasks."""
        firsts = set(map(self.first, subtasks))
        self._towards_first.update(dict.fromkeys(firsts, min(firsts)))

    def members(self) -> dict[_Subtask, frozenset[_Subtask]]:
        """Return the members of every group, by its first subtask."""
        groups: dict[_Subtask, set[_Subtask]] = defaultdict(set)
        for subtask in self._towards_first:
            groups[self.first(subtask)].add(subtask)
        return {first: frozenset(members) for first, members in groups.items()}


def _name(first: _Subtask) -> str:
    vertex, index = first
    return f"{vertex}-{index}"
