"""Sinks: where records leave a job, a batch at a time.

A sink object describes the whole sink; every subtask has its copy. For a record at a time there are
plain callables and ``SinkFunction`` instead.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.task.context import RuntimeContext
from flinknet.task.functions import Function
from flinknet.task.operators import Operator, on_records, settle
from flinknet.texts import printable

__all__ = [
    "CollectSink",
    "CommitContext",
    "Committer",
    "PrintSink",
    "Sink",
    "SinkOperator",
    "TwoPhaseSink",
]


class Sink(Function, ABC):
    """Takes batches of records. Each method may be a coroutine function; ``write`` must not block.

    Life in a subtask: ``open``, any number of ``write``, ``finish`` if the whole input has been
    seen, and ``close``, which comes in any case once ``open`` was called, and must then do nothing
    harmful.
    """

    @abstractmethod
    def write(self, records: list[Any]) -> Any:
        """Take records; the list is shared, so it must not be changed."""

    def finish(self) -> Any:
        """Make everything written visible: the input is complete."""


@dataclass(frozen=True, slots=True)
class CommitContext:
    """Whose output a committer commits."""

    operator_name: str
    job_id: str
    attempt: int


class Committer(ABC):
    """Makes the output of all subtasks of a sink visible at once, or removes it.

    It runs in one worker of the job, in a thread of its own. That worker can be lost at any moment:
    then another one calls the same method again, so both must be *idempotent*. ``abort`` may also
    come after a ``commit`` that failed, and even while one still hangs elsewhere: whichever of the
    two is first wins.
    """

    @abstractmethod
    def commit(self, committables: list[Any]) -> None:
        """Make visible what the subtasks have prepared; their committables come in order."""

    @abstractmethod
    def abort(self) -> None:
        """Remove what the subtasks have written, prepared or not."""


class TwoPhaseSink(Sink):
    """A sink whose output becomes visible all at once, after every subtask of the job has finished,
    or not at all (Flink's two-phase committing sink).

    First phase: what a subtask writes is for nobody to see; at the end of its input, after
    ``finish``, ``prepare_commit`` makes it durable and says what it is. Second phase: when every
    subtask has finished, one worker makes a ``Committer`` and lets it commit what all of them have
    prepared; only then the job has finished. If the job fails or is cancelled, it is aborted. If
    all processes are killed, neither happens: what is prepared stays invisible, and the sink's next
    ``open`` or commit removes it. Of several such sinks in a job each commits for itself, one after
    the other.

    A job without checkpoints prepares once. With them it will do so once for each.
    """

    @abstractmethod
    def prepare_commit(self) -> Any:
        """Return what the committer needs of this subtask: a small value that can be pickled."""

    @abstractmethod
    def create_committer(self, context: CommitContext) -> Committer:
        """Make the committer, on a copy of the sink that was never opened."""


class CollectSink(Sink):
    """Brings the records back to the program that runs the job, under the sink's name.

    All of them are kept in memory until the job ends. A subtask keeps the first ``limit`` records
    and leaves out the rest; without a limit it keeps all. If that is more than
    ``cluster.collect_records_max``, the job fails with a JobFailedError, rather than return less
    than was asked for.
    """

    def __init__(self, limit: int | None = None) -> None:
        if limit is not None and limit < 0:
            raise ConfigurationError(f"limit is {limit}: choose 0 or more records, or None")
        self._limit = limit

    def open(self, runtime_context: RuntimeContext) -> None:
        name = runtime_context.operator_name
        self._name = name
        self._records_max = runtime_context.collect_records_max
        self._collected = runtime_context.collected.setdefault(name, [])

    def write(self, records: list[Any]) -> None:
        if self._limit is not None:
            records = records[: self._limit - len(self._collected)]
        most = self._records_max
        if most is not None and len(self._collected) + len(records) > most:
            raise JobFailedError(
                f'collect sink "{self._name}" holds more than cluster.collect_records_max = '
                f"{most} records: give it a limit, write to files (ParquetSink), or raise that "
                "option"
            )
        self._collected += records


class PrintSink(Sink):
    """Prints records on the worker's standard output, with PyFlink's prefix ``identifier:2> ``.

    What would rule a terminal, or cannot be encoded, is written out: ``\\x1b``.
    """

    def __init__(self, identifier: str = "") -> None:
        self._identifier = identifier

    def open(self, runtime_context: RuntimeContext) -> None:
        many = runtime_context.parallelism > 1
        subtask = str(runtime_context.index + 1) if many else ""
        prefix = ":".join(filter(None, (self._identifier, subtask)))
        self._prefix = f"{prefix}> " if prefix else ""

    def write(self, records: list[Any]) -> None:
        lines = "".join(f"{self._prefix}{record}\n" for record in records)
        sys.stdout.write(printable(lines))


class SinkOperator(Operator):
    """The end of a chain: a sink that takes whole batches."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.process = self._write

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        try:
            await settle(self.sink.open(context))
        except Exception as error:
            self._fail(error, "in open()")

    async def end_of_input(self) -> None:
        try:
            await settle(self.sink.finish())
            if isinstance(self.sink, TwoPhaseSink):
                self._context.committables.append(await settle(self.sink.prepare_commit()))
        except Exception as error:
            self._fail(error, "in finish()")

    async def close(self) -> None:
        try:
            await settle(self.sink.close())
        except Exception as error:
            self._fail(error, "in close()")

    async def _write(self, records: list[Any]) -> None:
        try:
            await settle(self.sink.write(records))
        except Exception as error:
            self._fail(error, on_records(records))
