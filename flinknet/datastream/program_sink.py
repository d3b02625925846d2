"""The sink that brings records to the program while the job runs.

Theory of operation. Each subtask connects to the program's socket, a Unix one in a directory that
only its user may enter, and sends frames (``graph/record_frames.py``)::

    ("open", subtask, attempt, checkpoint, checkpointed)
                                    which checkpoint it goes on from, or None, and whether there
                                    are some
    ("records", [...])
    ("mark", checkpoint)            the records in front of it are in that checkpoint; answered
    ("complete", checkpoint)        those will not come again
    ("end",)                        there are no more records; answered

The program answers with one byte when it has taken all that came before. A checkpoint is
acknowledged behind the answer to its mark: what is in a checkpoint that is complete, the program
has, whatever becomes of the subtask and of its connection. The connection lasts until the subtask
is closed; checkpoints go on behind the end of the input.

Where the job has no checkpoints all that comes is the program's at once; otherwise the records of a
checkpoint are when it is complete (``collected_records.py``). A program that does not read holds
the sink back, by the socket.
"""

from __future__ import annotations

import asyncio
from typing import Any

from flinknet.errors import JobFailedError
from flinknet.functions.context import RuntimeContext
from flinknet.functions.functions import CheckpointListener
from flinknet.graph.record_frames import frame
from flinknet.operators.sink import ConfirmedSink
from flinknet.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)

__all__ = ["ProgramSink"]


class ProgramSink(ConfirmedSink, CheckpointedFunction, CheckpointListener):
    """Writes to the program's socket at ``path``."""

    takes_whole_batches = False

    def __init__(self, path: str) -> None:
        self._path = path
        self._restored: int | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._asked = 0
        """Marks and ends that the program answers."""
        self._answered = 0
        self._has_finished = False
        self._is_over = False
        """Its records are the program's: nothing comes again."""
        self._is_given_up = False

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Remember which checkpoint the job goes on from."""
        self._restored = context.get_restored_checkpoint_id()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Mark the place of the checkpoint among the records."""
        self._send("mark", context.get_checkpoint_id())
        self._asked += 1
        self._unmarked = 0

    async def confirm(self) -> None:
        """Return when the program has taken what came before the last mark, or the end."""
        asked = self._asked
        async with self._answers:
            while self._answered < asked:
                try:
                    await self._reader.readexactly(1)
                except (asyncio.IncompleteReadError, ConnectionError) as error:
                    if self._is_given_up:
                        # The checkpoint ends with the subtask, and is not why that has failed.
                        raise asyncio.CancelledError from error
                    raise self._hung_up() from error
                self._answered += 1

    async def open(self, runtime_context: RuntimeContext) -> None:
        """Connect to the program."""
        self._is_checkpointed = runtime_context.checkpointed
        self._records_max = runtime_context.collect_records_max
        self._unmarked = 0
        self._answers = asyncio.Lock()
        self._reader, self._writer = await asyncio.open_unix_connection(self._path)
        self._send(
            "open",
            runtime_context.index,
            runtime_context.attempt,
            self._restored,
            runtime_context.checkpointed,
        )

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
        self._is_over = self._has_finished

    async def finish(self) -> None:
        """Wait until the program has taken all of it."""
        self._send("end")
        self._asked += 1
        await self.confirm()
        self._has_finished = True
        self._is_over = not self._is_checkpointed

    async def close(self) -> None:
        """Hang up: what a subtask that has failed did not get rid of, comes again."""
        if self._writer is None:
            return
        if self._is_over:
            # A checkpoint may be under way behind the one with which the subtask ends.
            await self.confirm()
            self._writer.close()
        else:
            self._is_given_up = True
            # A program that reads slowly would take it after what comes again.
            self._writer.transport.abort()

    def _send(self, *message: Any) -> None:
        assert self._writer is not None, "it was opened"
        if self._writer.is_closing():
            # uvloop would raise an error of its own, and asyncio drop the message.
            raise self._hung_up()
        self._writer.write(frame(*message))

    def _hung_up(self) -> JobFailedError:
        return JobFailedError(
            f"the program has hung up {self._path}, by which execute_and_collect brings it the "
            "records: it has ended, or could not read one"
        )
