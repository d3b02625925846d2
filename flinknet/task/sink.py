"""A sink, and the operator that writes to it: where records leave a job, a batch at a time.

A sink object describes the whole sink; every subtask has its copy. For a record at a time there are
plain callables and ``SinkFunction`` instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from flinknet.errors import ConfigurationError, StateError
from flinknet.task.context import RuntimeContext
from flinknet.task.functions import Function
from flinknet.task.operators import Operator, on_records, value_of

__all__ = ["CommitContext", "Committer", "Sink", "SinkOperator", "TwoPhaseSink"]


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


class SinkOperator(Operator):
    """The end of a chain: a sink that takes whole batches."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.process = self._write

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        if context.checkpointed and isinstance(self.sink, TwoPhaseSink):
            raise ConfigurationError(
                f'sink "{context.operator_name}" commits once, at the end of the job, and cannot '
                "go on with what an attempt before it has written: run the job without checkpoints"
            )
        try:
            context.state.initialize(self.sink)
            await value_of(self.sink.open(context))
        except Exception as error:
            self._fail(error, "in open()")

    def prepare_snapshot(self) -> None:
        if isinstance(self.sink, TwoPhaseSink) and not self._context.checkpointed:
            raise StateError(
                f'sink "{self._context.operator_name}" commits once, at the end of the job: it has '
                "no savepoint without checkpoints"
            )

    async def end_of_input(self) -> None:
        try:
            await value_of(self.sink.finish())
            if isinstance(self.sink, TwoPhaseSink):
                self._context.committables.append(await value_of(self.sink.prepare_commit()))
        except Exception as error:
            self._fail(error, "in finish()")

    async def close(self) -> None:
        try:
            await value_of(self.sink.close())
        except Exception as error:
            self._fail(error, "in close()")

    async def _write(self, records: list[Any]) -> None:
        try:
            await value_of(self.sink.write(records))
        except Exception as error:
            self._fail(error, on_records(records))
