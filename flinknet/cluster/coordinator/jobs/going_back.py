"""Decides whether a job may go back to an older checkpoint.

Theory of operation
-------------------
Functions and sinks that are notified of a completed checkpoint make output visible that restoring
state cannot undo. The *newest* checkpoint that they may have been notified of is therefore
remembered, also across coordinators. Before an attempt, or some regions of it, restarts, the newest
is compared with the checkpoint that was found in storage:

    newest  found    outputs                          continuation
    0       none     any                              START
    n       none     any                              LOST: never from the start in silence
    n       n        any                              NEWEST; also if a later one was found
    n       f < n    each can withdraw, or none       OLDER
    n       f < n    one cannot, repetition allowed   REPEAT
    n       f < n    one cannot                       REFUSED

When the job goes back to an older checkpoint, the later ones are *passed over*. The job never
continues from them, even if they reappear, because their output was withdrawn. Checkpoint numbers
are never reused, so that a range of numbers identifies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from flinknet.graph.graph import CheckpointedOutput

__all__ = ["CompletedCheckpoints", "Continuation", "continuation", "refusal"]


class Continuation(Enum):
    """The decision for a found checkpoint, or for none."""

    START = "it starts from its beginning: it has completed no checkpoint"
    NEWEST = "it continues from the newest checkpoint"
    OLDER = "it goes back to an older one, and withdraws its output since then"
    REPEAT = "it goes back to an older one, and repeats its output since then"
    LOST = "it has completed checkpoints, and none exists"
    REFUSED = "it must not go back: it would repeat its output since then"

    @property
    def is_failure(self) -> bool:
        """Whether the job cannot go on."""
        return self in (Continuation.LOST, Continuation.REFUSED)

    @property
    def goes_back(self) -> bool:
        """Whether checkpoints are passed over."""
        return self in (Continuation.OLDER, Continuation.REPEAT)


def continuation(
    newest: int,
    found: int | None,
    outputs: Iterable[CheckpointedOutput],
    *,
    may_repeat: bool,
) -> Continuation:
    """Return how a job continues.

    ``newest`` is the newest checkpoint of which the ``outputs`` may have been notified, 0 for none.
    ``outputs`` are those that restart. ``found`` is the checkpoint that exists, None for none.
    """
    if found is None:
        return Continuation.LOST if newest else Continuation.START
    if found >= newest:
        return Continuation.NEWEST
    if all(one.can_withdraw for one in outputs):
        return Continuation.OLDER
    return Continuation.REPEAT if may_repeat else Continuation.REFUSED


def refusal(newest: int, found: str, outputs: Iterable[CheckpointedOutput], damage: str) -> str:
    """Return why a job must not go back from its ``newest`` checkpoint to the ``found`` one."""
    names = sorted({f'"{one.name}"' for one in outputs if not one.can_withdraw})
    return (
        f"found {found} as the newest checkpoint of the job that can be restored, but had told "
        f"{', '.join(names)} that checkpoint {newest} is complete; the output since then "
        f"cannot be withdrawn, and would be repeated{damage and ': '}{damage}. Bring checkpoint "
        f"{newest} back and continue the job from it, or allow repeated output "
        "(CheckpointConfig.set_allow_repeated_output, "
        f"execution.checkpointing.allow-repeated-output) and continue it from {found}"
    )


@dataclass(slots=True)
class CompletedCheckpoints:
    """The completed checkpoints that a job knows of; numbers start at 1."""

    newest: int = 0
    """The last one of which functions and sinks may have been notified; 0 for none."""
    passed_over: list[tuple[int, int]] = field(default_factory=list)
    """``(older, next)``: the job went back to ``older`` when ``next`` was the next free number.
    Both values increase from one entry to the next."""

    def note(self, number: int) -> None:
        """Note a checkpoint that functions and sinks will be, or may have been, notified of."""
        self.newest = max(self.newest, number)

    def is_passed_over(self, number: int) -> bool:
        """Return whether the job has gone back behind this checkpoint."""
        return any(older < number < until for older, until in self.passed_over)

    def go_back(self, older: int, until: int, *, all_of_it: bool) -> None:
        """Go back to an ``older`` checkpoint; the next checkpoint has the number ``until``.

        With ``all_of_it`` the whole job goes back, otherwise only some regions.
        """
        kept = [one for one in self.passed_over if one[0] < older]
        self.passed_over = [*kept, (older, until)]
        if all_of_it:
            self.newest = older

    def restore(self, newest: int, passed_over: Sequence[Sequence[int]]) -> None:
        """Restore the state that the previous coordinator persisted."""
        self.newest = newest
        self.passed_over = [(older, until) for older, until in passed_over]
