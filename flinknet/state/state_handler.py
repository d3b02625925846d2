"""All state of one operator in one subtask (Flink's StreamOperatorStateHandler).

The subtask captures the keyed state and the operator state with ``snapshot``, between two batches,
and writes it with ``OperatorSnapshot.slices``, a step at a time, while the operator continues. The
result is two parts, each in consecutive pieces; a part may be empty.

When a job continues, ``restore`` reads this subtask's share before the operator is opened. The
share of keyed state is the subtask's current key groups, so it needs the parts of all subtasks that
had any of them. The share of operator state needs the parts of all subtasks, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from mmap import mmap
from typing import Any, NamedTuple

from flinknet.records.key_groups import key_group_range
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinknet.state.keyed_snapshot import KeyedPlace, KeyedSnapshot, restore_keyed_state
from flinknet.state.keyed_state import KeyedState
from flinknet.state.keyed_state_backend import KeyedStateBackend
from flinknet.state.operator_snapshot import OperatorStateSnapshot, restore_operator_state
from flinknet.state.operator_state import OperatorStateStore
from flinknet.state.value_serializer import ValueSerializer

__all__ = ["BackendFactory", "OperatorSnapshot", "RestoredCheckpoint", "StateHandler"]

BackendFactory = Callable[[str, ValueSerializer, int], KeyedStateBackend]
"""Returns the backend of an operator.

The arguments are the operator and its uid for error messages, the serializer of values, and the
number of key groups.
"""

Pieces = Iterable[bytes | bytearray]


class RestoredCheckpoint(NamedTuple):
    """The checkpoint that an operator was restored from."""

    job_id: str
    """The job that made the checkpoint: this job, or an earlier one that this job continues."""
    checkpoint_id: int


class OperatorSnapshot:
    """The state of one operator in one subtask, captured for one checkpoint."""

    def __init__(self, uid: str, keyed: KeyedSnapshot, operator: OperatorStateSnapshot) -> None:
        self.uid = uid
        self._keyed = keyed
        self._operator = operator

    def detach(self) -> Iterator[None]:
        """Separate the captures from the operator's tables, a bit at each step.

        The operator is then as fast as before. Call this before ``slices``, or not at all.
        """
        return self._keyed.detach()

    def slices(self) -> Iterator[None]:
        """Write a bit at each step, about a millisecond; let the loop turn between the steps.

        Raises StateError for state that cannot be written; the operator can continue then.
        """
        try:
            yield from self._operator.slices()
            yield from self._keyed.slices()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the captures and the written bytes; idempotent."""
        self._keyed.close()
        self._operator.close()

    def keyed_pieces(self) -> Pieces:
        """Return the written keyed state; iterate once, before ``close``."""
        return self._keyed.pieces()

    def operator_pieces(self) -> Pieces:
        """Return the written operator state."""
        return self._operator.pieces()


class StateHandler:
    """The state of the operator ``uid`` in subtask ``index``."""

    def __init__(
        self,
        *,
        operator: str = "",
        uid: str = "",
        index: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        types: RecordTypes | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        backends: BackendFactory | None = None,
    ) -> None:
        """Create empty state, on the heap unless ``backends`` creates another backend."""
        known = RecordTypes.of(types)
        self._serializer = ValueSerializer(known)
        self._place = KeyedPlace(
            operator=operator,
            uid=uid,
            max_parallelism=max_parallelism,
            key_groups=key_group_range(max_parallelism, parallelism, index),
            types=tuple((number, kind.__qualname__) for number, kind in known.numbered.items()),
        )
        self._index = index
        self._parallelism = parallelism
        self._now_ms = now_ms
        self.restored_from: RestoredCheckpoint | None = None
        """The restored checkpoint; None if the job starts fresh."""
        backend = None
        if backends is not None:
            owner = f'operator "{operator}" (uid {uid})'
            backend = backends(owner, self._serializer, max_parallelism)
        self.keyed = KeyedState(now_ms, backend)
        self.operator = OperatorStateStore(self._serializer)
        self._functions: list[CheckpointedFunction] = []

    def close(self) -> None:
        """Release the keyed state, when it is not read or written any more; idempotent."""
        self.keyed.backend.close()

    def initialize(self, function: Any) -> None:
        """Let a CheckpointedFunction request its operator state; ignore other functions."""
        if isinstance(function, CheckpointedFunction):
            self._functions.append(function)
            restored = self.restored_from
            function.initialize_state(
                FunctionInitializationContext(
                    self.operator, None if restored is None else restored.checkpoint_id
                )
            )

    @property
    def is_restored(self) -> bool:
        """Whether the job continues from a checkpoint."""
        return self.restored_from is not None

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot:
        """Capture all state for a checkpoint, between two batches.

        Raises StateError for operator state that cannot be written, and any error of the function's
        ``snapshot_state``.
        """
        # Functions bring their state up to date before it is captured.
        for function in self._functions:
            function.snapshot_state(FunctionSnapshotContext(checkpoint_id, timestamp_ms))
        operator = OperatorStateSnapshot(self.operator, self._place.operator, self._place.uid)
        keyed = KeyedSnapshot(self.keyed, self._place, self._serializer, self._now_ms())
        return OperatorSnapshot(self._place.uid, keyed, operator)

    def restore(
        self,
        checkpoint_id: int,
        keyed: Sequence[bytes | mmap],
        operator: Sequence[bytes],
        job_id: str = "",
    ) -> Iterator[None]:
        """Restore this subtask's share of the parts of a checkpoint, a bit at each step.

        ``job_id`` is the job of the checkpoint. Empty parts stand for subtasks without state.
        Raises StateError or CheckpointCorruptedError.
        """
        self.restored_from = RestoredCheckpoint(job_id, checkpoint_id)
        for part in keyed:
            if part:
                yield from restore_keyed_state(self.keyed, self._place, self._serializer, part)
        yield from restore_operator_state(
            self.operator, self._place.uid, operator, self._index, self._parallelism
        )
