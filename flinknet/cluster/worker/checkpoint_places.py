"""Where the subtasks of one attempt on this worker write their parts of checkpoints.

Theory of operation. Checkpoints go to the job's place, each savepoint to its own: the coordinator
tells every worker, and in the same moment has the barriers set off. A barrier may come here before
the coordinator's word; whoever has a part to write then waits for it. What a savepoint's place was
is forgotten with its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from flinknet.checkpoint.metadata import CheckpointDirectory, Label, StatePart
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig

__all__ = ["CheckpointPlaces"]


class CheckpointPlaces:
    """Used on one event loop."""

    def __init__(self, own: CheckpointStore | None, config: CheckpointingConfig) -> None:
        """``own`` is the place of the job's checkpoints; None if it takes none."""
        self.config = config
        self._own = own
        self._places: dict[int, asyncio.Future[CheckpointStore]] = {}

    def announce(self, checkpoint_id: int, store: CheckpointStore) -> None:
        """A savepoint is to be written there."""
        place = self._place(checkpoint_id)
        if not place.done():
            place.set_result(store)

    def forget(self, checkpoint_id: int) -> None:
        """A checkpoint has ended; nothing if it is not known."""
        place = self._places.pop(checkpoint_id, None)
        if place is not None:
            place.cancel()

    async def write_part(
        self, directory: CheckpointDirectory, name: str, blocks: Iterable[tuple[Label, bytes]]
    ) -> StatePart | None:
        """Write a part to where its checkpoint is; see ``CheckpointStore.write_part``."""
        store = self._own
        if directory.is_savepoint:
            # Shielded: several parts wait for one word, and each may be given up.
            store = await asyncio.shield(self._place(directory.checkpoint_id))
        assert store is not None, "a job without checkpoints is asked for savepoints alone"
        return await store.write_part(directory, name, blocks)

    def _place(self, checkpoint_id: int) -> asyncio.Future[CheckpointStore]:
        place = self._places.get(checkpoint_id)
        if place is None:
            place = self._places[checkpoint_id] = asyncio.get_running_loop().create_future()
        return place
