"""The parts of a job that must run at the same time: its pipelined regions.

A pipelined edge is read while it is written, so that its two ends run together or not at all. What
such edges join is a *region*: it is deployed as a whole, and it fails as a whole. Between regions
there are only edges that are read when they are complete, so that a region can run once those that
it consumes have finished. Regions that would wait for each other in a circle are one.

Flink: SchedulingPipelinedRegion, of vertices instead of subtasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter

from flinknet.task.graph import JobGraph

__all__ = ["PipelinedRegion", "pipelined_regions"]


@dataclass(frozen=True, slots=True)
class PipelinedRegion:
    """Some vertices of a job, by id."""

    name: str
    """Of its first vertex: the id."""
    vertices: frozenset[int]
    consumes: frozenset[str]
    """The regions whose complete results it reads, by name."""


def pipelined_regions(shape: JobGraph) -> tuple[PipelinedRegion, ...]:
    """The regions of a job; each stands behind those that it consumes."""
    ids = [vertex.id for vertex in shape.vertices]
    reached = {id: {id} for id in ids}
    """From each vertex along the edges, both ways along a pipelined one."""
    steps = [(edge.source, edge.target) for edge in shape.edges]
    steps += [(edge.target, edge.source) for edge in shape.edges if edge.exchange_mode.is_pipelined]
    grows = True
    while grows:
        grows = False
        for start, end in steps:
            if not reached[end] <= reached[start]:
                reached[start] |= reached[end]
                grows = True
    members = {id: frozenset(other for other in reached[id] if id in reached[other]) for id in ids}
    consumed: dict[frozenset[int], set[frozenset[int]]] = {members[id]: set() for id in ids}
    for edge in shape.edges:
        source, target = members[edge.source], members[edge.target]
        if source != target:
            consumed[target].add(source)
    return tuple(
        PipelinedRegion(_name(region), region, frozenset(map(_name, consumed[region])))
        for region in TopologicalSorter(consumed).static_order()
    )


def _name(vertices: frozenset[int]) -> str:
    return str(min(vertices))
