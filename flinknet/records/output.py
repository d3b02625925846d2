"""Outputs: where a writer appends, one subpartition or all of them at once.

An output knows the builder that was opened last. Appending to it needs no more than its
``remaining``, which is 0 once anybody has sealed it or taken from it; the writer then resumes it or
asks for the next one here.
A builder counts its records, or an output is told what counts those that are appended to it.

The outputs of one partition exclude each other by themselves: opening a builder in a subpartition
seals the one before it, shared or not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.partition.result_partition import ResultPartition
from flinknet.partition.subpartition import ResultSubpartition

__all__ = ["BroadcastOutput", "Output", "SubpartitionOutput"]


class Output(ABC):
    """What a record is appended to."""

    __slots__ = ("_take_emitted", "builder", "flush", "seal", "target")

    target: ResultSubpartition | ResultPartition
    """If it is ``released``, nobody reads it any more: what is written is dropped."""

    seal: Callable[[], None]
    """Closes the open builder, shared or not, so that what follows stands behind it."""
    flush: Callable[[], None]
    """Lets the readers have what is written so far."""

    def __init__(self) -> None:
        self.builder: BufferBuilder = NO_BUILDER  # type: ignore[assignment]
        self._take_emitted: Callable[[], int] | None = None

    def count_with(self, take_emitted: Callable[[], int]) -> None:
        """From now on a whole record is counted by whoever appends it, who says how many there were
        since the last time, or by the builder."""
        self._take_emitted = take_emitted
        if not self.builder.sealed:
            self.builder.take_emitted = take_emitted

    @abstractmethod
    def open(self) -> bool:
        """Open the next builder, False if there is no buffer now."""


class SubpartitionOutput(Output):
    """One subpartition."""

    __slots__ = ("_index", "_partition")

    def __init__(self, partition: ResultPartition, index: int) -> None:
        super().__init__()
        self._partition = partition
        self._index = index
        self.target = subpartition = partition.subpartitions[index]
        self.seal, self.flush = subpartition.seal_open, subpartition.flush

    def open(self) -> bool:
        """Open a builder of its own."""
        builder = self._partition.request_builder(self._index)
        if builder is None:
            return False
        self.builder = builder
        builder.take_emitted = self._take_emitted
        return True


class BroadcastOutput(Output):
    """All subpartitions, which share each builder."""

    __slots__ = ("_partition",)

    def __init__(self, partition: ResultPartition) -> None:
        super().__init__()
        self._partition = self.target = partition
        self.seal, self.flush = partition.seal_all, partition.flush_all

    def open(self) -> bool:
        """Open a builder that all subpartitions share."""
        builder = self._partition.request_broadcast_builder()
        if builder is None:
            return False
        self.builder = builder
        builder.take_emitted = self._take_emitted
        return True
