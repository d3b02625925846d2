"""Outputs: where a writer appends, one subpartition or all of them at once.

An output knows the builder that was opened last. Appending to it needs no more than its
``remaining``, which is 0 once anybody has sealed it; the writer then asks for the next one here.
A builder counts its records, or an output is told what counts those that are appended to it.

The outputs of one partition exclude each other by themselves: opening a builder in a subpartition
seals the one before it, shared or not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.partition.result_partition import ResultPartition

__all__ = ["BroadcastOutput", "Output", "SubpartitionOutput"]


class Output(ABC):
    """What a record is appended to."""

    __slots__ = ("_take_emitted", "builder")

    def __init__(self) -> None:
        self.builder: BufferBuilder = NO_BUILDER  # type: ignore[assignment]
        self._take_emitted: Callable[[], int] | None = None

    def count_with(self, take_emitted: Callable[[], int]) -> None:
        """From now on a whole record is counted by whoever appends it, who says how many there were
        since the last time, or by the builder."""
        self._take_emitted = take_emitted
        if not self.builder.sealed:
            self.builder.take_emitted = take_emitted

    @property
    @abstractmethod
    def released(self) -> bool:
        """Whether nobody reads it any more, so that what is written is dropped."""

    @abstractmethod
    def open(self) -> bool:
        """Open the next builder, False if there is no buffer now."""

    @abstractmethod
    def seal(self) -> None:
        """Close the open builder, so that what follows stands behind it."""

    @abstractmethod
    def flush(self) -> None:
        """Let the readers have what is written so far."""


class SubpartitionOutput(Output):
    """One subpartition."""

    __slots__ = ("_index", "_partition", "_subpartition")

    def __init__(self, partition: ResultPartition, index: int) -> None:
        super().__init__()
        self._partition = partition
        self._subpartition = partition.subpartitions[index]
        self._index = index

    @property
    def released(self) -> bool:
        """Whether its reader has gone."""
        return self._subpartition.released

    def open(self) -> bool:
        """Open a builder of its own."""
        builder = self._partition.request_builder(self._index)
        if builder is None:
            return False
        self.builder = builder
        builder.take_emitted = self._take_emitted
        return True

    def seal(self) -> None:
        """Close the builder that is open in it, shared or not."""
        self._subpartition.seal_open()

    def flush(self) -> None:
        """Let its reader have what is written so far."""
        self._subpartition.flush()


class BroadcastOutput(Output):
    """All subpartitions, which share each builder."""

    __slots__ = ("_partition",)

    def __init__(self, partition: ResultPartition) -> None:
        super().__init__()
        self._partition = partition

    @property
    def released(self) -> bool:
        """Whether all readers have gone; the writer sees that by itself."""
        return False

    def open(self) -> bool:
        """Open a builder that all subpartitions share."""
        builder = self._partition.request_broadcast_builder()
        if builder is None:
            return False
        self.builder = builder
        builder.take_emitted = self._take_emitted
        return True

    def seal(self) -> None:
        """Close the open builder of every subpartition."""
        for subpartition in self._partition.subpartitions:
            subpartition.seal_open()

    def flush(self) -> None:
        """Let every reader have what is written so far."""
        self._partition.flush_all()
