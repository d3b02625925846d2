"""Time for which single tasks blocked an event loop.

A thread outside the loop samples it every ``pause_s``: whether the loop has iterated since the last
sample, and which task is running. Time counts for a task if the loop has not iterated between two
samples and the same task is running at both. Many tasks that take turns keep a loop busy, but none
of them blocks it.

If the samples themselves are late, the whole process stood still: because of C code that holds the
interpreter lock, a stopped process, or an overloaded machine. This time counts for no task. Garbage
collections stop everything as well, but have an account of their own (``garbage_totals.py``). Their
time is subtracted here, so that it is not counted twice.

Owned counters: seconds by task, with "" for no task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from flinknet.metrics.worker_statistics import HeldUp

__all__ = ["TASKS_TOLD_MAX", "HeldUpTimes"]

LATE = 3.0
"""Number of pauses after which a late sample means that the whole process stood still."""

TASKS_TOLD_MAX = 16
"""Maximum number of tasks reported; about twice as many are remembered, as names come and go."""


class HeldUpTimes:
    """The account of one event loop; ``now`` is a monotonic time in seconds."""

    def __init__(
        self, pause_s: float, now: float, collected_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        """Start an account; ``collected_s`` returns the total time of garbage collections."""
        self._pause_s = pause_s
        self._collected_s = collected_s
        self._collected_before_s = collected_s()
        self._looked_at = now
        self._held_by: str | None = None
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._stacks: dict[str, str] = {}

    def look(self, now: float, *, has_turned: bool, task: str = "", stack: str = "") -> None:
        """Record a sample of the loop; ``task`` is the task that is running."""
        collected_s = self._collected_s()
        passed = max(0.0, now - self._looked_at - (collected_s - self._collected_before_s))
        self._looked_at, self._collected_before_s = now, collected_s
        if passed > LATE * self._pause_s:
            # The sample itself was late: the whole process stood still.
            self._add("", passed - self._pause_s, "")
            self._held_by = None
        elif has_turned:
            self._held_by = None
        else:
            # The same task was running at the previous sample.
            if task and task == self._held_by:
                self._add(task, passed, stack)
            self._held_by = task

    def told(self) -> tuple[HeldUp, ...]:
        """Return the tasks that blocked the loop, the longest first."""
        order = sorted(self._seconds, key=lambda task: -self._seconds[task])
        return tuple(
            HeldUp(task, self._seconds[task], self._stacks[task]) for task in order[:TASKS_TOLD_MAX]
        )

    def _add(self, task: str, seconds: float, stack: str) -> None:
        self._seconds[task] += seconds
        self._stacks[task] = stack
        if len(self._seconds) > 2 * TASKS_TOLD_MAX:
            # Keep the newest task, and the entry of the whole process.
            least = min(self._seconds.keys() - {task, ""}, key=lambda one: self._seconds[one])
            del self._seconds[least], self._stacks[least]
