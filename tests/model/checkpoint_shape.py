"""What is explored of checkpoints: scripts with barriers, and what may happen beside them."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.wire.events import Alignment, CheckpointBarrier, CheckpointOptions
from tests.model.shape import DATA, END, END_OF_DATA, MORE_DATA, OPEN_DATA, Shape

TIMEOUT_MS = 10

OPTIONS = {
    "A": CheckpointOptions(),
    "F": CheckpointOptions(alignment=Alignment.FORCED_ALIGNED),
    "T": CheckpointOptions(aligned_timeout_ms=TIMEOUT_MS),
    "U": CheckpointOptions(alignment=Alignment.UNALIGNED),
}
"""Barriers: aligned, forced to be, with a time-out, unaligned. The first of a script is checkpoint
1, the next one 2."""

CANCEL = "X"
"""A cancel marker, in place of a barrier."""

OF_CHECKPOINTS = (*OPTIONS, CANCEL)
EVENTS = (*OF_CHECKPOINTS, END_OF_DATA, END)
DATA_OPERATIONS = (DATA, OPEN_DATA, MORE_DATA)


@dataclass(frozen=True)
class CheckpointShape(Shape):
    """Beside scripts and buffers: channels whose producer is in the consumer's worker, a checkpoint
    that the coordinator may abort at any moment, and whether time passes."""

    exclusive: int = 1
    floating: int = 0
    local: tuple[int, ...] = ()
    aborts: int | None = None
    times: bool = False

    @property
    def remote(self) -> tuple[int, ...]:
        """Channels whose producer is in another worker, in the order of their numbers on it."""
        return tuple(index for index in range(self.channels) if index not in self.local)

    def barrier(self, index: int, position: int) -> CheckpointBarrier:
        """The barrier at a place of a script."""
        options = OPTIONS[self.scripts[index][position]]
        return CheckpointBarrier(self.checkpoint(index, position), 0, options)

    def checkpoint(self, index: int, position: int) -> int:
        """The checkpoint of the barrier or marker at a place of a script."""
        before = self.scripts[index][: position + 1]
        return sum(operation in OF_CHECKPOINTS for operation in before)

    def in_front(self, index: int, checkpoint_id: int) -> tuple[int, ...] | None:
        """The records of a channel that belong to a checkpoint; None if it cannot be complete.

        All of them, if the channel ends without a barrier of it."""
        script = self.scripts[index]
        places = [place for place, operation in enumerate(script) if operation in OF_CHECKPOINTS]
        end = len(script)
        if checkpoint_id <= len(places):
            end = places[checkpoint_id - 1]
            if script[end] == CANCEL:
                return None
        elif not script.endswith(END):
            return None
        return tuple(
            place for place, operation in enumerate(script[:end]) if operation in DATA_OPERATIONS
        )

    def __str__(self) -> str:
        beside = f" local {self.local}" if self.local else ""
        beside += f" aborts {self.aborts}" if self.aborts is not None else ""
        beside += " times" if self.times else ""
        return super().__str__() + beside
