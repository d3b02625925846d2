"""The exchange mode of an edge: when the consumer may read the producer's data."""

from __future__ import annotations

from enum import StrEnum

from flinknet.errors import ConfigurationError
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.partition.subpartition import SubpartitionFactory

__all__ = ["ExchangeMode"]


class ExchangeMode(StrEnum):
    """Exchange mode of an edge (Flink's ResultPartitionType); the names travel on the wire."""

    PIPELINED_BOUNDED = "PIPELINED_BOUNDED"
    """Read once, while it is written, through a bounded number of buffers."""
    BLOCKING = "BLOCKING"
    """Read after it is complete, any number of times. No kind of subpartition keeps data for that
    long yet, so jobs and partitions cannot use this mode."""

    @property
    def is_pipelined(self) -> bool:
        """Whether producer and consumer must run at the same time, as one region."""
        return self is ExchangeMode.PIPELINED_BOUNDED

    def subpartition_factory(self) -> SubpartitionFactory:
        """Return the function that creates the subpartitions.

        Raises:
            ConfigurationError: If the mode is not supported yet.
        """
        factory = _FACTORIES.get(self)
        if factory is None:
            raise ConfigurationError(
                f"a result partition cannot be {self}: choose {', '.join(_FACTORIES)}"
            )
        return factory


_FACTORIES: dict[ExchangeMode, SubpartitionFactory] = {
    ExchangeMode.PIPELINED_BOUNDED: PipelinedSubpartition
}
