"""Checkpoint options: the kind of checkpoint that a barrier begins, and its alignment.

| alignment | meaning |
|---|---|
| ALIGNED | a barrier blocks its channel until the barriers of all other channels have come |
| ALIGNED, with a timeout | the same; when the time is over, it continues as UNALIGNED |
| UNALIGNED | the barrier overtakes data, which becomes part of the checkpoint |
| FORCED_ALIGNED | aligned, because this exchange cannot be unaligned, even if others are |
| AT_LEAST_ONCE | nothing is blocked or overtaken |

The timeout counts from the barrier's creation at the coordinator. Each subtask counts it for
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from flinknet.buffer.buffer import DataType
from flinknet.errors import LocalProtocolError

__all__ = ["Alignment", "CheckpointKind", "CheckpointOptions"]

ALIGNED_TIMEOUT_MS_MAX = 0xFFFFFFFF
"""Largest timeout that fits the wire format: 49 days."""


class CheckpointKind(IntEnum):
    """Kind of a checkpoint; the numbers travel on the wire."""

    CHECKPOINT = 0
    SAVEPOINT = 1
    SAVEPOINT_SUSPEND = 2
    """The job ends with this savepoint, before the end of its input."""
    SAVEPOINT_TERMINATE = 3
    """The job ends with this savepoint, as if its input had ended: windows and timers fire."""

    @property
    def is_savepoint(self) -> bool:
        """Whether a user requested it and owns it; a savepoint is never unaligned."""
        return self is not CheckpointKind.CHECKPOINT

    @property
    def stops(self) -> bool:
        """Whether the job ends with it."""
        return self in (CheckpointKind.SAVEPOINT_SUSPEND, CheckpointKind.SAVEPOINT_TERMINATE)


class Alignment(IntEnum):
    """Alignment of the barriers; the numbers travel on the wire."""

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
    """Options of a barrier (Flink's CheckpointOptions).

    ``aligned_timeout_ms`` is None for no timeout, and always None without alignment. A forced
    alignment carries the timeout for exchanges that are not forced, and does not time out itself.

    Raises:
        LocalProtocolError: If the combination does not exist.
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
                f"{self.alignment.name} has an alignment time-out of {timeout} ms: only an aligned "
                "barrier can time out"
            )
        if not 1 <= timeout <= ALIGNED_TIMEOUT_MS_MAX:
            raise LocalProtocolError(
                f"an alignment time-out is {timeout} ms: choose 1 to {ALIGNED_TIMEOUT_MS_MAX}, or "
                f"UNALIGNED instead of 0"
            )

    @property
    def is_timeoutable(self) -> bool:
        """Whether the alignment can time out, after which the checkpoint is unaligned."""
        return self.alignment is Alignment.ALIGNED and self.aligned_timeout_ms is not None

    @property
    def data_type(self) -> DataType:
        """Data type of the barrier's buffer."""
        if self.is_timeoutable:
            return DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
        return _DATA_TYPES[self.alignment]

    def to_unaligned(self) -> CheckpointOptions:
        """Return the options after the timeout.

        Raises:
            LocalProtocolError: If there is no timeout.
        """
        if not self.is_timeoutable:
            raise LocalProtocolError(f"{self} does not time out, so it never becomes unaligned")
        return CheckpointOptions(self.kind, Alignment.UNALIGNED)
