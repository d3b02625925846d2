"""The combined end of data of several channels (Flink's EndOfDataStatus)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

__all__ = ["EndOfData"]


class EndOfData(Enum):
    """Drained if every producer had read all of its input, stopped if any was stopped before."""

    NOT_END_OF_DATA = "not end of data"
    DRAINED = "drained"
    STOPPED = "stopped"

    @classmethod
    def of(cls, drained: Sequence[bool | None]) -> EndOfData:
        """Combine the channels' ``drained`` flags; None means that the data has not ended."""
        if None in drained:
            return cls.NOT_END_OF_DATA
        return cls.DRAINED if all(drained) else cls.STOPPED
