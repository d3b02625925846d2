"""The operator chain: the operators of one subtask, wired into a tree of direct calls.

Theory of operation. The head's ``process`` takes the records that enter the chain. The results of
an operator go to the operators chained to it and to the record writers of its edges. With a single
target, ``emit`` is that target's method, with only a counter in between (``operator_counts.py``).
Where the program requires it, a conversion to the declared type (``typed_records.py``) or a copy of
mutable records (``with_copies``) is inserted.

Operators are opened from last to first, so that an operator that emits finds its successors ready.
They end from first to last, so that successors still process the results emitted at the end of the
input. Watermarks go to all chained operators and all subpartitions. A latency marker goes to one of
them at random, so that markers do not multiply downstream (Flink).

After the end of the input, the chain *awaits its final checkpoint* if an operator has work to do
when that checkpoint is complete. The final checkpoint is the first one that was captured after
every operator had ended (FLIP-147).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from flinknet.buffer.availability import Availability
from flinknet.config import MetricsConfig
from flinknet.environment.task_thread import GatheredOutput
from flinknet.errors import FlinknetError, JobFailedError, SerializationError
from flinknet.functions.context import ProcessContext, RuntimeContext
from flinknet.graph.graph import ChainedOperator, JobVertex
from flinknet.machine import randrange
from flinknet.metrics.latency_statistics import LatencyHistogram, LatencyStatistics
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.operators.operators import Emit, Operator, PassOn, StreamElement, on_records
from flinknet.operators.side_outputs import split_outputs
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch, on_wire, values_of
from flinknet.operators.typed_records import restored, typed
from flinknet.records.detached import Detachment, each_detached
from flinknet.records.route import Write
from flinknet.records.writer import RecordWriter
from flinknet.runtime.operator_counts import OperatorCounts
from flinknet.state.state_handler import OperatorSnapshot, StateHandler
from flinknet.texts import text_of
from flinknet.wire.events import MAX_WATERMARK, LatencyMarker, Watermark

__all__ = ["MARKERS_QUEUED_MAX", "OperatorChain", "RecordWriterOutput", "with_copies"]

T = TypeVar("T")

MARKERS_QUEUED_MAX = 10
"""Maximum number of unread events in a channel that still gets latency markers. Beyond it, the
markers that already wait will show the latency."""


def with_copies(
    process: Callable[[Any], T], fail: Callable[[Exception], Any]
) -> Callable[[Batch], T]:
    """Return a ``process`` that works on copies of the mutable records.

    An operator keeps no reference to a record that it emits (``records/detached.py``). So a single
    successor may change and keep the record. With several successors, all but the last take copies,
    and writers serialise before any of them. Flink copies records between all chained operators;
    with ``enable_object_reuse`` neither Flink nor this chain copies. ``fail`` gets the error of a
    record that cannot be copied.
    """

    def process_copies(records: Batch) -> T:
        copied: list[Any] = []
        try:
            copied.extend(each_detached(iter(values_of(records))))
        except Exception as error:
            fail(error)
        if isinstance(records, TimestampedBatch):
            return process(TimestampedBatch(copied, records.stamps))
        return process(copied)

    return process_copies


class RecordWriterOutput:
    """The end of a chain at the network: one edge's writer, with errors that name the operator."""

    def __init__(
        self,
        writer: RecordWriter,
        edge_name: str,
        operator_name: str,
        tag: str | None = None,
        *,
        is_silent: bool = False,
    ) -> None:
        self.writer = writer
        self.tag = tag
        self.is_silent = is_silent
        """Whether these records have no timestamps while another input of the consumer has them.
        The end of event time there waits for the end of this output."""
        self._edge_name = edge_name
        self._operator_name = operator_name
        self.emit: Emit = self._write
        """Write records. This is the place where a chain feels backpressure."""
        self.pass_on: PassOn = self._write_element
        """Send a watermark or a status to all consumers, or a latency marker to one of them."""

    def gather(self, gathered: GatheredOutput) -> None:
        """Serialise records in the thread that emits them, and have the event loop write them.

        A key selector that blocks then delays only its own subtask.
        """
        self.emit = gathered.gathering(self._pack, self._named)
        self.pass_on = gathered.gathering(self._pack_element, _as_it_is)

    async def _write(self, batch: Batch) -> None:
        try:
            await self.writer.emit_many(on_wire(batch))
        except Exception as error:
            named = self._named(error, batch)
            if named is error:
                raise
            raise named from error

    def _pack(self, batch: Batch) -> Iterable[Write]:
        return self.writer.pack(on_wire(batch))

    def _pack_element(self, element: StreamElement) -> Iterable[Write]:
        return [Write(partial(self._write_element, element), 0)]

    def _named(self, error: Exception, batch: Batch | None) -> Exception:
        """Return an error of the writer with the name of the operator that emitted the records.

        ``batch`` is None if only the serialised bytes are left; no partitioner reads those.
        """
        if isinstance(error, SerializationError):
            return SerializationError(
                f'operator "{self._operator_name}" emitted a record that cannot be sent: '
                f"{text_of(error)}"
            )
        if isinstance(error, FlinknetError) or batch is None:
            return error
        return JobFailedError(
            f'the {self._edge_name} partitioning behind operator "{self._operator_name}" '
            f"failed {on_records(on_wire(batch))}: {type(error).__name__}: {text_of(error)}"
        )

    async def _write_element(self, element: StreamElement) -> None:
        if isinstance(element, LatencyMarker):
            await self._send_marker(element)
        else:
            await self.writer.broadcast_event(element.event())

    async def _send_marker(self, marker: LatencyMarker) -> None:
        """Send a marker to a random subpartition; drop it if ``MARKERS_QUEUED_MAX`` events wait."""
        subpartitions = self.writer.partition.subpartitions
        index = randrange(len(subpartitions))
        if subpartitions[index].events_queued < MARKERS_QUEUED_MAX:
            await self.writer.emit_event(marker.event(), index)


class Targets:
    """The writers and chained operators that take the same records of an operator."""

    def __init__(self) -> None:
        self.writers: list[Emit] = []
        self.chained: list[tuple[Emit, Emit]] = []
        """For each chained operator, a callable for the records themselves, and one that copies."""

    @property
    def emit(self) -> Emit:
        """Callable that passes records to all targets.

        The writers come first, so that they serialise a record before a function changes it. The
        last operator gets the records themselves.
        """
        if not self.chained:
            return _to_all(self.writers)
        copying = [copy for _, copy in self.chained]
        copying[-1] = self.chained[-1][0]
        return _to_all([*self.writers, *copying])


def _as_it_is(error: Exception, element: StreamElement | None) -> Exception:
    return error


class OperatorChain:
    """The operators of one subtask.

    ``outputs`` are the edges that leave each operator, by the operator's index. ``context`` belongs
    to the subtask; every operator gets a copy with its own name.
    """

    def __init__(
        self,
        vertex: JobVertex,
        context: RuntimeContext,
        outputs: Mapping[int, Sequence[RecordWriterOutput]],
        metrics: MetricsConfig | None = None,
    ) -> None:
        chained = vertex.own_operators()
        self._operators = [one.factory() for one in chained]
        self._reuses_objects = vertex.object_reuse
        self._contexts = [_own_context(context, one, metrics) for one in chained]
        self._counts: list[OperatorCounts] = []
        for one in chained:
            before = None if one.input is None else self._counts[one.input]
            splits = one.splits_outputs
            self._counts.append(OperatorCounts(one.name, one.uid, before, splits_outputs=splits))
        self.uids = [one.uid for one in chained]
        """The uids of the operators, first to last."""
        self._outputs = [output for some in outputs.values() for output in some]
        self.gathered: GatheredOutput | None = None
        """Output of the chain's steps in a thread; None if the event loop runs the chain."""
        # A chain that awaits something for every record would switch threads for each of them.
        if vertex.task_threads and not any(one.needs_loop for one in self._operators):
            self.gathered = GatheredOutput()
            for output in self._outputs:
                output.gather(self.gathered)
        self.may_cut_batches = not any(one.takes_whole_batches for one in self._operators)
        """Whether a batch may be processed in parts."""
        self._opened: list[Operator] = []
        self._has_ended = False
        self._final_checkpoint: int | None = None
        """The first checkpoint that was captured after the end of the input."""
        self._is_final_complete = False
        for index, one in enumerate(chained):
            self._connect(index, one, chained, outputs.get(index, ()))
        self.head = self._operators[0]
        if chained[0].input_types:
            self.head.process = restored(self.head, self._contexts[0], chained[0].input_types)

    def _connect(
        self,
        index: int,
        one: ChainedOperator,
        chained: Sequence[ChainedOperator],
        outputs: Sequence[RecordWriterOutput],
    ) -> None:
        targets: dict[str | None, Targets] = defaultdict(Targets)
        told: list[PassOn] = []
        counts = self._counts[index]
        for other, own, behind in zip(self._operators, self._counts, chained, strict=True):
            if behind.input == index:
                take, copy = other.process, self._copying(one, behind, other)
                taking = own.counted_input(take), own.counted_input(copy)
                targets[behind.tag].chained.append(taking)
                told.append(other.process_stream_element)
        for output in outputs:
            targets[output.tag].writers.append(output.emit)
            told.append(output.pass_on)
        if self._reuses_objects:
            self._operators[index].detachment = Detachment.NONE
        elif not any(some.chained for some in targets.values()):
            # Only writers take the records. A value that cannot be copied is passed on as it is,
            # because the writer refuses it with a better error.
            self._operators[index].detachment = Detachment.IF_POSSIBLE
        self._operators[index].is_timestamped = one.stamped
        emit = targets.pop(None, Targets()).emit  # The main output; side outputs are left.
        if one.converts and one.output_type is not None:
            emit = typed(emit, self._operators[index], one.output_type)
        if one.splits_outputs:
            sides = {tag: some.emit for tag, some in targets.items() if tag is not None}
            emit = split_outputs(emit, sides, self._operators[index])
        pass_on = counts.noted(_to_all_or_one_marker(told))
        self._operators[index].connect(counts.counted_output(emit), pass_on)

    def _copying(self, one: ChainedOperator, behind: ChainedOperator, other: Operator) -> Emit:
        """Return a ``process`` of ``other`` that takes copies of the records of ``one``."""
        known = one.output_type if behind.tag is None else None
        if self._reuses_objects or (known is not None and known.is_unchanging):
            return other.process

        def fail(error: Exception) -> None:
            other.fail(error, "to copy a record")

        return with_copies(other.process, fail)

    @property
    def rooms(self) -> list[Availability]:
        """For each operator that waits for more than its successors, whether it has room."""
        return [operator.room for operator in self._operators if operator.room is not None]

    def set_channel(self, channel: int) -> None:
        """Set the input channel of the next batch, for process functions to see."""
        for context in self._contexts:
            context.process_context.channel = channel

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> list[OperatorSnapshot]:
        """Capture the state of all operators, first to last, between two batches.

        Each snapshot must be written or closed by the caller. Raises StateError, or the error of a
        function's ``snapshot_state``.
        """
        if self._has_ended and self._final_checkpoint is None:
            self._final_checkpoint = checkpoint_id
        taken: list[OperatorSnapshot] = []
        with ExitStack() as given_up:
            for operator, context in zip(self._operators, self._contexts, strict=True):
                operator.prepare_snapshot(checkpoint_id)
                snapshot = context.state.snapshot(checkpoint_id, timestamp_ms)
                given_up.callback(snapshot.close)
                taken.append(snapshot)
            given_up.pop_all()  # All are captured: the caller closes them from now on.
        return taken

    async def persist(self) -> None:
        """Make data outside of the captured state durable, before the snapshot is acknowledged.

        Records are processed meanwhile.
        """
        for operator in self._operators:
            await operator.persist()

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Report a complete checkpoint to all operators, first to last; called between batches."""
        for operator in self._operators:
            await operator.notify_checkpoint_complete(checkpoint_id)
        if self._final_checkpoint is not None and checkpoint_id >= self._final_checkpoint:
            self._is_final_complete = True

    def state_of(self, uid: str) -> StateHandler:
        """Return the state of an operator, for restoring it before ``open``."""
        return self._contexts[self.uids.index(uid)].state

    async def open(self) -> None:
        """Open all operators, last to first."""
        for operator, context in zip(
            reversed(self._operators), reversed(self._contexts), strict=True
        ):
            self._opened.append(operator)
            await operator.open(context)

    async def end_of_input(self) -> None:
        """Let every operator emit the results it held back, first to last. Idempotent.

        Silent outputs then send the end of event time, because their consumers wait for it.
        """
        if not self._has_ended:
            for operator in self._operators:
                await operator.end_of_input()
            for output in self._outputs:
                if output.is_silent:
                    await output.pass_on(Watermark(MAX_WATERMARK))
            self._has_ended = True

    def awaits_checkpoint(self) -> bool:
        """Return whether the chain has ended, except for work at the completion of a checkpoint.

        Raises JobFailedError if that work has become impossible.
        """
        if not self._has_ended or self._is_final_complete:
            return False
        return any(operator.awaits_checkpoint() for operator in self._operators)

    async def close(self, cause: BaseException | None = None) -> None:
        """Close every operator that was opened, first to last.

        The first error is raised when all are closed. If the chain is closed because of ``cause``,
        errors are added to it as notes instead.
        """
        failure: Exception | None = None
        # They were opened last to first, so the last entry is the first operator.
        while self._opened:
            try:
                await self._opened.pop().close()
            except Exception as error:
                if cause is not None:
                    cause.add_note(f"closing failed too: {text_of(error)}")
                failure = failure or error
        if failure is not None and cause is None:
            raise failure

    def close_state(self) -> None:
        """Release all state, once no snapshot of it is being written. Idempotent."""
        for context in self._contexts:
            context.state.close()

    def metrics(self) -> dict[str, Any]:
        """Return the metrics that functions left in their contexts, by operator name."""
        return {
            context.operator_name: context.metrics for context in self._contexts if context.metrics
        }

    def operator_totals(
        self, records_read: int, watermark_read: int | None
    ) -> tuple[OperatorTotals, ...]:
        """Return the counts of each operator, first to last.

        ``records_read`` and ``watermark_read`` are the input of the subtask, and so of the first
        operator.
        """
        return tuple(
            counts.totals(records_read, watermark_read, operator.late_records_dropped)
            for operator, counts in zip(self._operators, self._counts, strict=True)
        )

    def latency_histograms(self) -> tuple[LatencyHistogram, ...]:
        """Return the latencies of the markers at each operator, first to last."""
        return tuple(
            histogram for context in self._contexts for histogram in context.latency.histograms()
        )

    def committables(self) -> dict[str, list[Any]]:
        """Return the prepared output of two-phase sinks, by operator uid."""
        return {
            uid: context.committables
            for uid, context in zip(self.uids, self._contexts, strict=True)
            if context.committables
        }


def _own_context(
    context: RuntimeContext, operator: ChainedOperator, metrics: MetricsConfig | None
) -> RuntimeContext:
    return replace(
        context,
        operator_name=operator.name,
        operator_uid=operator.uid,
        latency=LatencyStatistics(operator.uid, context.index, metrics),
        metrics={},
        committables=[],
        process_context=ProcessContext(),
        state=StateHandler(
            operator=operator.name,
            uid=operator.uid,
            index=context.index,
            parallelism=context.parallelism,
            max_parallelism=context.max_parallelism,
            types=context.types,
            now_ms=context.processing_time.get_current_processing_time,
            backends=context.state_backends,
        ),
    )


def _to_all(
    targets: list[Callable[[T], Coroutine[Any, Any, None]]],
) -> Callable[[T], Coroutine[Any, Any, None]]:
    if len(targets) == 1:
        return targets[0]

    async def give_to_all(what: T) -> None:
        for target in targets:
            await target(what)

    return give_to_all


def _to_all_or_one_marker(told: list[PassOn]) -> PassOn:
    """Return a callable that passes event time to all targets, and a latency marker to one."""
    if len(told) <= 1:
        return _to_all(told)
    to_all = _to_all(told)

    async def pass_on(element: StreamElement) -> None:
        if isinstance(element, LatencyMarker):
            await told[randrange(len(told))](element)
        else:
            await to_all(element)

    return pass_on
