"""The subtasks of an attempt that have not finished, and the roots, where barriers begin.

Theory of operation
-------------------
A subtask *emits* until it has finished, or *awaits* its final checkpoint. The *roots* are the
subtasks that no barrier reaches: those that await, and those of vertices that read only vertices
of which no subtask emits. The sources are the first roots.

A job may have ten thousand subtasks, and each of them ends. So this module counts the emitting
subtasks of each vertex, and an end costs the same however many subtasks there are: it looks at the
readers of a vertex only when the last subtask of that vertex ceases to emit.

Invariant: the counts are those of the sets (``check_invariants``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from flinknet.checkpoint.pending_checkpoint import SubtaskId

__all__ = ["UnfinishedSubtasks"]


class UnfinishedSubtasks:
    """The subtasks of one attempt, in the order in which they were given."""

    def __init__(self, inputs: Mapping[int, Iterable[int]]) -> None:
        """``inputs`` says for every vertex of the job which vertices it reads."""
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
        """How many subtasks await with each number in ``_awaiting``."""
        self._emitting: Counter[int] = Counter()
        """How many subtasks of each vertex emit."""

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
        """The newest checkpoint that an awaiting subtask had taken part in when it had emitted its
        last record, if all of them await a later one; else None."""
        if not self._awaiting or len(self._awaiting) + len(self._finished) < len(self._subtasks):
            return None
        return max(self._taken)

    def begin(self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId]) -> None:
        """Begin an attempt with these subtasks; those in ``finished`` are restored as such."""
        self._subtasks = dict.fromkeys(subtasks)
        self._of_vertex = {}
        for subtask in self._subtasks:
            self._of_vertex.setdefault(subtask[0], []).append(subtask)
        self._finished = set(finished)
        self._awaiting.clear()
        self._count()

    def restart(self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId]) -> None:
        """Begin again with some subtasks; those of them in ``finished`` are restored as such."""
        again = set(subtasks)
        self._finished = (self._finished - again) | (again & set(finished))
        for subtask in again:
            self._awaiting.pop(subtask, None)
        self._count()

    def finish(self, subtask: SubtaskId) -> list[SubtaskId]:
        """Count a subtask as finished. Return the subtasks that become roots by that."""
        if subtask in self._finished:
            return []
        self._finished.add(subtask)
        if subtask in self._awaiting:
            self._cease_to_await(subtask)
            return []
        return self._cease_to_emit(subtask)

    def await_final(self, subtask: SubtaskId, taken: int) -> list[SubtaskId]:
        """Let a subtask await its final checkpoint, the first one behind ``taken``.

        Return the subtasks that become roots by that. Nothing happens if it has finished.
        """
        if subtask in self._finished:
            return []
        freed: list[SubtaskId] = []
        if subtask in self._awaiting:
            self._cease_to_await(subtask)
        else:
            freed = self._cease_to_emit(subtask)
        self._awaiting[subtask] = taken
        self._taken[taken] += 1
        return [subtask, *freed]

    def roots(self) -> tuple[SubtaskId, ...]:
        """Return the subtasks at which the barriers of a checkpoint begin."""
        free = {vertex for vertex in self._of_vertex if self._is_free(vertex)}
        return tuple(subtask for subtask in self if subtask in self._awaiting or subtask[0] in free)

    def _is_free(self, vertex: int) -> bool:
        return not any(self._emitting[read] for read in self._inputs[vertex])

    def _cease_to_emit(self, subtask: SubtaskId) -> list[SubtaskId]:
        vertex = subtask[0]
        if subtask not in self._subtasks:  # the attempt does not run yet
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

    def _cease_to_await(self, subtask: SubtaskId) -> None:
        taken = self._awaiting.pop(subtask)
        self._taken[taken] -= 1
        if not self._taken[taken]:
            del self._taken[taken]

    def _count(self) -> None:
        self._taken = Counter(self._awaiting.values())
        self._emitting = Counter(vertex for vertex, index in self._that_emit())

    def _that_emit(self) -> Iterator[SubtaskId]:
        return (subtask for subtask in self if subtask not in self._awaiting)

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        assert not self._finished & self._awaiting.keys(), "a subtask awaits and has finished"
        assert self._taken == Counter(self._awaiting.values()), "the awaiting are miscounted"
        emitting = Counter(vertex for vertex, index in self._that_emit())
        assert +self._emitting == emitting, "the emitting are miscounted"
