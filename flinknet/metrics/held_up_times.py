"""For how long, and by whom, an event loop was kept from turning.

Theory of operation. Somebody outside of the loop, a thread, looks at it every ``pause_s``: whether
it has turned since the last look, and which task runs. Time is a task's if the loop has not turned
from one look to the next and the same task runs at both: many tasks that take their turns keep a
loop busy, but nobody holds it up. If the looks themselves are late, the whole process stood still:
C code that keeps the interpreter, a stopped process, or a machine with too much to do; no task
gets that time. Collections of garbage stop everything too, but they have an account of their own
(``garbage_totals.py``): their time is taken off here, so that none stands twice.

Owned counters: seconds by task; "" is nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from flinknet.metrics.worker_statistics import HeldUp

__all__ = ["TASKS_TOLD_MAX", "HeldUpTimes"]

LATE = 3.0
"""How many pauses a look may take to come before that is a time in which all stood still."""

TASKS_TOLD_MAX = 16
"""Tasks that are told of, and about twice as many that are remembered: names come and go."""


class HeldUpTimes:
    """The account of one event loop. ``now`` is given, in seconds, and never goes back."""

    def __init__(
        self, pause_s: float, now: float, collected_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        """``collected_s`` says for how long garbage has been collected up to now."""
        self._pause_s = pause_s
        self._collected_s = collected_s
        self._collected_before_s = collected_s()
        self._looked_at = now
        self._held_by: str | None = None
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._stacks: dict[str, str] = {}

    def look(self, now: float, *, has_turned: bool, task: str = "", stack: str = "") -> None:
        """The loop has turned since the last look, or not; ``task`` is who runs in it now."""
        collected_s = self._collected_s()
        passed = max(0.0, now - self._looked_at - (collected_s - self._collected_before_s))
        self._looked_at, self._collected_before_s = now, collected_s
        if passed > LATE * self._pause_s:
            self._add("", passed - self._pause_s, "")
            self._held_by = None
        elif has_turned:
            self._held_by = None
        else:
            if task and task == self._held_by:
                self._add(task, passed, stack)
            self._held_by = task

    def told(self) -> tuple[HeldUp, ...]:
        """Those that have held the loop up for longest first."""
        order = sorted(self._seconds, key=lambda task: -self._seconds[task])
        return tuple(
            HeldUp(task, self._seconds[task], self._stacks[task]) for task in order[:TASKS_TOLD_MAX]
        )

    def _add(self, task: str, seconds: float, stack: str) -> None:
        self._seconds[task] += seconds
        self._stacks[task] = stack
        if len(self._seconds) > 2 * TASKS_TOLD_MAX:
            least = min(self._seconds.keys() - {task, ""}, key=lambda one: self._seconds[one])
            del self._seconds[least], self._stacks[least]
