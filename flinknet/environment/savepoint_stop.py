"""Stop of a subtask with a savepoint, from its part in the savepoint on.

Theory of operation. A subtask takes part in a savepoint that ends the job in a mail, between two
batches. It stays in this mail (``hold``) until the outcome of the savepoint is known. Meanwhile no
record after the barrier is processed, and no timer fires. If the savepoint is complete, ``hold``
raises ``Stopped`` through all code of the subtask. Nothing more is emitted then, and no end of
input is processed; a drained subtask has processed it before. If the savepoint has failed, the
subtask continues.

The outcome may be reported at any time, also before the subtask holds. Flink: StreamTask's
stop-with-savepoint, EndOfData with its StopMode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinknet.buffer.availability import Availability
from flinknet.net.task_clock import until_available

__all__ = ["SavepointStop", "Stopped"]

OUTCOMES_KEPT = 16
"""Number of remembered outcomes.

Only a few checkpoints end between a subtask's part in a checkpoint and its next check.
"""


class Stopped(BaseException):
    """The job ends with a complete savepoint.

    Not derived from Exception, so that no function handles it.
    """


class SavepointStop:
    """The outcomes of savepoints for one subtask; ``post`` schedules a call between two batches."""

    def __init__(self, post: Callable[[Callable[[], Any]], None]) -> None:
        self.post = post
        self.has_stopped = False
        self._outcomes: dict[int, bool] = {}
        self._known = Availability()

    def ended(self, checkpoint_id: int, *, complete: bool) -> None:
        """Report the outcome of a checkpoint."""
        self._outcomes[checkpoint_id] = complete
        if len(self._outcomes) > OUTCOMES_KEPT:
            del self._outcomes[next(iter(self._outcomes))]
        self._known.set(True)

    def is_aborted(self, checkpoint_id: int) -> bool:
        """Return whether a checkpoint is known to have failed."""
        return self._outcomes.get(checkpoint_id) is False

    async def hold(self, checkpoint_id: int) -> None:
        """Wait for the outcome of a savepoint. Raises Stopped if it is complete."""
        while checkpoint_id not in self._outcomes:
            self._known.set(False)
            await until_available(self._known)
        if self._outcomes[checkpoint_id]:
            self.has_stopped = True
            raise Stopped

    def post_timer(self, action: Callable[[], Any]) -> None:
        """Schedule a timer's function between two batches, unless the subtask has stopped."""
        self.post(lambda: None if self.has_stopped else action())
