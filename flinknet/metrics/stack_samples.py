"""What subtasks were seen doing: samples of their stacks, counted.

Theory of operation. A subtask is looked at again and again. Each time each of its tasks and threads
is at some place in its code, its *stack*: the calls that led there, the outermost first. Stacks
that are the same are counted together, apart by whether they were on the CPU. Beside them it is
counted how often a subtask was looked at, and how often it waited for memory for its output then:
the part of the looks in which it did is the backpressure that Flink told before 1.13.

Of different stacks only so many are kept; what comes beyond counts as a stack of one call that says
so. Samples of several workers are put together with ``add_all``.

Owned counters: stacks; looks, and those of them with backpressure, by subtask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import msgpack

__all__ = ["Looks", "Stack", "StackSamples"]

Calls: TypeAlias = tuple[str, ...]
"""What is called, the outermost first."""

OTHERS: Calls = ("(other stacks)",)


class Stack(NamedTuple):
    """Where a task or thread of a subtask was seen."""

    subtask_index: int
    is_on_cpu: bool
    calls: Calls


class Looks(NamedTuple):
    """How often a subtask was looked at."""

    all: int
    backpressured: int
    """In so many of them it waited for memory for its output."""

    @property
    def ratio(self) -> float:
        """The part of the looks in which it was backpressured; 0 if there was none."""
        return self.backpressured / self.all if self.all else 0.0


class StackSamples:
    """Counts of stacks, at most ``stacks_max`` different ones."""

    def __init__(self, stacks_max: int) -> None:
        self._stacks_max = stacks_max
        self._stacks: Counter[Stack] = Counter()
        self._looks: Counter[int] = Counter()
        self._backpressured: Counter[int] = Counter()

    def add_stack(self, stack: Stack, times: int = 1) -> None:
        """A task or thread was seen somewhere."""
        if stack not in self._stacks and len(self._stacks) >= self._stacks_max:
            stack = stack._replace(calls=OTHERS)
        self._stacks[stack] += times

    def add_look(self, subtask_index: int, *, is_backpressured: bool) -> None:
        """A subtask was looked at, whatever of it was seen."""
        self._looks[subtask_index] += 1
        self._backpressured[subtask_index] += is_backpressured

    def add_all(self, others: StackSamples) -> None:
        """Count what others have seen, of other subtasks."""
        for stack, times in others.stacks():
            self.add_stack(stack, times)
        self._looks.update(others._looks)
        self._backpressured.update(others._backpressured)

    def stacks(self) -> Iterator[tuple[Stack, int]]:
        """The different stacks, and how often each was seen."""
        return iter(self._stacks.items())

    def looks(self) -> dict[int, Looks]:
        """How often each subtask was looked at, by its index."""
        return {
            index: Looks(times, self._backpressured[index])
            for index, times in sorted(self._looks.items())
        }

    def pack(self) -> bytes:
        """Bytes for ``unpack``; each call's text is in them once."""
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
        """Inverse of ``pack``; ValueError if these are no samples."""
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
