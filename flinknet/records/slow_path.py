"""The slow path of a writer: the part that may wait in the middle of a record."""

from __future__ import annotations

from flinknet.buffer.availability import Availability, Wait, WaitReason

__all__ = ["SlowPath"]


class SlowPath:
    """Lets one emit at a time through the part that may wait in the middle of a record."""

    __slots__ = ("_free", "_wait")

    def __init__(self, wait: Wait) -> None:
        self._free = Availability(available=True)
        self._wait = wait

    async def __aenter__(self) -> None:
        while not self._free.available:
            await self._wait(self._free, WaitReason.SOFT_BACKPRESSURE)
        self._free.set(False)

    async def __aexit__(self, *exception: object) -> None:
        self._free.set(True)
