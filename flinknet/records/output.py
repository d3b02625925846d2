"""Outputs: the destinations of a writer, either one subpartition or all of them.

An output holds the builder that was opened last. A route only checks the builder's ``remaining``,
which is 0 once the builder was sealed or a reader has taken from it. The writer then resumes the
builder, or requests the next one here.

The outputs of one partition exclude each other: opening a builder in a subpartition seals the
builder before it, shared or not.
"""

from __future__ import annotations

from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.partition.result_partition import ResultPartition
from flinknet.partition.subpartition import ResultSubpartition

__all__ = ["BroadcastOutput", "Output", "SubpartitionOutput"]


class Output:
    """Destination of records."""

    __slots__ = ("builder", "target")

    target: ResultSubpartition | ResultPartition
    """Target of the output. If it is ``released``, it has no reader, and records are dropped."""

    def __init__(self, target: ResultSubpartition | ResultPartition) -> None:
        self.builder: BufferBuilder = NO_BUILDER
        self.target = target

    def open(self) -> bool:
        """Open the next builder; return False if there is no buffer now."""
        raise NotImplementedError

    def seal(self) -> None:
        """Seal the open builder, shared or not, so that later records come after it."""
        raise NotImplementedError

    def flush(self) -> None:
        """Make all written records available to the readers."""
        raise NotImplementedError


class SubpartitionOutput(Output):
    """Output to one subpartition."""

    __slots__ = ("_index", "_partition", "_subpartition")

    def __init__(self, partition: ResultPartition, index: int) -> None:
        super().__init__(partition.subpartitions[index])
        self._partition = partition
        self._index = index
        self._subpartition = partition.subpartitions[index]

    def open(self) -> bool:
        """Open a builder of the subpartition."""
        builder = self._partition.request_builder(self._index, self.builder)
        if builder is None:
            return False
        self.builder = builder
        return True

    def seal(self) -> None:
        """Seal the open builder of the subpartition."""
        self._subpartition.seal_open()

    def flush(self) -> None:
        """Make all written records available to the reader."""
        self._subpartition.flush()


class BroadcastOutput(Output):
    """Output to all subpartitions, which share each builder."""

    __slots__ = ("_partition",)

    def __init__(self, partition: ResultPartition) -> None:
        super().__init__(partition)
        self._partition = partition

    def open(self) -> bool:
        """Open a builder that all subpartitions share."""
        builder = self._partition.request_broadcast_builder()
        if builder is None:
            return False
        self.builder = builder
        return True

    def seal(self) -> None:
        """Seal the open builders of all subpartitions."""
        self._partition.seal_all()

    def flush(self) -> None:
        """Make all written records available to every reader."""
        self._partition.flush_all()
