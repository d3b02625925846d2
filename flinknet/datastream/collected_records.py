"""An iterator over the records of a stream while the job runs, in the program's process.

Each subtask of the job's ``ProgramSink`` has one connection, and a thread here reads it to its end.
A record becomes *visible* when the iterator may return it. Without checkpoints, records are visible
on arrival. With checkpoints, they are held, followed by the mark of their checkpoint, and become
visible when that checkpoint is complete. When the job has finished, all records become visible.

The reader acknowledges a mark only when it holds the mark and everything before it. The checkpoint
can complete only after that. When a subtask restarts from a checkpoint after a failure, the mark is
therefore held here, unless the checkpoint completed earlier. The records before the mark become
visible. The records after it are dropped because they will be sent again, and so is the remaining
data of the old connection.

If the program reads slowly, ``READ_AHEAD_RECORDS`` records become visible. Then the threads stop
reading and the sinks wait. After the program has closed the iterator, the threads drop all further
records until the job is cancelled, so that no sink fails.
"""

from __future__ import annotations

import atexit
import socket
import socketserver
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedIOBase
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from flinknet import machine
from flinknet.compatibility.subscripted import T_co
from flinknet.config.temporary_directory import make_socket_directory
from flinknet.datastream.program_sink import ProgramSink
from flinknet.errors import JobFailedError
from flinknet.graph.record_frames import read_frame

if TYPE_CHECKING:
    from flinknet.datastream.job_client import JobClient

__all__ = ["READ_AHEAD_RECORDS", "CollectedRecords"]

_ANSWER = b"\0"

READ_AHEAD_RECORDS = 10_000
"""Number of visible records at which the sinks must wait for the program.

It allows for a few batches from each sink.
"""


@dataclass(slots=True)
class _Sender:
    """One attempt of a subtask of the sink."""

    subtask: int
    attempt: int
    is_checkpointed: bool
    held: list[tuple[int | None, list[Any]]] = field(default_factory=list)
    """Held entries: (None, records) or (checkpoint id, []) for the mark of a checkpoint."""
    was_given_out: bool = False
    """Whether the iterator has returned a record of this sender."""


class CollectedRecords(Iterator[T_co]):
    """An iterator over records (PyFlink's CloseableIterator), to be used with ``with``.

    It raises the JobError that the job ends with. Closing it cancels a running job and waits for
    its end.
    """

    def __init__(self) -> None:
        self._changed = machine.Condition()
        self._visible: deque[tuple[_Sender, T_co]] = deque()
        self._senders: dict[int, _Sender] = {}
        """The latest sender of each subtask, by subtask index."""
        self._error: JobFailedError | None = None
        self._is_closed = False
        self._has_ended = False
        self._job: JobClient | None = None
        self._directory = make_socket_directory("flinknet-collect-", "records")
        path = str(self._directory.path / "records")
        records = self

        class Connection(socketserver.StreamRequestHandler):
            """The connection of one subtask of the sink."""

            def handle(self) -> None:
                records.read(self.rfile, self.wfile)

        self._server = _Server(path, Connection)
        self._thread = machine.Thread(
            target=self._server.serve_forever, name="flinknet collected records", daemon=True
        )
        self._thread.start()
        # A program that ends without closing the iterator must not leave its job running.
        atexit.register(self.close)
        self.sink = ProgramSink(path)
        """The sink to add to the job."""

    def follow(self, job: JobClient) -> None:
        """Iterate over the records of this job."""
        self._job = job
        job.get_job_execution_result().add_done_callback(self._end)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:
        with self._changed:
            while not self._visible:
                if self._is_closed:
                    raise StopIteration
                if self._error is not None or self._has_ended:
                    break
                self._changed.wait()
            else:
                sender, record = self._visible.popleft()
                sender.was_given_out = True
                # Wake the reader threads once when there is room again, not for every record.
                if len(self._visible) == READ_AHEAD_RECORDS - 1 or not self._visible:
                    self._changed.notify_all()
                return record
            error = self._error
        try:
            if error is not None:
                raise error
            assert self._job is not None, "it has ended"
            # Raises the error that the job has ended with.
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
        """Close the iterator, and cancel the job unless it has ended. Idempotent."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._visible.clear()
            self._senders.clear()
            self._changed.notify_all()
        if self._job is not None:
            # Until the job ends, the threads drop its records, so that no sink fails.
            self._job.cancel()
            self._job.join()
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()
        self._thread.join()
        atexit.unregister(self.close)
        self._directory.close()

    def read(self, frames: BufferedIOBase, answers: BufferedIOBase) -> None:
        """Read the messages of a subtask until it hangs up or restarts on another connection."""
        sender: _Sender | None = None
        try:
            while (message := read_frame(frames)) is not None:
                kind, *rest = message
                with self._changed:
                    if kind == "open":
                        subtask, attempt, checkpoint, is_checkpointed = rest
                        sender = _Sender(subtask, attempt, is_checkpointed)
                        sender = self._open(sender, checkpoint)
                    if sender is None or not self._take(sender, kind, *rest):
                        return
                if kind in ("mark", "end"):
                    answers.write(_ANSWER)
        except OSError:
            return  # A worker ended; the job itself reports more.
        except Exception as error:
            self._fail(f"a record cannot be read in the program: {type(error).__name__}: {error}")

    def _take(self, sender: _Sender, kind: str, *rest: Any) -> bool:
        """Process one message; return whether its sender is still the latest of its subtask."""
        if self._is_closed or self._has_ended:
            return True
        match kind:
            case "records" if sender.is_checkpointed:
                sender.held.append((None, rest[0]))
            case "records":
                self._show(sender, rest[0])
            case "mark" if sender.is_checkpointed:
                sender.held.append((rest[0], []))
            case "complete":
                self._complete(sender, rest[0])
        # Only these messages make records visible. The sink limits the records that are held.
        if not sender.is_checkpointed or kind == "complete":
            self._changed.wait_for(lambda: self._has_room or self._is_late(sender))
        return not self._is_late(sender)

    @property
    def _has_room(self) -> bool:
        is_over = self._is_closed or self._has_ended
        return len(self._visible) < READ_AHEAD_RECORDS or is_over

    def _is_late(self, sender: _Sender) -> bool:
        """Return whether the subtask has restarted in the meantime."""
        return self._senders.get(sender.subtask, sender) is not sender

    def _open(self, sender: _Sender, checkpoint: int | None) -> _Sender | None:
        """Register a subtask that starts or restarts.

        Returns None if the message comes from a worker that was given up.
        """
        before = self._senders.get(sender.subtask)
        if before is not None:
            if before.attempt > sender.attempt:
                return None
            if sender.is_checkpointed and checkpoint is not None:
                self._complete(before, checkpoint)
            elif not sender.is_checkpointed:
                self._begin_again(before)
        self._senders[sender.subtask] = sender
        self._changed.notify_all()
        return sender

    def _begin_again(self, before: _Sender) -> None:
        """Drop the visible records of the previous attempt.

        Without checkpoints a restarted subtask sends all of its records again. If the iterator has
        already returned some of them, it fails instead.
        """
        if before.was_given_out:
            self._fail(
                "the job has restarted after a failure, and would return the same records again: "
                "enable checkpoints, so that it continues from the last one"
            )
        else:
            self._visible = deque(one for one in self._visible if one[0] is not before)

    def _complete(self, sender: _Sender, checkpoint: int) -> None:
        held = sender.held
        # Without its mark, the checkpoint has completed here before.
        marks = [index for index, (mark, _) in enumerate(held) if mark == checkpoint]
        for _, records in held[: marks[-1]] if marks else ():
            self._show(sender, records)
        del held[: marks[-1] + 1 if marks else 0]

    def _show(self, sender: _Sender, records: list[Any]) -> None:
        self._visible.extend(zip(repeat(sender), records))
        self._changed.notify_all()

    def _fail(self, why: str) -> None:
        with self._changed:
            self._error = self._error or JobFailedError(why)
            self._changed.notify_all()

    def _end(self, error: BaseException | None) -> None:
        with self._changed:
            # A job that has finished sends no record again.
            for sender in self._senders.values() if error is None else ():
                for _, records in sender.held:
                    self._show(sender, records)
            self._has_ended = True
            self._changed.notify_all()


class _Server(socketserver.ThreadingUnixStreamServer):
    """A server with a daemon thread per connection, so that no connection delays program exit."""

    def __init__(self, path: str, handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(path, handler)
        self._connections: list[tuple[machine.Thread, socket.socket]] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        """Read the connection in a thread of its own."""
        thread = machine.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        self._connections.append((thread, request))
        thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a broken connection: a worker ended, and the job itself reports more."""

    def hang_up(self) -> None:
        """Shut down all connections, and wait for their threads."""
        for thread, connection in self._connections:
            with suppress(OSError):  # already disconnected
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()
