"""The state from which a subtask starts when its job continues from a checkpoint.

At another parallelism, key groups move between subtasks. So keyed state may come from any former
subtask of the operator, and operator state from all of them, in their order. Both are read whole,
and ``StateHandler`` selects the part of this subtask. Keyed state of an on-disk backend may exceed
the memory; it is spooled to files, section by section, and read from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import ExitStack, aclosing
from mmap import mmap

from flinknet.checkpoint.metadata import CheckpointMetadata, OperatorState, StateKind, StatePart
from flinknet.checkpoint.reader import PartReader
from flinknet.errors import StateError
from flinknet.graph.graph import JobGraph
from flinknet.graph.restored_channels import RestoredChannels
from flinknet.records.key_groups import key_group_range
from flinknet.runtime.chain import OperatorChain
from flinknet.state.keyed_state_backend import KeyedStateBackend
from flinknet.state.spool_file import SpoolFile

__all__ = ["RestoredState"]


class RestoredState:
    """A checkpoint from which the subtasks of one attempt are restored."""

    def __init__(self, store: PartReader, metadata: CheckpointMetadata) -> None:
        self._store = store
        self._metadata = metadata
        self._operators = {operator.uid: operator for operator in metadata.operators}

    async def restore(
        self, chain: OperatorChain, index: int, parallelism: int, max_parallelism: int
    ) -> None:
        """Give every operator of a chain its state, before the operator is opened.

        Raises CheckpointCorruptedError, StateError or CheckpointStorageError.
        """
        for uid in chain.uids:
            operator = self._operators.get(uid)
            if operator is None:  # This version of the job has added the operator.
                continue
            if operator.max_parallelism != max_parallelism:
                raise StateError(
                    f"operator {uid} has {operator.max_parallelism} key groups in the checkpoint "
                    f"and {max_parallelism} in the job: call set_max_parallelism with the number "
                    "in the checkpoint"
                )
            wanted = key_group_range(max_parallelism, parallelism, index)
            own = [
                b"".join([piece async for piece in part])
                for part in self._parts(operator, StateKind.OPERATOR, range(max_parallelism))
            ]
            with ExitStack() as spooled:
                keyed = [
                    await _whole(part, chain.state_of(uid).keyed.backend, spooled)
                    for part in self._parts(operator, StateKind.KEYED, wanted)
                ]
                made = self._metadata
                state = chain.state_of(uid)
                for _ in state.restore(made.checkpoint_id, keyed, own, made.job_id):
                    await asyncio.sleep(0)  # The loop also serves other subtasks and heartbeats.

    def has_ended(self, uids: Iterable[str], index: int, parallelism: int) -> bool:
        """Return whether a subtask had emitted its last record in the checkpoint.

        At another parallelism, all former subtasks must have done so.
        """
        operators = [self._operators[uid] for uid in uids if uid in self._operators]
        return any(index in operator.finished_at(parallelism) for operator in operators)

    def channels(self, graph: JobGraph) -> RestoredChannels:
        """Return the data in flight. Raises StateError if the job has no place for some of it."""
        return RestoredChannels(self._store, self._metadata, graph)

    def _parts(
        self, operator: OperatorState, kind: StateKind, groups: range
    ) -> Iterator[AsyncGenerator[bytes, None]]:
        """Generate the parts of one kind, one for each former subtask.

        The part of a subtask that had none of these key groups is empty.
        """
        states = {state.subtask_index: state for state in operator.subtasks}
        for index in range(operator.parallelism):
            had = key_group_range(operator.max_parallelism, operator.parallelism, index)
            part = states[index].parts.get(kind) if index in states else None
            if part is None or not (had.start < groups.stop and groups.start < had.stop):
                yield self._sections(None)
            else:
                yield self._sections(part)

    async def _sections(self, part: StatePart | None) -> AsyncGenerator[bytes, None]:
        if part is not None:
            async for _, content in self._store.read_part(self._metadata.directory, part):
                yield content


async def _whole(
    sections: AsyncGenerator[bytes, None], backend: KeyedStateBackend, spooled: ExitStack
) -> bytes | mmap:
    """Return a part in one piece: in memory, or in a file until ``spooled`` is closed."""
    if not backend.is_on_disk:
        return b"".join([content async for content in sections])
    async with aclosing(sections):
        first, second = await anext(sections, b""), await anext(sections, None)
        if second is None:
            return first
        file = SpoolFile(backend.directory)
        spooled.callback(file.close)
        file.add(first)
        file.add(second)
        async for content in sections:
            file.add(content)
        return file.view()
