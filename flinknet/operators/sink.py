"""A sink, and the operator that writes to it: where records leave a job, a batch at a time.

A sink object describes the whole sink; every subtask has its copy. For a record at a time there are
plain callables and ``SinkFunction`` instead.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from flinknet.environment.task_thread import on_loop
from flinknet.errors import ConfigurationError, StateError
from flinknet.functions.calls import value_of
from flinknet.functions.context import RuntimeContext
from flinknet.functions.functions import CheckpointListener, Function
from flinknet.operators.operators import Operator, on_records
from flinknet.operators.stamps import Batch, StampedBatch
from flinknet.state.descriptors import ListStateDescriptor
from flinknet.state.operator_state import OperatorListState

__all__ = [
    "CheckpointedSink",
    "CommitContext",
    "Committer",
    "ConfirmedSink",
    "Sink",
    "SinkOperator",
    "TwoPhaseSink",
]

_PENDING = ListStateDescriptor("pending")
"""(subtask, checkpoint, committable) of what is prepared and not committed."""


class Sink(Function, ABC):
    """Takes batches of records. Each method may be a coroutine function.

    Life in a subtask: ``open``, any number of ``write``, ``finish`` if the whole input has been
    seen, and ``close``, which comes in any case once ``open`` was called, and must then do nothing
    harmful.
    """

    takes_whole_batches = True
    """Whether a few records cost it about as much as many, as a request does."""

    @abstractmethod
    def write(self, records: list[Any]) -> Any:
        """Take records; the list is shared, so it must not be changed."""

    def finish(self) -> Any:
        """Make everything written visible: the input is complete."""


class ConfirmedSink(Sink):
    """A sink whose other end confirms what it has taken: a checkpoint is acknowledged after that,
    so that nothing is lost with the subtask that is in a checkpoint."""

    @abstractmethod
    async def confirm(self) -> None:
        """Return when the other end has all that was written before the last snapshot; it may be
        cancelled, and called again while records are written."""


@dataclass(frozen=True, slots=True)
class CommitContext:
    """Whose output a committer commits."""

    operator_name: str
    job_id: str
    attempt: int
    checkpointed: bool = False
    """Whether the job has checkpoints, with which most is committed already."""


class Committer(ABC):
    """Makes the output of all subtasks of a sink visible at once, or removes it.

    It runs in one worker of the job, in a thread of its own. That worker, or the coordinator, can
    be lost at any moment: then another one calls the same method again, so both must be
    *idempotent*, also if the first call still runs. ``abort`` may also come after a ``commit`` that
    failed, and even while one still hangs elsewhere: whichever of the two is first wins.
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

    That is what a job without checkpoints does; one with checkpoints needs a ``CheckpointedSink``.
    """

    @abstractmethod
    def prepare_commit(self) -> Any:
        """Return what the committer needs of this subtask: a small value that can be pickled."""

    @abstractmethod
    def create_committer(self, context: CommitContext) -> Committer:
        """Make the committer, on a copy of the sink that was never opened."""

    def exclusive_output(self) -> str | None:
        """Return the name of what only one sink of a job may write to, or None if others may."""
        return None


class CheckpointedSink(TwoPhaseSink):
    """A two-phase sink that commits with each checkpoint of its job, if that has any (Flink's
    SupportsCommitter).

    Theory of operation. When a checkpoint is taken, the sink ends what it has written since the
    last one (``roll``): what it calls it by, a *committable*, is state. Before the checkpoint is
    acknowledged it is made durable (``persist``), and when the checkpoint is complete it becomes
    visible (``publish``). If the job goes on from that checkpoint before it did, it does so then;
    what was written later is discarded, since the records come again. For what is left at the end
    of its input the subtask waits until a last checkpoint of it is complete; the committer, which
    comes when all subtasks have finished, gets nothing, and may clear up.

    If the newest checkpoint is lost, the job goes on from an older one, and what was published
    behind that one comes again. A sink with the base ``WithdrawableOutput`` takes it back before
    anything else is published; without that base the job fails, unless its configuration allows
    repeated output (``CheckpointConfig.set_allow_repeated_output``).

    Committables are text, or tuples of text and numbers. ``persist``, ``publish``, ``discard`` and
    ``withdraw_after`` run in a thread, the first two while records are written.
    """

    @abstractmethod
    def roll(self) -> list[Any]:
        """End what was written since the last call, quickly; return its committables."""

    @abstractmethod
    def persist(self, committables: list[Any]) -> None:
        """Have it survive a loss of power; idempotent. Never called while a call is under way, even
        if the checkpoint of that call is given up."""

    @abstractmethod
    def publish(self, checkpoint_id: int, committables: list[Any]) -> None:
        """Make it visible; idempotent, and after a failure it may be another subtask that does.

        ``checkpoint_id`` is the first checkpoint that the committables are part of, 0 if that is
        one of another job which this one continues. ``withdraw_after`` needs to know it of
        everything that was published.
        """

    @abstractmethod
    def discard(self, kept: Collection[Any], is_own: Callable[[int], bool]) -> None:
        """Remove what earlier attempts of the job have prepared, but for what is kept, where
        ``is_own`` says so of the subtask that wrote it."""


class SinkOperator(Operator):
    """The end of a chain: a sink that takes whole batches."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.takes_whole_batches = sink.takes_whole_batches
        self.process = self._write
        self._saved: OperatorListState | None = None
        self._rolled: list[Any] = []
        """Committables that no checkpoint has yet: what was left at the end of the input."""
        self._pending: list[tuple[int, Any]] = []
        """Checkpoint and committable of what is not visible yet."""
        self._volatile: list[Any] = []
        """Those of them that are not durable yet."""
        self._persisting = asyncio.Lock()
        self._failure: Exception | None = None
        """Why what was written may be lost."""

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        commits = context.checkpointed and isinstance(self.sink, TwoPhaseSink)
        if commits and not isinstance(self.sink, CheckpointedSink):
            raise ConfigurationError(
                f'sink "{context.operator_name}" commits once, at the end of the job, and cannot '
                "go on with what an attempt before it has written: run the job without "
                "checkpoints, or make it a CheckpointedSink"
            )
        try:
            context.state.initialize(self.sink)
            await value_of(self.sink.open(context))
        except BaseException as error:
            self.fail(error, "in open()")
        if commits and isinstance(self.sink, CheckpointedSink):
            try:
                await self._take_over(self.sink, context)
            except BaseException as error:
                self.fail(error, "in publish()")
        else:
            await self.withdraw_output(self.output_of_checkpoints())

    async def _take_over(self, sink: CheckpointedSink, context: RuntimeContext) -> None:
        """Remove what came behind the checkpoint that the job goes on from, and make visible what
        it has: of the subtasks of then whose numbers this one has now."""

        def is_own(index: int) -> bool:
            return index % context.parallelism == context.index

        self._saved = context.state.operator.get_union_list_state(_PENDING)
        saved = list(self._saved.get())
        kept = [committable for _, _, committable in saved]
        # In this order: a worker that was taken for dead may publish at this moment. What it has
        # not published yet it then finds discarded, and what it has is withdrawn.
        await on_loop(asyncio.to_thread, sink.discard, kept, is_own)
        await self.withdraw_output(sink, in_thread=True)
        restored = context.state.restored_from
        is_same_job = restored is not None and restored.job_id == context.job_id
        own = [
            (checkpoint_id if is_same_job else 0, committable)
            for index, checkpoint_id, committable in saved
            if is_own(index)
        ]
        await _publish(sink, own)

    def output_of_checkpoints(self) -> object | None:
        told = isinstance(self.sink, CheckpointedSink | CheckpointListener)
        return self.sink if told else None

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if isinstance(self.sink, TwoPhaseSink) and self._saved is None:
            raise StateError(
                f'sink "{self._context.operator_name}" commits once, at the end of the job: it has '
                "no savepoint without checkpoints"
            )
        if self._saved is None or not isinstance(self.sink, CheckpointedSink):
            return
        try:
            self._roll(self.sink)
        except Exception as error:
            self._failure = error
            raise
        self._pending += [(checkpoint_id, committable) for committable in self._rolled]
        self._rolled = []
        index = self._context.index
        self._saved.update([(index, *pending) for pending in self._pending])

    def _roll(self, sink: CheckpointedSink) -> None:
        rolled = sink.roll()
        self._rolled += rolled
        self._volatile += rolled

    def awaits_checkpoint(self) -> bool:
        self._check_nothing_is_lost()
        return bool(self._rolled or self._pending) or isinstance(self.sink, CheckpointListener)

    async def persist(self) -> None:
        try:
            if isinstance(self.sink, ConfirmedSink):
                await self.sink.confirm()
            elif self._volatile and isinstance(self.sink, CheckpointedSink):
                await self._make_durable(self.sink)
        except Exception as error:
            self._failure = error
            raise

    async def _make_durable(self, sink: CheckpointedSink) -> None:
        # Two checkpoints may be written at a time, or one and a savepoint.
        await self._persisting.acquire()
        committables = list(self._volatile)
        if not committables:  # The checkpoint before has taken all of them.
            self._persisting.release()
            return

        def is_over(work: asyncio.Future[None]) -> None:
            if not work.cancelled() and work.exception() is None:
                del self._volatile[: len(committables)]
            self._persisting.release()

        # If the checkpoint is given up the thread goes on: the next one waits for its end, or both
        # would send the same files.
        work = asyncio.ensure_future(asyncio.to_thread(sink.persist, committables))
        work.add_done_callback(is_over)
        await asyncio.shield(work)

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        try:
            if isinstance(self.sink, CheckpointListener):
                await value_of(self.sink.notify_checkpoint_complete(checkpoint_id))
            if self._saved is not None and isinstance(self.sink, CheckpointedSink):
                await _publish(self.sink, [one for one in self._pending if one[0] <= checkpoint_id])
                self._pending = [one for one in self._pending if one[0] > checkpoint_id]
        except BaseException as error:
            self.fail(error, "when a checkpoint was complete")

    def _check_nothing_is_lost(self) -> None:
        """A checkpoint that fails does not fail its job; but what a sink could not end or make
        durable may be gone, and must come again."""
        if self._failure is not None:
            self.fail(self._failure, "for a checkpoint")

    async def end_of_input(self) -> None:
        self._check_nothing_is_lost()
        try:
            await value_of(self.sink.finish())
            if self._saved is not None and isinstance(self.sink, CheckpointedSink):
                self._roll(self.sink)
            elif isinstance(self.sink, TwoPhaseSink):
                self._context.committables.append(await value_of(self.sink.prepare_commit()))
        except BaseException as error:
            self.fail(error, "in finish()")

    async def close(self) -> None:
        try:
            await value_of(self.sink.close())
        except BaseException as error:
            self.fail(error, "in close()")

    async def _write(self, batch: Batch) -> None:
        # A sink may sort its list; others may have the batch, too.
        records = batch.values.copy() if isinstance(batch, StampedBatch) else batch
        if self._failure is not None:
            self._check_nothing_is_lost()
        try:
            await value_of(self.sink.write(records))
        except BaseException as error:
            self.fail(error, on_records(records))


async def _publish(sink: CheckpointedSink, due: list[tuple[int, Any]]) -> None:
    """Publish committables, each with its checkpoint, the oldest first; in a thread."""
    for checkpoint_id, group in groupby(sorted(due, key=itemgetter(0)), key=itemgetter(0)):
        committables = [committable for _, committable in group]
        await on_loop(asyncio.to_thread, sink.publish, checkpoint_id, committables)
