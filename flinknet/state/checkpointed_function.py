"""Functions with operator state: Flink's CheckpointedFunction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from flinknet.state.operator_state import OperatorStateStore

__all__ = ["CheckpointedFunction", "FunctionInitializationContext", "FunctionSnapshotContext"]


@dataclass(frozen=True, slots=True)
class FunctionInitializationContext:
    """Context of ``initialize_state``, before the function is opened."""

    operator_state_store: OperatorStateStore
    restored_checkpoint_id: int | None

    def is_restored(self) -> bool:
        """Return whether the job continues from a checkpoint."""
        return self.restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the checkpoint that the job continues from; None if the job starts fresh."""
        return self.restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of the function's operator state."""
        return self.operator_state_store


@dataclass(frozen=True, slots=True)
class FunctionSnapshotContext:
    """Context of ``snapshot_state``: the checkpoint that the state is taken for."""

    checkpoint_id: int
    checkpoint_timestamp: int

    def get_checkpoint_id(self) -> int:
        """Return the number of the checkpoint."""
        return self.checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """Return the time of the trigger, in milliseconds since 1970."""
        return self.checkpoint_timestamp


class CheckpointedFunction(ABC):
    """Base class of functions and sources with operator state, beside their own base class.

    Both methods are plain functions and must not block: no records are processed meanwhile.
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Request the state, and read the restored elements; called once, before ``open``."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the state up to date; called for each checkpoint, between two batches."""
