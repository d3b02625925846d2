"""The sink that brings records to the program while the job runs.

Theory of operation. Each subtask connects to the program's socket, a Unix one in a directory that
nobody else may enter, and sends frames (``task/record_frames.py``)::

    ("open", subtask, checkpoint, checkpointed)
                                    which checkpoint it goes on from, or None, and whether there
                                    are some
    ("records", [...])
    ("mark", checkpoint)            what came before is in that checkpoint
    ("complete", checkpoint)        nothing of it will come again
    ("end",)                        answered with one byte, when all has been taken

Where the job has no checkpoints all that comes is the program's at once; otherwise what is complete
is (``collected_records.py``). The program that does not read holds the sink back, by the socket.
"""

from __future__ import annotations

import asyncio
from typing import Any

from flinknet.errors import JobFailedError
from flinknet.task.context import RuntimeContext
from flinknet.task.functions import CheckpointListener
from flinknet.task.record_frames import frame
from flinknet.task.sink import Sink
from flinknet.task.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)

__all__ = ["ProgramSink"]


class ProgramSink(Sink, CheckpointedFunction, CheckpointListener):
    """Writes to the program's socket at ``path``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._restored: int | None = None
        self._writer: asyncio.StreamWriter | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Remember which checkpoint the job goes on from."""
        self._restored = context.get_restored_checkpoint_id()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Mark the place of the checkpoint among the records."""
        self._send("mark", context.get_checkpoint_id())
        self._unmarked = 0

    async def open(self, runtime_context: RuntimeContext) -> None:
        """Connect to the program."""
        self._is_checkpointed = runtime_context.checkpointed
        self._records_max = runtime_context.collect_records_max
        self._unmarked = 0
        self._reader, self._writer = await asyncio.open_unix_connection(self._path)
        self._send("open", runtime_context.index, self._restored, runtime_context.checkpointed)

    async def write(self, records: list[Any]) -> None:
        """Send records, as soon as the program takes them."""
        if self._is_checkpointed:
            self._unmarked += len(records)
            if self._records_max is not None and self._unmarked > self._records_max:
                raise JobFailedError(
                    f"more than cluster.collect_records_max = {self._records_max} records came "
                    "between two checkpoints, which the program gets only with the second: take "
                    "checkpoints more often, or raise that option"
                )
        assert self._writer is not None, "it was opened"
        self._send("records", records)
        await self._writer.drain()

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Let the program have what is in the checkpoint."""
        self._send("complete", checkpoint_id)

    async def finish(self) -> None:
        """Wait until the program's end has taken all of it."""
        assert self._writer is not None, "it was opened"
        self._send("end")
        await self._writer.drain()
        await self._reader.readexactly(1)

    async def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()

    def _send(self, *message: Any) -> None:
        assert self._writer is not None, "it was opened"
        self._writer.write(frame(*message))
