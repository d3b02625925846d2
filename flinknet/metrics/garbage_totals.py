"""What Python's garbage collector has done in a worker: how often, for how long, and in whose code.

A collection stops all threads of its process. It is begun by the code that makes one object too
many, so the subtask whose code that is stands beside its seconds.

Owned counters of ``GarbageTimes``: collections, seconds and objects by generation; seconds by
subtask.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol

__all__ = [
    "NO_GARBAGE",
    "CollectorTotals",
    "GarbageTimes",
    "GarbageTotals",
    "GenerationTotals",
    "SubtaskGarbage",
]

SUBTASKS_TOLD_MAX = 8
"""Subtasks that are told of."""

SUBTASKS_KEPT_MAX = 1_000
"""Subtasks that are remembered; jobs come and go."""


class CollectorTotals(Protocol):
    """The collections of one generation, or of all of them."""

    @property
    def collections(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class GenerationTotals(NamedTuple):
    """The collections of one generation, and of those that are younger, since the start."""

    generation: int
    collections: int
    seconds: float
    objects: int
    """That were freed, because only they referred to each other."""


class SubtaskGarbage(NamedTuple):
    """Collections that began in the code of one subtask."""

    subtask: str
    """As people call it; empty for code of the worker."""
    seconds: float


class GarbageTotals(NamedTuple):
    """All collections of a worker since its start, or of a stretch of time."""

    generations: tuple[GenerationTotals, ...] = ()
    subtasks: tuple[SubtaskGarbage, ...] = ()
    """Those in whose code the most seconds began, the most first."""
    seconds_per_second: float = 0.0
    """Over the last minute."""

    @property
    def seconds(self) -> float:
        """For how long all threads stood still."""
        return sum(one.seconds for one in self.generations)

    @property
    def collections(self) -> int:
        """How often."""
        return sum(one.collections for one in self.generations)

    def collectors(self) -> dict[str, CollectorTotals]:
        """Return the collections by the names of Flink's collectors."""
        named = {f"generation{one.generation}": one for one in self.generations}
        return {"All": self, **named}

    def since(self, before: GarbageTotals) -> GarbageTotals:
        """Return what has come since an earlier account of the same worker."""
        earlier = {one.generation: one for one in before.generations}
        known = {one.subtask: one.seconds for one in before.subtasks}
        generations = tuple(
            GenerationTotals(
                one.generation,
                one.collections - old.collections,
                one.seconds - old.seconds,
                one.objects - old.objects,
            )
            for one in self.generations
            for old in [earlier.get(one.generation, _no_collections(one.generation))]
        )
        grown = [
            one._replace(seconds=one.seconds - known.get(one.subtask, 0.0)) for one in self.subtasks
        ]
        return self._replace(
            generations=generations,
            subtasks=_most(one for one in grown if one.seconds > 0),
        )


NO_GARBAGE = GarbageTotals()
"""Nothing has been collected, or nothing is known of it."""


class GarbageTimes:
    """The account of one process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._generations: dict[int, GenerationTotals] = {}
        self._subtasks: defaultdict[str, float] = defaultdict(float)

    def note(self, generation: int, seconds: float, objects: int, subtask: str = "") -> None:
        """A collection has ended, which code of ``subtask`` had begun."""
        before = self._generations.get(generation, _no_collections(generation))
        self._generations[generation] = GenerationTotals(
            generation, before.collections + 1, before.seconds + seconds, before.objects + objects
        )
        self.seconds += seconds
        self._subtasks[subtask] += seconds
        if len(self._subtasks) > SUBTASKS_KEPT_MAX:
            others = self._subtasks.keys() - {subtask}
            del self._subtasks[min(others, key=lambda one: self._subtasks[one])]

    def told(self, seconds_per_second: float = 0.0) -> GarbageTotals:
        """Return the present state."""
        return GarbageTotals(
            tuple(one for _, one in sorted(self._generations.items())),
            _most(SubtaskGarbage(*one) for one in self._subtasks.items()),
            seconds_per_second,
        )


def _no_collections(generation: int) -> GenerationTotals:
    return GenerationTotals(generation, 0, 0.0, 0)


def _most(subtasks: Iterable[SubtaskGarbage]) -> tuple[SubtaskGarbage, ...]:
    return tuple(sorted(subtasks, key=lambda one: -one.seconds)[:SUBTASKS_TOLD_MAX])
