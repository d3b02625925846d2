"""The exchange mode of an edge: when the one side may read what the other one writes."""

from __future__ import annotations

from enum import StrEnum

from flinknet.errors import ConfigurationError
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.partition.subpartition import SubpartitionFactory

__all__ = ["ExchangeMode"]


class ExchangeMode(StrEnum):
    """How the results of an edge are exchanged (Flink's ResultPartitionType); the names travel."""

    PIPELINED_BOUNDED = "PIPELINED_BOUNDED"
    """Read while it is written, once, through a bounded number of buffers."""
    BLOCKING = "BLOCKING"
    """Read when it is complete, any number of times. No subpartition keeps data for so long yet, so
    that no job and no partition can have it."""

    @property
    def is_pipelined(self) -> bool:
        """Whether producer and consumer have to run at the same time, as one region."""
        return self is ExchangeMode.PIPELINED_BOUNDED

    def subpartition_factory(self) -> SubpartitionFactory:
        """What makes the subpartitions. Raises ConfigurationError if there is nothing yet."""
        factory = _FACTORIES.get(self)
        if factory is None:
            raise ConfigurationError(
                f"a result partition cannot be {self}: choose {', '.join(_FACTORIES)}"
            )
        return factory


_FACTORIES: dict[ExchangeMode, SubpartitionFactory] = {
    ExchangeMode.PIPELINED_BOUNDED: PipelinedSubpartition
}
