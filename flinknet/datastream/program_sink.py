"""The sink that sends records to the program while the job runs.

Each subtask connects to the program's Unix socket, in a directory that only its user may enter. It
sends frames (``graph/record_frames.py``)::

    ("open", subtask, attempt, checkpoint, checkpointed)
                                    the checkpoint that the job resumes from, or None, and
                                    whether the job has checkpoints
    ("records", [...])
    ("mark", checkpoint)            ends the records of that checkpoint; answered
    ("complete", checkpoint)        those records will not be sent again
    ("end",)                        there are no more records; answered

The program answers with one byte when it has received everything before. A checkpoint is
acknowledged only after the answer to its mark. The program thus has all records of a complete
checkpoint, even if the subtask or its connection fails later. The connection lasts until the
subtask is closed, because checkpoints continue after the end of the input.

Without checkpoints the program uses records at once. With checkpoints it uses them when their
checkpoint is complete (``collected_records.py``). A program that does not read blocks the sink
through the socket.
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
    """Sends records to the program's socket at ``path``."""

    takes_whole_batches = False

    def __init__(self, path: str) -> None:
        self._path = path
        self._restored: int | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._asked = 0
        """Number of marks and ends sent, which the program answers."""
        self._answered = 0
        self._has_finished = False
        self._is_over = False
        """Whether ``close`` ends the connection in order instead of aborting it.

        It does after ``finish`` and, in a job with checkpoints, a later completion. That completion
        may be of a checkpoint that was taken before ``finish``. No data is pending then, because
        ``finish`` has waited for the program, and ``close`` waits for the answers to later marks.
        If the subtask restarts, the program still drops the records after that checkpoint.
        """
        self._is_given_up = False
        """Whether ``close`` has aborted the connection, so that pending marks are not answered."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Store the id of the checkpoint that the job resumes from."""
        self._restored = context.get_restored_checkpoint_id()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Send the mark of the checkpoint."""
        self._send("mark", context.get_checkpoint_id())
        self._asked += 1
        self._unmarked = 0

    async def confirm(self) -> None:
        """Wait until the program has received everything up to the last mark or end."""
        asked = self._asked
        async with self._answers:
            while self._answered < asked:
                try:
                    await self._reader.readexactly(1)
                except (asyncio.IncompleteReadError, ConnectionError) as error:
                    if self._is_given_up:
                        # The checkpoint ends with the subtask; it is not the cause of the failure.
                        raise asyncio.CancelledError from error
                    raise self._hung_up() from error
                self._answered += 1

    async def open(self, runtime_context: RuntimeContext) -> None:
        """Connect to the program."""
        self._is_checkpointed = runtime_context.checkpointed
        self._records_max = runtime_context.collect_records_max
        self._unmarked = 0
        """Number of records since the last mark."""
        self._answers = asyncio.Lock()
        """Held while answers are read, because several checkpoints may be written at a time."""
        self._reader, self._writer = await asyncio.open_unix_connection(self._path)
        self._send(
            "open",
            runtime_context.index,
            runtime_context.attempt,
            self._restored,
            runtime_context.checkpointed,
        )

    async def write(self, records: list[Any]) -> None:
        """Send records, and wait while the socket is full."""
        if self._is_checkpointed:
            self._unmarked += len(records)
            if self._records_max is not None and self._unmarked > self._records_max:
                raise JobFailedError(
                    f"more than cluster.collect_records_max = {self._records_max} records arrived "
                    "between two checkpoints, and the program receives them only after the "
                    "second: take checkpoints more often, or raise that option"
                )
        assert self._writer is not None, "it was opened"
        self._send("records", records)
        await self._writer.drain()

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the program that the records of the checkpoint are complete."""
        self._send("complete", checkpoint_id)
        self._is_over = self._has_finished

    async def finish(self) -> None:
        """Wait until the program has received all records."""
        self._send("end")
        self._asked += 1
        await self.confirm()
        self._has_finished = True
        self._is_over = not self._is_checkpointed

    async def close(self) -> None:
        """Disconnect; the records that a failed subtask did not deliver are sent again later."""
        if self._writer is None:
            return
        if self._is_over:
            # A later checkpoint than the one with which the subtask ends may be under way.
            await self.confirm()
            self._writer.close()
        else:
            self._is_given_up = True
            # Abort, because a slow program would otherwise read this data after its repetition.
            self._writer.transport.abort()

    def _send(self, *message: Any) -> None:
        assert self._writer is not None, "it was opened"
        if self._writer.is_closing():
            # uvloop would raise an error of its own, and asyncio would drop the message.
            raise self._hung_up()
        self._writer.write(frame(*message))

    def _hung_up(self) -> JobFailedError:
        return JobFailedError(
            f"the program has closed {self._path}, through which execute_and_collect sends it the "
            "records: it has ended, or could not read a record"
        )
