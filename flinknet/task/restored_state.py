"""What a subtask begins with when its job continues from a checkpoint.

Keyed state may come from any subtask of the operator before, since key groups lie elsewhere at
another parallelism; operator state from all of them, in their order. So both are read whole, and
``StateHandler`` takes what belongs here.
"""

from __future__ import annotations

import asyncio

from flinknet.checkpoint.metadata import CheckpointMetadata, OperatorState, StateKind
from flinknet.checkpoint.reader import PartReader
from flinknet.errors import StateError
from flinknet.records.key_groups import key_group_range
from flinknet.task.chain import OperatorChain
from flinknet.task.graph import JobGraph
from flinknet.task.restored_channels import RestoredChannels

__all__ = ["RestoredState"]


class RestoredState:
    """A checkpoint, as the subtasks of one attempt are restored from it."""

    def __init__(self, store: PartReader, metadata: CheckpointMetadata) -> None:
        self._store = store
        self._metadata = metadata
        self._operators = {operator.uid: operator for operator in metadata.operators}

    async def restore(
        self, chain: OperatorChain, index: int, parallelism: int, max_parallelism: int
    ) -> None:
        """Give every operator of a chain its state, before it is opened.

        CheckpointCorruptedError, StateError or CheckpointStorageError if that cannot be.
        """
        for uid in chain.uids:
            operator = self._operators.get(uid)
            if operator is None:
                continue
            if operator.max_parallelism != max_parallelism:
                raise StateError(
                    f"operator {uid} has {operator.max_parallelism} key groups in the checkpoint "
                    f"and {max_parallelism} in the job: set_max_parallelism to the former"
                )
            wanted = key_group_range(max_parallelism, parallelism, index)
            keyed = await self._parts(operator, StateKind.KEYED, wanted)
            own = await self._parts(operator, StateKind.OPERATOR, range(max_parallelism))
            checkpoint_id = self._metadata.checkpoint_id
            for _ in chain.state_of(uid).restore(checkpoint_id, keyed, own):
                await asyncio.sleep(0)

    def channels(self, graph: JobGraph) -> RestoredChannels:
        """What was in flight. Raises StateError if the job has no place for some of it."""
        return RestoredChannels(self._store, self._metadata, graph)

    async def _parts(self, operator: OperatorState, kind: StateKind, groups: range) -> list[bytes]:
        """The parts of one kind, of each subtask before that had one of these key groups."""
        parts = []
        states = {state.subtask_index: state for state in operator.subtasks}
        for index in range(operator.parallelism):
            had = key_group_range(operator.max_parallelism, operator.parallelism, index)
            part = states[index].parts.get(kind) if index in states else None
            if part is None or not (had.start < groups.stop and groups.start < had.stop):
                parts.append(b"")
                continue
            sections = self._store.read_part(self._metadata.directory, part)
            parts.append(b"".join([content async for _, content in sections]))
        return parts
