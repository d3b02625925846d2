"""The operator chain: the operators of one subtask, wired into a tree of direct calls.

Theory of operation. The head's ``process`` takes what comes in. Every operator's results go to the
operators behind it and to the record writers of its edges; with one of them, ``emit`` calls its
method, and between two operators stands only what counts (``operator_counts.py``). Operators are
opened from the end to the start, so that whoever emits finds its successors ready; they end in the
direction of the data, so that what one emits at the end of its input is processed by those behind
it before these end too. Watermarks go the way of the records, to all operators behind and to all
subpartitions; a latency marker goes to one of them, at random, so that there are no more of them
behind (Flink). In between stands what a program asks for: what makes records of the type that is
declared (`typed_records.py`) and what copies those that can be changed (`record_copies.py`).

Behind the end of the input the chain *awaits its final checkpoint*, if an operator has something to
do when that is complete: one that was captured after every operator had ended (FLIP-147).
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
from flinknet.operators.stamps import Batch, StampedBatch, on_wire, values_of
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
"""Unread events of a channel from which on it gets no more latency markers: those that are there
will say how long it takes."""


def with_copies(
    process: Callable[[Any], T], fail: Callable[[Exception], Any]
) -> Callable[[Batch], T]:
    """Return a ``process`` that works on copies of the records that can be changed.

    An operator keeps no reference to a record that it emits (``records/detached.py``), so the one
    operator behind it may change and keep the record. Of several operators behind it, all but the
    last one take copies, and writers serialise before any of them. Flink copies records between all
    chained operators; with ``enable_object_reuse`` neither is done. ``fail`` gets the error of a
    record that cannot be copied.
    """

    def process_copies(records: Batch) -> T:
        copied: list[Any] = []
        try:
            copied.extend(each_detached(iter(values_of(records))))
        except Exception as error:
            fail(error)
        if isinstance(records, StampedBatch):
            return process(StampedBatch(copied, records.stamps))
        return process(copied)

    return process_copies


class RecordWriterOutput:
    """The end of a chain at the network: one edge's writer, which names who made a bad record."""

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
        """Whether its records have no timestamps and those of another input of the consumer do.
        The end of event time waits there for the end of this output."""
        self._edge_name = edge_name
        self._operator_name = operator_name
        self.emit: Emit = self._write
        """Takes records to be written; this is where a chain feels backpressure."""
        self.pass_on: PassOn = self._write_element
        """Takes a watermark or a status for all consumers, or a latency marker for one of them."""

    def gather(self, gathered: GatheredOutput) -> None:
        """Have records serialised where they are emitted, and all of it written by the loop."""
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
        """Return an error of the writer as one that says which operator emitted the records; they
        are None where only their bytes are left, which no partitioner looks at."""
        if isinstance(error, SerializationError):
            return SerializationError(
                f'operator "{self._operator_name}" emitted what cannot be sent: {text_of(error)}'
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
        """Send it at random; where ``MARKERS_QUEUED_MAX`` events wait, it is dropped."""
        subpartitions = self.writer.partition.subpartitions
        index = randrange(len(subpartitions))
        if subpartitions[index].events_queued < MARKERS_QUEUED_MAX:
            await self.writer.emit_event(marker.event(), index)


class Targets:
    """The writers and chained operators that take the same records of an operator."""

    def __init__(self) -> None:
        self.writers: list[Emit] = []
        self.chained: list[tuple[Emit, Emit]] = []
        """What takes the records themselves, and what takes copies of them."""

    @property
    def emit(self) -> Emit:
        """Give records to all. The writers come first: they have serialised a record before a
        function changes it. The last operator gets the records themselves."""
        if not self.chained:
            return _to_all(self.writers)
        copying = [copy for _, copy in self.chained]
        copying[-1] = self.chained[-1][0]
        return _to_all([*self.writers, *copying])


def _as_it_is(error: Exception, element: StreamElement | None) -> Exception:
    return error


class OperatorChain:
    """The operators of one subtask.

    ``outputs`` are the edges that leave each operator, by its index. ``context`` is the subtask's;
    every operator gets its own, with its name.
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
        """Of the operators, first to last."""
        self._outputs = [output for some in outputs.values() for output in some]
        self.gathered: GatheredOutput | None = None
        """What its steps in a thread have emitted; None if the event loop runs it."""
        if vertex.task_threads and not any(one.needs_loop for one in self._operators):
            self.gathered = GatheredOutput()
            for output in self._outputs:
                output.gather(self.gathered)
        self.may_cut_batches = not any(one.takes_whole_batches for one in self._operators)
        """Whether a batch may be processed in parts."""
        self._opened: list[Operator] = []
        self._has_ended = False
        self._final_checkpoint: int | None = None
        """The first one that was captured behind the end of the input."""
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
            self._operators[index].detachment = Detachment.IF_POSSIBLE
        self._operators[index].is_stamped = one.stamped
        emit = targets.pop(None, Targets()).emit
        if one.converts and one.output_type is not None:
            emit = typed(emit, self._operators[index], one.output_type)
        if one.splits_outputs:
            sides = {tag: some.emit for tag, some in targets.items() if tag is not None}
            emit = split_outputs(emit, sides, self._operators[index])
        pass_on = counts.noted(_as_it_goes(told))
        self._operators[index].connect(counts.counted_output(emit), pass_on)

    def _copying(self, one: ChainedOperator, behind: ChainedOperator, other: Operator) -> Emit:
        """Return a ``process`` of the other operator, behind the one, that takes copies."""
        known = one.output_type if behind.tag is None else None
        if self._reuses_objects or (known is not None and known.is_unchanging):
            return other.process

        def fail(error: Exception) -> None:
            other.fail(error, "to copy a record")

        return with_copies(other.process, fail)

    @property
    def rooms(self) -> list[Availability]:
        """Of each operator that waits for others than those behind it, whether it would take a
        batch."""
        return [operator.room for operator in self._operators if operator.room is not None]

    def set_channel(self, channel: int) -> None:
        """Tell process functions which input channel the next batch came through."""
        for context in self._contexts:
            context.process_context.channel = channel

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> list[OperatorSnapshot]:
        """Capture the state of all operators, first to last, between two batches; each is to be
        written or closed. Raises StateError, or what a function's ``snapshot_state`` raises."""
        if self._has_ended and self._final_checkpoint is None:
            self._final_checkpoint = checkpoint_id
        taken: list[OperatorSnapshot] = []
        with ExitStack() as given_up:
            for operator, context in zip(self._operators, self._contexts, strict=True):
                operator.prepare_snapshot(checkpoint_id)
                snapshot = context.state.snapshot(checkpoint_id, timestamp_ms)
                given_up.callback(snapshot.close)
                taken.append(snapshot)
            given_up.pop_all()
        return taken

    async def persist(self) -> None:
        """Make durable what operators have outside of their state when a snapshot was taken, beside
        the records: before it is acknowledged."""
        for operator in self._operators:
            await operator.persist()

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, first to last; between two batches."""
        for operator in self._operators:
            await operator.notify_checkpoint_complete(checkpoint_id)
        if self._final_checkpoint is not None and checkpoint_id >= self._final_checkpoint:
            self._is_final_complete = True

    def state_of(self, uid: str) -> StateHandler:
        """Return the state of an operator, to be restored before ``open``."""
        return self._contexts[self.uids.index(uid)].state

    async def open(self) -> None:
        """Open all operators, last to first."""
        for operator, context in zip(
            reversed(self._operators), reversed(self._contexts), strict=True
        ):
            self._opened.append(operator)
            await operator.open(context)

    async def end_of_input(self) -> None:
        """Let every operator emit what it held back, first to last, and say to consumers that
        wait for it that event time may end; idempotent."""
        if not self._has_ended:
            for operator in self._operators:
                await operator.end_of_input()
            for output in self._outputs:
                if output.is_silent:
                    await output.pass_on(Watermark(MAX_WATERMARK))
            self._has_ended = True

    def awaits_checkpoint(self) -> bool:
        """Whether it has ended, but for what a checkpoint that is complete has it do. Raises
        JobFailedError if that cannot be done any more."""
        if not self._has_ended or self._is_final_complete:
            return False
        return any(operator.awaits_checkpoint() for operator in self._operators)

    async def close(self, cause: BaseException | None = None) -> None:
        """Close every operator that was opened, first to last.

        The first error is raised when all are closed; if the chain is closed because of ``cause``,
        errors are notes on it instead.
        """
        failure: Exception | None = None
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
        """Let go of all state, when no snapshot of it is written any more; idempotent."""
        for context in self._contexts:
            context.state.close()

    def metrics(self) -> dict[str, Any]:
        """What the functions left in their contexts, by operator name."""
        return {
            context.operator_name: context.metrics for context in self._contexts if context.metrics
        }

    def operator_totals(
        self, records_read: int, watermark_read: int | None
    ) -> tuple[OperatorTotals, ...]:
        """What each operator has moved, first to last; of the first one, what the subtask has
        read, and of event time has read."""
        return tuple(
            counts.totals(records_read, watermark_read, operator.late_records_dropped)
            for operator, counts in zip(self._operators, self._counts, strict=True)
        )

    def latency_histograms(self) -> tuple[LatencyHistogram, ...]:
        """How long latency markers have taken to come to each operator, first to last."""
        return tuple(
            histogram for context in self._contexts for histogram in context.latency.histograms()
        )

    def committables(self) -> dict[str, list[Any]]:
        """What two-phase sinks have prepared, by operator uid."""
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


def _as_it_goes(told: list[PassOn]) -> PassOn:
    """Tell all of event time, and give a latency marker to one of them."""
    if len(told) <= 1:
        return _to_all(told)
    to_all = _to_all(told)

    async def pass_on(element: StreamElement) -> None:
        if isinstance(element, LatencyMarker):
            await told[randrange(len(told))](element)
        else:
            await to_all(element)

    return pass_on
