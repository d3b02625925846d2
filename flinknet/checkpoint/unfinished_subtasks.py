"""The unfinished subtasks of an attempt, and the roots, at which barriers begin.

Theory of operation
-------------------
A subtask *emits* until it has finished or *awaits* its final checkpoint. The *roots* are the
subtasks that no barrier reaches: subtasks that await, and all subtasks of vertices without an
emitting input. The sources are the first roots.

A job may have ten thousand subtasks, and each of them ends. So this module counts the emitting
subtasks of each vertex, and the cost of an end does not depend on the number of subtasks: it visits
the readers of a vertex only when the last subtask of that vertex stops emitting.

Invariant: the counts agree with the sets (``check_invariants``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from flinknet.checkpoint.pending_checkpoint import SubtaskId

__all__ = ["UnfinishedSubtasks"]


class UnfinishedSubtasks:
    """The unfinished subtasks of one attempt, in the order in which they were given."""

    def __init__(self, inputs: Mapping[int, Iterable[int]]) -> None:
        """``inputs`` has, for every vertex of the job, the vertices that it reads."""
        self._inputs = {vertex: frozenset(read) for vertex, read in inputs.items()}
        self._readers: dict[int, list[int]] = {vertex: [] for vertex in self._inputs}
        for vertex, read in self._inputs.items():
            for one in read:
                self._readers[one].append(vertex)
        self._of_vertex: dict[int, list[SubtaskId]] = {}
        self._subtasks: dict[SubtaskId, None] = {}
        self._finished: set[SubtaskId] = set()
        self._awaiting: dict[SubtaskId, int] = {}
        self._taken: Counter[int] = Counter()
        """Number of awaiting subtasks for each checkpoint in ``_awaiting``."""
        self._emitting: Counter[int] = Counter()
        """Number of emitting subtasks for each vertex."""

    def __iter__(self) -> Iterator[SubtaskId]:
        return (subtask for subtask in self._subtasks if subtask not in self._finished)

    @property
    def finished(self) -> AbstractSet[SubtaskId]:
        """The subtasks that have finished."""
        return self._finished

    @property
    def is_empty(self) -> bool:
        """Whether every subtask has finished."""
        return len(self._finished) == len(self._subtasks)

    @property
    def newest_awaited(self) -> int | None:
        """The newest checkpoint that an awaiting subtask took part in before it began to await.

        None unless all unfinished subtasks await a later checkpoint.
        """
        if not self._awaiting or len(self._awaiting) + len(self._finished) < len(self._subtasks):
            return None
        return max(self._taken)

    def begin(self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId]) -> None:
        """Begin an attempt with these subtasks; ``finished`` ones were restored as finished."""
        self._subtasks = dict.fromkeys(subtasks)
        self._of_vertex = {}
        for subtask in self._subtasks:
            self._of_vertex.setdefault(subtask[0], []).append(subtask)
        self._finished = set(finished)
        self._awaiting.clear()
        self._count()

    def restart(self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId]) -> None:
        """Restart some subtasks, of which the ones in ``finished`` are restored as finished."""
        again = set(subtasks)
        self._finished = (self._finished - again) | (again & set(finished))
        for subtask in again:
            self._awaiting.pop(subtask, None)
        self._count()

    def finish(self, subtask: SubtaskId) -> list[SubtaskId]:
        """Count a subtask as finished; return the subtasks that become roots."""
        if subtask in self._finished:
            return []
        self._finished.add(subtask)
        if subtask in self._awaiting:
            self._stop_awaiting(subtask)
            return []
        return self._stop_emitting(subtask)

    def await_final(self, subtask: SubtaskId, taken: int) -> list[SubtaskId]:
        """Let a subtask await its final checkpoint, the first one after ``taken``.

        Returns the subtasks that become roots. Does nothing if the subtask has finished.
        """
        if subtask in self._finished:
            return []
        freed: list[SubtaskId] = []
        if subtask in self._awaiting:
            self._stop_awaiting(subtask)
        else:
            freed = self._stop_emitting(subtask)
        self._awaiting[subtask] = taken
        self._taken[taken] += 1
        # Its inputs have ended, so no barrier reaches it any more: it is a root itself.
        return [subtask, *freed]

    def roots(self) -> tuple[SubtaskId, ...]:
        """Return the subtasks at which the barriers of a checkpoint begin."""
        free = {vertex for vertex in self._of_vertex if self._is_free(vertex)}
        return tuple(subtask for subtask in self if subtask in self._awaiting or subtask[0] in free)

    def _is_free(self, vertex: int) -> bool:
        return not any(self._emitting[read] for read in self._inputs[vertex])

    def _stop_emitting(self, subtask: SubtaskId) -> list[SubtaskId]:
        vertex = subtask[0]
        if subtask not in self._subtasks:  # The attempt does not run yet.
            return []
        self._emitting[vertex] -= 1
        if self._emitting[vertex]:
            return []
        return [
            one
            for reader in self._readers[vertex]
            if self._is_free(reader)
            for one in self._of_vertex.get(reader, ())
            if one not in self._finished
        ]

    def _stop_awaiting(self, subtask: SubtaskId) -> None:
        taken = self._awaiting.pop(subtask)
        self._taken[taken] -= 1
        if not self._taken[taken]:
            del self._taken[taken]

    def _count(self) -> None:
        self._taken = Counter(self._awaiting.values())
        self._emitting = Counter(vertex for vertex, index in self._emitting_subtasks())

    def _emitting_subtasks(self) -> Iterator[SubtaskId]:
        return (subtask for subtask in self if subtask not in self._awaiting)

    def check_invariants(self) -> None:
        """Raise AssertionError if counts and sets are inconsistent."""
        assert not self._finished & self._awaiting.keys(), "a finished subtask awaits a checkpoint"
        assert self._taken == Counter(self._awaiting.values()), "waiting subtasks are miscounted"
        emitting = Counter(vertex for vertex, index in self._emitting_subtasks())
        assert +self._emitting == emitting, "emitting subtasks are miscounted"
