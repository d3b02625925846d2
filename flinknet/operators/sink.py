"""Sinks, and the operator that writes to them: records leave a job here, one batch at a time.

A sink object describes the whole sink, and every subtask has a copy. Programs that write one record
at a time use plain callables and ``SinkFunction`` instead.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from flinknet.compatibility.subscripted import Subscripted, T_contra
from flinknet.environment.task_thread import on_loop
from flinknet.errors import ConfigurationError, StateError
from flinknet.functions.calls import value_of
from flinknet.functions.context import RuntimeContext
from flinknet.functions.functions import CheckpointListener, Function
from flinknet.operators.operators import Operator, on_records
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch
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
"""Entries (subtask, checkpoint, committable) for output that is prepared and not committed."""


class Sink(Function, Subscripted[T_contra], ABC):
    """Base of sinks, which take batches of records. Each method may be a coroutine function.

    Life cycle in a subtask: ``open``, any number of ``write``, ``finish`` if the whole input was
    processed, and ``close``. Once ``open`` was called, ``close`` is always called, also after an
    error, and must then be harmless.
    """

    takes_whole_batches = True
    """Whether a few records cost about as much as many, as for a request."""

    @abstractmethod
    def write(self, records: list[T_contra]) -> Any:
        """Take records. The list is shared, so it must not be changed."""

    def finish(self) -> Any:
        """Make all written records visible: the input is complete."""


class ConfirmedSink(Sink[T_contra]):
    """A sink with a receiver that confirms records.

    A subtask acknowledges a checkpoint only after the confirmation, so no record of the checkpoint
    is lost with the subtask.
    """

    @abstractmethod
    async def confirm(self) -> None:
        """Return when the receiver has all records written before the last snapshot.

        The call may be cancelled, and repeated while records are written.
        """


@dataclass(frozen=True, slots=True)
class CommitContext:
    """The job and operator of the output that a committer commits."""

    operator_name: str
    job_id: str
    attempt: int
    checkpointed: bool = False
    """Whether the job has checkpoints; these have already committed most of the output."""


class Committer(ABC):
    """Makes the output of all subtasks of a sink visible at once, or removes it.

    A committer runs in one worker of the job, in its own thread. That worker, or the coordinator,
    can be lost at any moment; then another worker calls the same method again. So both methods must
    be *idempotent*, even while the first call still runs. ``abort`` may also follow a failed
    ``commit``, or run while a ``commit`` still hangs in another worker: the first of them wins.
    """

    @abstractmethod
    def commit(self, committables: list[Any]) -> None:
        """Make the prepared output visible; the committables are in the order of the subtasks."""

    @abstractmethod
    def abort(self) -> None:
        """Remove the output of all subtasks, prepared or not."""


class TwoPhaseSink(Sink[T_contra]):
    """A sink that commits its output at the end of the job (Flink's two-phase committing sink).

    The output becomes visible all at once, when every subtask of the job has finished, or not at
    all.

    In the first phase, the output of a subtask is invisible. At the end of the input, after
    ``finish``, ``prepare_commit`` makes it durable and returns a description of it. In the second
    phase, when every subtask has finished, one worker creates a ``Committer``, which commits the
    prepared output of all subtasks. The job finishes only after that.

    If the job fails or is cancelled, the output is aborted. If all processes are killed, it stays
    invisible, and the sink's next ``open`` or commit removes it. Several such sinks in a job commit
    independently, one after the other.

    This holds for jobs without checkpoints. A job with checkpoints needs a ``CheckpointedSink``.
    """

    @abstractmethod
    def prepare_commit(self) -> Any:
        """Return the data that the committer needs of this subtask: a small picklable value."""

    @abstractmethod
    def create_committer(self, context: CommitContext) -> Committer:
        """Create the committer; called on a copy of the sink that was never opened."""

    def exclusive_output(self) -> str | None:
        """Return the name of an output that only one sink of a job may write to, or None."""
        return None


class CheckpointedSink(TwoPhaseSink[T_contra]):
    """A two-phase sink that commits with each checkpoint of its job (Flink's SupportsCommitter).

    In a job without checkpoints it commits at the end, like any ``TwoPhaseSink``.

    Theory of operation. When a checkpoint is taken, ``roll`` ends the output written since the last
    one and returns *committables*, which identify that output and become state. ``persist`` makes
    the output durable before the checkpoint is acknowledged, and ``publish`` makes it visible when
    the checkpoint is complete. A job that is restored from that checkpoint before ``publish``
    publishes on restore. Later output is discarded, since its records are repeated. At the end of
    the input, the subtask waits for a last checkpoint that completes the remaining output. The
    committer runs when all subtasks have finished; it gets no committables and may clean up.

    If the newest checkpoint is lost, the job is restored from an older one, and the output
    published after that one is repeated. A sink with the base ``WithdrawableOutput`` withdraws it
    before it publishes anything else. Without that base the job fails, unless its configuration
    allows repeated output (``CheckpointConfig.set_allow_repeated_output``).

    Committables are text, or tuples of text and numbers. ``persist``, ``publish``, ``discard`` and
    ``withdraw_after`` run in a thread, the first two while records are written.
    """

    @abstractmethod
    def roll(self) -> list[Any]:
        """End the output written since the last call, quickly; return its committables."""

    @abstractmethod
    def persist(self, committables: list[Any]) -> None:
        """Make the output survive a loss of power; idempotent.

        Calls never overlap, even if the checkpoint of the running call is abandoned.
        """

    @abstractmethod
    def publish(self, checkpoint_id: int, committables: list[Any]) -> None:
        """Make the output visible; idempotent. After a failure, another subtask may call it.

        ``checkpoint_id`` is the first checkpoint that includes the committables. It is 0 if that
        checkpoint belongs to another job, which this job continues. ``withdraw_after`` needs the
        checkpoint of all published output.
        """

    @abstractmethod
    def discard(self, kept: Collection[Any], is_own: Callable[[int], bool]) -> None:
        """Remove output prepared by earlier attempts of the job, except the ``kept`` committables.

        ``is_own`` tells whether this subtask handles the output of the subtask with that index.
        """


class SinkOperator(Operator):
    """The end of a chain: an operator that writes whole batches to a sink."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.takes_whole_batches = sink.takes_whole_batches
        self.process = self._write
        self._saved: OperatorListState | None = None
        self._rolled: list[Any] = []
        """Committables that no checkpoint includes yet: the output left at the end of the input."""
        self._pending: list[tuple[int, Any]] = []
        """Checkpoint and committable of each output that is not visible yet."""
        self._volatile: list[Any] = []
        """The pending committables that are not durable yet."""
        self._persisting = asyncio.Lock()
        self._failure: Exception | None = None
        """The error after which written records may be lost."""

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        commits = context.checkpointed and isinstance(self.sink, TwoPhaseSink)
        if commits and not isinstance(self.sink, CheckpointedSink):
            raise ConfigurationError(
                f'sink "{context.operator_name}" commits once, at the end of the job, and cannot '
                "continue the output of an earlier attempt: run the job without checkpoints, or "
                "make the sink a CheckpointedSink"
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
        """Discard output from after the restored checkpoint, and publish the output it contains.

        A subtask handles the output of former subtasks that map to its index.
        """

        def is_own(index: int) -> bool:
            return index % context.parallelism == context.index

        self._saved = context.state.operator.get_union_list_state(_PENDING)
        saved = list(self._saved.get())
        kept = [committable for _, _, committable in saved]
        # Discard first: a worker that was wrongly declared dead may publish at this moment. It then
        # finds its unpublished output discarded, and its published output is withdrawn.
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
                f'sink "{self._context.operator_name}" commits once, at the end of the job: a '
                "savepoint needs a job with checkpoints"
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
        # Two checkpoints, or a checkpoint and a savepoint, may be written at the same time.
        await self._persisting.acquire()
        committables = list(self._volatile)
        if not committables:  # The checkpoint before has persisted all of them.
            self._persisting.release()
            return

        def is_over(work: asyncio.Future[None]) -> None:
            if not work.cancelled() and work.exception() is None:
                del self._volatile[: len(committables)]
            self._persisting.release()

        # If the checkpoint is abandoned, the thread goes on. The next checkpoint waits for it,
        # because otherwise both would send the same files.
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
        """Fail if a checkpoint has failed in the sink.

        The job tolerates as many failed checkpoints as ``tolerable_failures`` says. But output that
        a sink could not end or make durable may be lost, and must be produced again.
        """
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
        # Other receivers may share the batch. A sink that sorts its list must not move their values
        # beside other timestamps.
        records = batch.values.copy() if isinstance(batch, TimestampedBatch) else batch
        if self._failure is not None:
            self._check_nothing_is_lost()
        try:
            await value_of(self.sink.write(records))
        except BaseException as error:
            self.fail(error, on_records(records))


async def _publish(sink: CheckpointedSink, due: list[tuple[int, Any]]) -> None:
    """Publish committables in a thread, grouped by checkpoint, the oldest checkpoint first."""
    for checkpoint_id, group in groupby(sorted(due, key=itemgetter(0)), key=itemgetter(0)):
        committables = [committable for _, committable in group]
        await on_loop(asyncio.to_thread, sink.publish, checkpoint_id, committables)
