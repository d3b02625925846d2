"""The slow path of a writer: the part that may wait in the middle of a record."""

from __future__ import annotations

from flinknet.buffer.availability import Availability, Wait, WaitReason

__all__ = ["SlowPath"]


class SlowPath:
    """Lets one emit at a time through the part that may wait in the middle of a record.

    ``while slow_path.busy: await slow_path.until_free()``, then ``with slow_path:``; nothing can
    come between the two, because nothing is awaited there.
    """

    __slots__ = ("_free", "_wait", "busy")

    def __init__(self, wait: Wait) -> None:
        self.busy = False
        self._free = Availability()
        self._wait = wait

    async def until_free(self) -> None:
        """Wait until whoever is inside has left."""
        self._free.set(False)
        await self._wait(self._free, WaitReason.SOFT_BACKPRESSURE)

    def __enter__(self) -> None:
        assert not self.busy, "two tasks are in the slow path of a writer"
        self.busy = True

    def __exit__(self, *exception: object) -> None:
        self.busy = False
        if self._free.waiting:
            self._free.set(True)
