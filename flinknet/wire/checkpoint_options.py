"""Checkpoint options: which kind of checkpoint a barrier begins, and how its channels align.

| alignment | means |
|---|---|
| ALIGNED | a channel is blocked by its barrier until that of every other channel has come |
| ALIGNED, with a time-out | the same; what is missing when the time is over goes on UNALIGNED |
| UNALIGNED | the barrier overtakes data; what it overtakes is part of the checkpoint |
| FORCED_ALIGNED | aligned, because this exchange cannot be unaligned, whatever others are |
| AT_LEAST_ONCE | nothing is blocked, and nothing overtaken |

The time-out is counted from the barrier's creation at the coordinator, by every subtask for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from flinknet.buffer.buffer import DataType
from flinknet.errors import LocalProtocolError

__all__ = ["Alignment", "CheckpointKind", "CheckpointOptions"]

ALIGNED_TIMEOUT_MS_MAX = 0xFFFFFFFF
"""What a time-out has room for on the wire: 49 days."""


class CheckpointKind(IntEnum):
    """What is asked for; the numbers travel."""

    CHECKPOINT = 0
    SAVEPOINT = 1
    SAVEPOINT_SUSPEND = 2
    """The job ends with it, before its input has ended."""
    SAVEPOINT_TERMINATE = 3
    """The job ends with it, as if its input had ended: windows fire, timers run out."""

    @property
    def is_savepoint(self) -> bool:
        """Whether somebody has asked for it, who keeps it; such a one is never unaligned."""
        return self is not CheckpointKind.CHECKPOINT

    @property
    def stops(self) -> bool:
        """Whether the job ends with it."""
        return self in (CheckpointKind.SAVEPOINT_SUSPEND, CheckpointKind.SAVEPOINT_TERMINATE)


class Alignment(IntEnum):
    """How barriers meet; the numbers travel."""

    ALIGNED = 0
    UNALIGNED = 1
    FORCED_ALIGNED = 2
    AT_LEAST_ONCE = 3


_MAY_TIME_OUT = frozenset((Alignment.ALIGNED, Alignment.FORCED_ALIGNED))

_DATA_TYPES = {
    Alignment.ALIGNED: DataType.ALIGNED_CHECKPOINT_BARRIER,
    Alignment.UNALIGNED: DataType.PRIORITIZED_EVENT_BUFFER,
    Alignment.FORCED_ALIGNED: DataType.ALIGNED_CHECKPOINT_BARRIER,
    Alignment.AT_LEAST_ONCE: DataType.EVENT_BUFFER,
}


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """What goes with a barrier (Flink's CheckpointOptions).

    ``aligned_timeout_ms`` is None for no time-out. Only what is aligned has one; a forced alignment
    keeps that of the exchanges which are not forced, and does not time out itself. Raises
    LocalProtocolError for a combination that does not exist.
    """

    kind: CheckpointKind = CheckpointKind.CHECKPOINT
    alignment: Alignment = Alignment.ALIGNED
    aligned_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        timeout = self.aligned_timeout_ms
        if self.kind.is_savepoint and (
            self.alignment is Alignment.UNALIGNED or timeout is not None
        ):
            raise LocalProtocolError(
                f"a {self.kind.name} cannot be unaligned, nor time out: its channels are aligned"
            )
        if timeout is None:
            return
        if self.alignment not in _MAY_TIME_OUT:
            raise LocalProtocolError(
                f"{self.alignment.name} has an alignment time-out of {timeout} ms: only what is "
                f"aligned can time out"
            )
        if not 1 <= timeout <= ALIGNED_TIMEOUT_MS_MAX:
            raise LocalProtocolError(
                f"an alignment time-out is {timeout} ms: choose 1 to {ALIGNED_TIMEOUT_MS_MAX}, or "
                f"UNALIGNED instead of 0"
            )

    @property
    def is_timeoutable(self) -> bool:
        """Whether the alignment ends after some time, with the checkpoint unaligned from then."""
        return self.alignment is Alignment.ALIGNED and self.aligned_timeout_ms is not None

    @property
    def data_type(self) -> DataType:
        """How the barrier travels."""
        if self.is_timeoutable:
            return DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
        return _DATA_TYPES[self.alignment]

    def to_unaligned(self) -> CheckpointOptions:
        """The options when the time is over. Raises LocalProtocolError if there is no time-out."""
        if not self.is_timeoutable:
            raise LocalProtocolError(f"{self} does not time out, so it never becomes unaligned")
        return CheckpointOptions(self.kind, Alignment.UNALIGNED)
