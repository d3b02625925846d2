"""The records of a stream, in the program, while the job that makes them runs.

Theory of operation. Every subtask of the job's ``ProgramSink`` has a connection, and a thread here
that reads it. Records without checkpoints are *visible* when they come. Otherwise they are held, in
front of the mark of the checkpoint that they are in, and visible when that is complete; a subtask
that goes on from a checkpoint, after a failure, makes those visible that are in it, and the others
are dropped, because they come again. When the job has finished, all are. A reader that is slow lets
``READ_AHEAD_RECORDS`` become visible; then its threads stop reading, and the sinks wait.
"""

from __future__ import annotations

import atexit
import shutil
import socket
import socketserver
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedIOBase
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from flinknet.config.temporary_directory import temporary_directory
from flinknet.datastream.program_sink import ProgramSink
from flinknet.errors import JobFailedError
from flinknet.task.record_frames import read_frame

if TYPE_CHECKING:
    from flinknet.datastream.job_client import JobClient

__all__ = ["READ_AHEAD_RECORDS", "CollectedRecords"]

READ_AHEAD_RECORDS = 10_000
"""Visible records that wait for the program before its sinks do: some batches of each of them."""


class CollectedRecords(Iterator[Any]):
    """An iterator over records (PyFlink's CloseableIterator), to be used with ``with``.

    It raises the JobError that the job ends with. Closing it cancels a job that still runs, and
    waits for its end.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._visible: deque[Any] = deque()
        self._held: dict[int, list[tuple[int | None, list[Any]]]] = {}
        """By subtask: records, and marks, a checkpoint's id in front of no records."""
        self._given_out = False
        self._error: JobFailedError | None = None
        self._is_closed = False
        self._has_ended = False
        self._job: JobClient | None = None
        self._directory = Path(
            tempfile.mkdtemp(prefix="flinknet-collect-", dir=temporary_directory())
        )
        path = str(self._directory / "records")
        records = self

        class Connection(socketserver.StreamRequestHandler):
            """One subtask of the sink."""

            def handle(self) -> None:
                if records.read(self.rfile):
                    self.wfile.write(b"\0")

        self._server = _Server(path, Connection)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="flinknet collected records", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)
        self.sink = ProgramSink(path)
        """What the job has to write to."""

    def follow(self, job: JobClient) -> None:
        """Iterate over what this job writes."""
        self._job = job
        job.get_job_execution_result().add_done_callback(self._end)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        with self._changed:
            while not self._visible:
                if self._is_closed:
                    raise StopIteration
                if self._error is not None or self._has_ended:
                    break
                self._changed.wait()
            else:
                self._given_out = True
                record = self._visible.popleft()
                if len(self._visible) == READ_AHEAD_RECORDS - 1 or not self._visible:
                    self._changed.notify_all()
                return record
            error = self._error
        try:
            if error is not None:
                raise error
            assert self._job is not None, "it has ended"
            self._job.get_job_execution_result().result()
        finally:
            self.close()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Have no more records: the job is cancelled unless it has ended. Idempotent."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._visible.clear()
            self._held.clear()
            self._changed.notify_all()
        if self._job is not None:
            self._job.cancel()
            self._job.join()
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()
        self._thread.join()
        atexit.unregister(self.close)
        shutil.rmtree(self._directory, ignore_errors=True)

    def read(self, connection: BufferedIOBase) -> bool:
        """Take what a subtask sends, to its end; whether that is its last word."""
        subtask, is_checkpointed = 0, False
        while (message := read_frame(connection)) is not None:
            kind, *rest = message
            with self._changed:
                if self._is_closed:
                    return False
                match kind:
                    case "open":
                        subtask, checkpoint, is_checkpointed = rest
                        self._open(subtask, checkpoint, is_checkpointed=is_checkpointed)
                    case "records" if is_checkpointed:
                        self._held[subtask].append((None, rest[0]))
                    case "records":
                        self._show(rest[0])
                        self._changed.wait_for(self._has_room)
                    case "mark":
                        self._held[subtask].append((rest[0], []))
                    case "complete":
                        self._complete(subtask, rest[0])
                        self._changed.wait_for(self._has_room)
                    case _:
                        return True
        return False

    def _has_room(self) -> bool:
        return len(self._visible) < READ_AHEAD_RECORDS or self._is_closed

    def _open(self, subtask: int, checkpoint: int | None, *, is_checkpointed: bool) -> None:
        if subtask in self._held:
            if checkpoint is not None:
                self._complete(subtask, checkpoint)
            elif not is_checkpointed and self._given_out:
                self._error = JobFailedError(
                    "the job has begun again after a failure, and would give out the same records "
                    "once more: enable checkpoints, with which it goes on where it was"
                )
                self._changed.notify_all()
            elif not is_checkpointed:
                self._visible.clear()
        self._held[subtask] = []

    def _complete(self, subtask: int, checkpoint: int) -> None:
        held = self._held[subtask]
        marks = [index for index, (mark, _) in enumerate(held) if mark == checkpoint]
        for _, records in held[: marks[-1]] if marks else ():
            self._show(records)
        del held[: marks[-1] + 1 if marks else 0]

    def _show(self, records: list[Any]) -> None:
        self._visible.extend(records)
        self._changed.notify_all()

    def _end(self, error: BaseException | None) -> None:
        with self._changed:
            if error is None:
                for held in self._held.values():
                    for _, records in held:
                        self._visible.extend(records)
            self._has_ended = True
            self._changed.notify_all()


class _Server(socketserver.ThreadingUnixStreamServer):
    """Has a thread for each connection, none of which keeps the program from ending."""

    def __init__(self, path: str, handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(path, handler)
        self._connections: list[tuple[threading.Thread, socket.socket]] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        """Read it in a thread of its own."""
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        self._connections.append((thread, request))
        thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is the end of a worker, of which the job itself tells more."""

    def hang_up(self) -> None:
        """Cut all connections off, and wait for their threads."""
        for thread, connection in self._connections:
            with suppress(OSError):  # It has ended.
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()
