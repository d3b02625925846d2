"""Shapes of worlds with checkpoints: scripts with barriers, aborts, and the passing of time."""

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
"""Barriers: aligned, forced to align, with an alignment timeout, unaligned.

The first barrier of a script belongs to checkpoint 1, the next one to checkpoint 2.
"""

CANCEL = "X"
"""A cancellation marker, in place of a barrier."""

OF_CHECKPOINTS = (*OPTIONS, CANCEL)
EVENTS = (*OF_CHECKPOINTS, END_OF_DATA, END)
DATA_OPERATIONS = (DATA, OPEN_DATA, MORE_DATA)


@dataclass(frozen=True)
class CheckpointShape(Shape):
    """A shape with checkpoints.

    Beside scripts and buffers it has channels with a producer in the consumer's worker
    (``local``), a checkpoint that the coordinator may abort at any moment (``aborts``), and whether
    time passes (``times``).
    """

    exclusive: int = 1
    floating: int = 0
    local: tuple[int, ...] = ()
    aborts: int | None = None
    times: bool = False

    @property
    def remote(self) -> tuple[int, ...]:
        """Channels with a producer in another worker, in the order of their numbers there."""
        return tuple(index for index in range(self.channels) if index not in self.local)

    def barrier(self, index: int, position: int) -> CheckpointBarrier:
        """Return the barrier at a position of a script."""
        options = OPTIONS[self.scripts[index][position]]
        return CheckpointBarrier(self.checkpoint(index, position), 0, options)

    def checkpoint(self, index: int, position: int) -> int:
        """Return the checkpoint of the barrier or marker at a position of a script."""
        before = self.scripts[index][: position + 1]
        return sum(operation in OF_CHECKPOINTS for operation in before)

    def in_front(self, index: int, checkpoint_id: int) -> tuple[int, ...] | None:
        """Return the records of a channel that belong to a checkpoint.

        None if the checkpoint cannot complete. A channel that ends without a barrier of it
        contributes all of its records.
        """
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
