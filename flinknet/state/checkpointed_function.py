"""Functions that keep state of their own, not of a key: Flink's CheckpointedFunction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from flinknet.state.operator_state import OperatorStateStore

__all__ = ["CheckpointedFunction", "FunctionInitializationContext", "FunctionSnapshotContext"]


@dataclass(frozen=True, slots=True)
class FunctionInitializationContext:
    """What a function is given before it is opened."""

    operator_state_store: OperatorStateStore
    restored_checkpoint_id: int | None

    def is_restored(self) -> bool:
        """Whether the job continues from a checkpoint."""
        return self.restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the checkpoint that the job continues from, None if it begins."""
        return self.restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return what the function's state is asked for."""
        return self.operator_state_store


@dataclass(frozen=True, slots=True)
class FunctionSnapshotContext:
    """Which checkpoint a function's state is taken for."""

    checkpoint_id: int
    checkpoint_timestamp: int

    def get_checkpoint_id(self) -> int:
        """Return its number."""
        return self.checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """Return when it was triggered, in milliseconds since 1970."""
        return self.checkpoint_timestamp


class CheckpointedFunction(ABC):
    """A function, or a source, with state of its own: a base beside that of the function class.

    Both methods are plain functions and must not block: records wait for them.
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the state, and take from it what was restored; called once, before ``open``."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the state up to date; called between two batches, for each checkpoint."""
