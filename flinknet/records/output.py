"""Outputs: where a writer appends, one subpartition or all of them at once.

An output knows the builder that was opened last. Appending to it needs no more than its
``remaining``, which is 0 once anybody has sealed it or taken from it; the writer then resumes it or
asks for the next one here.

The outputs of one partition exclude each other by themselves: opening a builder in a subpartition
seals the one before it, shared or not.
"""

from __future__ import annotations

from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.partition.result_partition import ResultPartition
from flinknet.partition.subpartition import ResultSubpartition

__all__ = ["BroadcastOutput", "Output", "SubpartitionOutput"]


class Output:
    """What a record is appended to."""

    __slots__ = ("builder", "target")

    target: ResultSubpartition | ResultPartition
    """If it is ``released``, nobody reads it any more: what is written is dropped."""

    def __init__(self, target: ResultSubpartition | ResultPartition) -> None:
        self.builder: BufferBuilder = NO_BUILDER
        self.target = target

    def open(self) -> bool:
        """Open the next builder, False if there is no buffer now."""
        raise NotImplementedError

    def seal(self) -> None:
        """Close the open builder, shared or not, so that what follows stands behind it."""
        raise NotImplementedError

    def flush(self) -> None:
        """Let the readers have what is written so far."""
        raise NotImplementedError


class SubpartitionOutput(Output):
    """One subpartition."""

    __slots__ = ("_index", "_partition", "_subpartition")

    def __init__(self, partition: ResultPartition, index: int) -> None:
        super().__init__(partition.subpartitions[index])
        self._partition = partition
        self._index = index
        self._subpartition = partition.subpartitions[index]

    def open(self) -> bool:
        """Open a builder of its own."""
        builder = self._partition.request_builder(self._index, self.builder)
        if builder is None:
            return False
        self.builder = builder
        return True

    def seal(self) -> None:
        """Close what is open in the subpartition."""
        self._subpartition.seal_open()

    def flush(self) -> None:
        """Let its reader have what is written so far."""
        self._subpartition.flush()


class BroadcastOutput(Output):
    """All subpartitions, which share each builder."""

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
        """Close what is open in any subpartition."""
        self._partition.seal_all()

    def flush(self) -> None:
        """Let every reader have what is written so far."""
        self._partition.flush_all()
