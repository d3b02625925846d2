"""The end of a subtask with a savepoint: what it does from its part in it on.

Theory of operation. A savepoint with which the job ends is taken in a mail, in which the subtask
then stays (``hold``) until it is known what has become of the savepoint. So no record is processed
behind the barrier, and no timer goes off. If the savepoint is complete, ``hold`` raises ``Stopped``
through whatever the subtask was at: nothing more is emitted, and no end of input happens, but for
what a drained one has done before. If it has failed, the subtask goes on where it was.

What has become of it is said at any moment, also before the subtask holds. Flink: StreamTask's
stop-with-savepoint, EndOfData with its StopMode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinknet.buffer.availability import Availability
from flinknet.net.task_clock import until_available

__all__ = ["SavepointStop", "Stopped"]

OUTCOMES_KEPT = 16
"""Checkpoints that end between a subtask's part in one and the next look: a few."""


class Stopped(BaseException):
    """The job ends with a savepoint that is complete. No Exception: no function may handle it."""


class SavepointStop:
    """Whether a subtask is to stop; ``post`` has a call made between two batches."""

    def __init__(self, post: Callable[[Callable[[], Any]], None]) -> None:
        self.post = post
        self.has_stopped = False
        self._outcomes: dict[int, bool] = {}
        self._known = Availability()

    def ended(self, checkpoint_id: int, *, complete: bool) -> None:
        """It is known what has become of a checkpoint."""
        self._outcomes[checkpoint_id] = complete
        if len(self._outcomes) > OUTCOMES_KEPT:
            del self._outcomes[next(iter(self._outcomes))]
        self._known.set(True)

    def is_aborted(self, checkpoint_id: int) -> bool:
        """Whether a checkpoint is known to have failed."""
        return self._outcomes.get(checkpoint_id) is False

    async def hold(self, checkpoint_id: int) -> None:
        """Return when the savepoint has failed, raise Stopped when it is complete."""
        while checkpoint_id not in self._outcomes:
            self._known.set(False)
            await until_available(self._known)
        if self._outcomes[checkpoint_id]:
            self.has_stopped = True
            raise Stopped

    def post_timer(self, action: Callable[[], Any]) -> None:
        """Have a timer's function called between two batches, unless the subtask has stopped."""
        self.post(lambda: None if self.has_stopped else action())
