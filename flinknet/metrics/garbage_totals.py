"""Activity of Python's garbage collector in a worker: count, duration and originating code.

A collection stops all threads of its process. It is triggered by the code that creates one object
too many, so the seconds of a collection are attributed to the subtask of that code.

``GarbageTimes`` owns these counters: collections, seconds and objects by generation; seconds by
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
"""Maximum number of subtasks reported."""

SUBTASKS_KEPT_MAX = 1_000
"""Maximum number of subtasks remembered, because jobs come and go."""


class CollectorTotals(Protocol):
    """The collections of one generation, or of all generations."""

    @property
    def collections(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class GenerationTotals(NamedTuple):
    """The collections of one generation since the start; each collects younger ones, too."""

    generation: int
    collections: int
    seconds: float
    objects: int
    """Objects freed because they referred only to each other."""


class SubtaskGarbage(NamedTuple):
    """Collections that began in the code of one subtask."""

    subtask: str
    """Display name of the subtask; empty for code of the worker."""
    seconds: float


class GarbageTotals(NamedTuple):
    """All collections of a worker since its start, or within a period."""

    generations: tuple[GenerationTotals, ...] = ()
    subtasks: tuple[SubtaskGarbage, ...] = ()
    """The subtasks that triggered most seconds, the most first."""
    seconds_per_second: float = 0.0
    """Seconds of collection per second, over the last minute."""

    @property
    def seconds(self) -> float:
        """Time for which all threads stood still, in seconds."""
        return sum(one.seconds for one in self.generations)

    @property
    def collections(self) -> int:
        """Number of collections."""
        return sum(one.collections for one in self.generations)

    def collectors(self) -> dict[str, CollectorTotals]:
        """Return the collections by the names of Flink's collectors."""
        named = {f"generation{one.generation}": one for one in self.generations}
        return {"All": self, **named}

    def since(self, before: GarbageTotals) -> GarbageTotals:
        """Return the difference to an earlier account of the same worker."""
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
"""No collections, or none known."""


class GarbageTimes:
    """The account of one process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._generations: dict[int, GenerationTotals] = {}
        self._subtasks: defaultdict[str, float] = defaultdict(float)

    def note(self, generation: int, seconds: float, objects: int, subtask: str = "") -> None:
        """Account for a finished collection that code of ``subtask`` triggered."""
        before = self._generations.get(generation, _no_collections(generation))
        self._generations[generation] = GenerationTotals(
            generation, before.collections + 1, before.seconds + seconds, before.objects + objects
        )
        self.seconds += seconds
        self._subtasks[subtask] += seconds
        if len(self._subtasks) > SUBTASKS_KEPT_MAX:
            # The present subtask may have the least, but it is the one to keep.
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
