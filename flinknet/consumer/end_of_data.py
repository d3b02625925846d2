"""How the data of several channels ends, taken together (Flink's EndOfDataStatus)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

__all__ = ["EndOfData"]


class EndOfData(Enum):
    """Drained if every producer had read all of its input, stopped if one was stopped before."""

    NOT_END_OF_DATA = "not end of data"
    DRAINED = "drained"
    STOPPED = "stopped"

    @classmethod
    def of(cls, drained: Sequence[bool | None]) -> EndOfData:
        """Judge by what each producer said; None stands for one that has not ended its data."""
        if None in drained:
            return cls.NOT_END_OF_DATA
        return cls.DRAINED if all(drained) else cls.STOPPED
