"""Counted samples of the stacks of subtasks.

A subtask is sampled repeatedly. Each sample records the *stack* of each of its tasks and threads:
the calls in progress, the outermost first. Equal stacks are counted together, separately for on and
off the CPU. The number of samples of a subtask is counted too, and the number of samples in which
it waited for memory for its output. The ratio of the two is the backpressure that Flink reported
before 1.13.

The number of different stacks is limited; further ones are counted as a stack of one placeholder
call. ``add_all`` combines samples of several workers.

Owned counters: stacks; samples, and samples with backpressure, by subtask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import msgpack

__all__ = ["Looks", "Stack", "StackSamples"]

Calls: TypeAlias = tuple[str, ...]
"""The calls of a stack, the outermost first."""

OTHERS: Calls = ("(other stacks)",)


class Stack(NamedTuple):
    """The stack of a task or thread of a subtask."""

    subtask_index: int
    is_on_cpu: bool
    calls: Calls


class Looks(NamedTuple):
    """Number of samples of a subtask."""

    all: int
    backpressured: int
    """Samples in which it waited for memory for its output."""

    @property
    def ratio(self) -> float:
        """The share of samples with backpressure; 0 without samples."""
        return self.backpressured / self.all if self.all else 0.0


class StackSamples:
    """Counts of stacks, at most ``stacks_max`` different ones."""

    def __init__(self, stacks_max: int) -> None:
        self._stacks_max = stacks_max
        self._stacks: Counter[Stack] = Counter()
        self._looks: Counter[int] = Counter()
        self._backpressured: Counter[int] = Counter()

    def add_stack(self, stack: Stack, times: int = 1) -> None:
        """Count a stack of a task or thread."""
        if stack not in self._stacks and len(self._stacks) >= self._stacks_max:
            stack = stack._replace(calls=OTHERS)
        self._stacks[stack] += times

    def add_look(self, subtask_index: int, *, is_backpressured: bool) -> None:
        """Count a sample of a subtask, even if it recorded no stack."""
        self._looks[subtask_index] += 1
        self._backpressured[subtask_index] += is_backpressured

    def add_all(self, others: StackSamples) -> None:
        """Add the samples of another worker, which are of other subtasks."""
        for stack, times in others.stacks():
            self.add_stack(stack, times)
        self._looks.update(others._looks)
        self._backpressured.update(others._backpressured)

    def stacks(self) -> Iterator[tuple[Stack, int]]:
        """Iterate over the different stacks with their counts."""
        return iter(self._stacks.items())

    def looks(self) -> dict[int, Looks]:
        """Return the number of samples of each subtask, by its index."""
        return {
            index: Looks(times, self._backpressured[index])
            for index, times in sorted(self._looks.items())
        }

    def pack(self) -> bytes:
        """Return bytes for ``unpack``, which contain the text of each call once."""
        texts: dict[str, int] = {}
        rows = [
            [
                stack.subtask_index,
                stack.is_on_cpu,
                [texts.setdefault(call, len(texts)) for call in stack.calls],
                times,
            ]
            for stack, times in self._stacks.items()
        ]
        looks = [[index, *counts] for index, counts in self.looks().items()]
        packed: bytes = msgpack.packb([list(texts), rows, looks])
        return packed

    @classmethod
    def unpack(cls, packed: bytes, stacks_max: int) -> StackSamples:
        """Return the samples in bytes from ``pack``; ValueError if the bytes are invalid."""
        try:
            texts, rows, looks = msgpack.unpackb(packed)
            return cls._of_rows(texts, rows, looks, stacks_max)
        except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
            raise ValueError(f"no stack samples: {error}") from error

    @classmethod
    def _of_rows(cls, texts: Any, rows: Any, looks: Any, stacks_max: int) -> StackSamples:
        samples = cls(stacks_max)
        for index, is_on_cpu, calls, times in rows:
            stack = Stack(int(index), bool(is_on_cpu), tuple(str(texts[one]) for one in calls))
            samples.add_stack(stack, int(times))
        for index, times, backpressured in looks:
            samples._looks[int(index)] += int(times)
            samples._backpressured[int(index)] += int(backpressured)
        return samples
