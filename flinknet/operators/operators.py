"""Operators, which transform the records of a chain one batch at a time.

Theory of operation. ``process`` takes the records of one network buffer, or one batch of a source.
It passes the results to ``emit``, which is the next operator's ``process`` or a record writer. The
user function is the only code that runs per record. A plain function runs in a tight loop over the
batch, and the operator awaits only the emission of its results. A coroutine function is awaited
record by record. Its results are emitted before the next call, so that a slow call does not hold
back results that are ready.

Rules for operators and sinks:

- A value that a function emits is *detached* before the function's code runs again
  (``records/detached.py``), so the function may keep changing it.
- A batch and its records belong to the one operator or writer that receives it: a function may
  change and keep its records. Several receivers get a copy each (``with_copies``). The list itself
  is never changed, and it is iterated once.
- An emitted batch is never empty and holds at most about ``BATCH_RECORDS`` more records than came
  in. The results of a generator function are taken in pieces, so that one record may become
  millions in bounded memory. Arrow record batches are large, so they are emitted one by one.
- The loop reads the batch through one iterator. Its position identifies a record that failed. The
  iterator is that of a list, or the batch itself if it came over the network and unpacks its
  records on demand (``ArrivedRecords``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from operator import length_hint
from reprlib import Repr
from typing import Any, NoReturn

from flinknet.buffer.availability import Availability
from flinknet.environment.cancellation import is_cancelled
from flinknet.environment.cluster_clock import CLUSTER_CLOCK
from flinknet.environment.savepoint_stop import Stopped
from flinknet.environment.task_thread import on_loop
from flinknet.errors import ConfigurationError, FlinknetError, JobFailedError
from flinknet.functions.calls import (
    bound_function,
    in_pieces,
    is_awaiting,
    is_columns,
    pieces_of,
    results_of,
    value_of,
)
from flinknet.functions.context import ProcessContext, RuntimeContext
from flinknet.functions.functions import (
    CheckpointListener,
    Function,
    WithdrawableOutput,
    find_attributes_fast,
)
from flinknet.operators.timestamped_batch import (
    Batch,
    BatchTimestamps,
    NextTimestamps,
    TimestampedArrivals,
    TimestampedBatch,
    as_pairs,
    no_timestamps,
    same,
    values_of,
)
from flinknet.records.detached import (
    Detachment,
    detached,
    each_detached,
    each_passed,
    each_result,
    each_returned,
)
from flinknet.records.record_iterator import ArrivedRecords
from flinknet.texts import text_of
from flinknet.wire.events import LatencyMarker, Watermark, WatermarkElement, WatermarkStatus

__all__ = [
    "CallableSinkOperator",
    "Emit",
    "FilterOperator",
    "FlatMapOperator",
    "FunctionOperator",
    "MapOperator",
    "Operator",
    "OperatorFactory",
    "PassOn",
    "ProcessOperator",
    "StreamElement",
    "on_records",
]

_RECORD_CHARACTERS_MAX = 200
"""Limit for a record in an error message: enough to find the record, too few to hide the error."""

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 8

Emit = Callable[[Any], Coroutine[Any, Any, None]]
"""Coroutine function that takes a batch: a list of records, or a ``TimestampedBatch``."""
StreamElement = WatermarkElement | LatencyMarker
"""Elements that travel with the records from operator to operator."""
PassOn = Callable[[StreamElement], Coroutine[Any, Any, None]]


class Operator:
    """One operator of a chain in one subtask.

    Life cycle: ``connect``, ``open``, any number of ``process``, ``end_of_input`` if the input
    ended normally, and ``close``, which is called in every case once ``open`` was called.
    """

    is_timestamped = False
    """Whether the operator emits timestamps, as ``TimestampedBatch``; the chain sets it."""

    room: Availability | None = None
    """Whether the operator would accept another batch at once, if it waits for anything besides
    the operators downstream. If set, batches are cut into slices, and between two slices the
    subtask waits for room and runs mails and priority events."""

    process: Emit
    """Process a batch, with or without timestamps; return when the next operators have taken all
    of its results."""

    detachment = Detachment.ALWAYS
    """How values that the function emits are detached; the chain sets it."""

    needs_loop = False
    """Whether the operator awaits something for every record. Its chain then runs better on the
    event loop than in the subtask's thread."""

    takes_whole_batches = False
    """Whether a few records cost about as much as many. Its batches are not cut to give other
    subtasks a turn."""

    iterates_once = False
    """Whether ``process`` also accepts ``ArrivedRecords`` in place of a list, because it only
    iterates over the batch, once."""

    def connect(self, emit: Emit, pass_on: PassOn | None = None) -> None:
        """Set the receivers of results (``emit``) and of stream elements (``pass_on``)."""
        self._emit = emit
        self._pass_on = pass_on if pass_on is not None else _drop_element

    async def open(self, context: RuntimeContext) -> None:
        """Prepare for the first record."""
        self._context = context

    async def process_watermark(self, watermark: Watermark) -> None:
        """Advance event time: everything before the watermark has been processed."""
        self._context.process_context.current_watermark = watermark.timestamp_ms
        await self._pass_on(watermark)

    async def process_watermark_status(self, status: WatermarkStatus) -> None:
        """Handle an input that becomes idle or active in event time."""
        await self._pass_on(status)

    async def process_event_time(self, element: WatermarkElement) -> None:
        """Process a watermark or a watermark status."""
        if isinstance(element, Watermark):
            await self.process_watermark(element)
        else:
            await self.process_watermark_status(element)

    async def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Record the latency of the marker and forward it."""
        context = self._context
        now_ms = context.processing_time.get_current_processing_time()
        context.latency.take(marker, CLUSTER_CLOCK.shows_at(now_ms))
        await self._pass_on(marker)

    async def process_stream_element(self, element: StreamElement) -> None:
        """Process an element that travels with the records."""
        if isinstance(element, LatencyMarker):
            await self.process_latency_marker(element)
        else:
            await self.process_event_time(element)

    @property
    def late_records_dropped(self) -> int | None:
        """Number of records dropped because they were late; None if the operator never drops."""
        return None

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """Update the operator's state, which a checkpoint captures next."""

    async def persist(self) -> None:
        """Make the data that the last snapshot refers to durable, while records are processed."""

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle the completion of a checkpoint, which completes all earlier ones too."""

    async def end_of_input(self) -> None:
        """Emit the results that were held back until the last record."""

    def awaits_checkpoint(self) -> bool:
        """Return whether a checkpoint must complete after the last record to finish the work.

        Raises the reason if that has become impossible.
        """
        return False

    def output_of_checkpoints(self) -> object | None:
        """Return the user's function or sink if it is notified of complete checkpoints.

        The output that it makes visible at that moment is not undone by the state from which a
        later attempt starts.
        """
        return None

    async def withdraw_output(self, function: object, *, in_thread: bool = False) -> None:
        """Have a function or sink withdraw its output from after the restored checkpoint."""
        context = self._context
        restored = context.state.restored_from
        if not isinstance(function, WithdrawableOutput) or not context.checkpointed:
            return
        # A checkpoint id of another job, which this job continues, says nothing about this output.
        if restored is not None and restored.job_id == context.job_id:
            try:
                if in_thread:
                    call = function.withdraw_after
                    await on_loop(asyncio.to_thread, call, restored.checkpoint_id)
                else:
                    await value_of(function.withdraw_after(restored.checkpoint_id))
            except BaseException as error:
                self.fail(error, "in withdraw_after()")

    async def close(self) -> None:
        """Release the resources that ``open`` acquired."""

    def fail(self, error: BaseException, what: str) -> NoReturn:
        """Raise an error of a user's function with its place in the job.

        Errors of flinknet itself are raised unchanged, because they already explain the failure.
        The cancellation of the subtask, its stop with a savepoint, and the closing of a coroutine
        that is no longer needed are also raised unchanged.
        """
        if isinstance(error, FlinknetError | GeneratorExit | Stopped) or is_cancelled(error):
            raise error
        context = self._context
        subtask = f"{context.index + 1}/{context.parallelism}"
        raise JobFailedError(
            f'operator "{context.operator_name}" ({subtask}) failed {what}: '
            f"{type(error).__name__}: {text_of(error)}"
        ) from error


OperatorFactory = Callable[[], Operator]


class FunctionOperator(Operator):
    """An operator around one user function; subclasses define how the function is applied."""

    awaits = True
    """Whether the function may be a coroutine function."""

    iterates_once = True

    gives_one_each = False
    """Whether each record has exactly one result."""

    def __init__(self, function: Any, method: str) -> None:
        self._function = function
        self._stamps: BatchTimestamps | None = None
        """Timestamps of the batch in progress, if its records have timestamps."""
        self._call = bound_function(function, method)
        find_attributes_fast(function)
        awaiting = is_awaiting(self._call)
        if awaiting and not self.awaits:
            raise ConfigurationError(f"{method} cannot be a coroutine function here: use process()")
        self.needs_loop = is_awaiting(getattr(function, method, function))
        self.process = self._process_each if awaiting else self._process_batch

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        # First, so that the function's open() finds the restored state.
        try:
            context.state.initialize(self._function)
        except BaseException as error:
            self.fail(error, "in initialize_state()")
        if isinstance(self._function, Function):
            try:
                await value_of(self._function.open(context))
            except BaseException as error:
                self.fail(error, "in open()")
        await self.withdraw_output(self.output_of_checkpoints())

    def output_of_checkpoints(self) -> object | None:
        return self._function if isinstance(self._function, CheckpointListener) else None

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if isinstance(self._function, CheckpointListener):
            try:
                await value_of(self._function.notify_checkpoint_complete(checkpoint_id))
            except BaseException as error:
                self.fail(error, "in notify_checkpoint_complete()")

    async def end_of_input(self) -> None:
        if isinstance(self._function, Function):
            await self._emit_results(lambda: "in finish()", self._function.finish)

    def awaits_checkpoint(self) -> bool:
        return isinstance(self._function, CheckpointListener)

    async def close(self) -> None:
        if isinstance(self._function, Function):
            try:
                await value_of(self._function.close())
            except BaseException as error:
                self.fail(error, "in close()")

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        """Apply a plain function to all records; generate batches of results, possibly empty.

        An implementation must be a generator. In a generator, a StopIteration that escapes from
        the user's function becomes an error; ``map`` would take it for the end of the records.
        """
        raise NotImplementedError

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        """Apply a coroutine function to one record and return the results, detached."""
        raise NotImplementedError

    def _marked(self, results: Iterator[Any]) -> Iterator[Any]:
        """Generate the results, each with the timestamp of the record taken last."""
        return results if self._stamps is None else self._stamps.marked(results)

    def _beside(self, results: list[Any], stamps: NextTimestamps) -> Batch:
        """Return the results as they are emitted, with their timestamps if the batch has any."""
        return TimestampedBatch(results, stamps(len(results))) if self.is_timestamped else results

    async def _emit_results(
        self,
        where: Callable[[], str],
        call: Callable[..., Any],
        *arguments: Any,
        stamps: NextTimestamps = no_timestamps,
    ) -> None:
        """Call any kind of function and emit its results in pieces; errors name ``where()``."""
        async with aclosing(
            pieces_of(self.detachment, call, *arguments, are_emitted=True)
        ) as pieces:
            while True:
                try:
                    piece = await anext(pieces, None)
                except BaseException as error:
                    self.fail(error, where())
                if piece is None:
                    return
                await self._emit(self._beside(piece, stamps))

    async def _process_batch(self, records: Any) -> None:
        stamps = None
        if isinstance(records, TimestampedBatch | TimestampedArrivals):
            stamps = BatchTimestamps(records)
        self._stamps = stamps
        one_each = self.gives_one_each
        # One iterator for the whole batch: its position shows which record has failed.
        position = iter(records) if stamps is None else stamps.taken(one_each=one_each)
        batches = self._apply(position)
        while True:
            try:
                batch = next(batches, None)  # This runs the user's function.
            except BaseException as error:
                last = _last_taken(records, position) if stamps is None else stamps.last
                self.fail(error, on_records((last,)))
            if batch is None:
                return
            if batch:
                await self._emit(batch if stamps is None else self._beside(batch, stamps.take))

    async def _process_each(self, records: Batch) -> None:
        view = self._context.process_context
        for stamp, record in as_pairs(records):
            view.current_timestamp = stamp
            try:
                results = await self._apply_awaiting(record)
            except BaseException as error:
                self.fail(error, on_records((record,)))
            if results:
                # At once, because the next call may take long.
                await self._emit(self._beside(results, same(stamp)))


class MapOperator(FunctionOperator):
    """Map each record to one record."""

    gives_one_each = True

    def __init__(self, function: Any) -> None:
        super().__init__(function, "map")

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        returned = each_returned(self._call, records, self.detachment)
        for first in returned:
            # Arrow record batches are large and leave one by one; other results leave together.
            yield [first] if is_columns(first) else [first, *returned]

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        return list(each_detached([await self._call(record)], self.detachment))


class FilterOperator(FunctionOperator):
    """Keep the records for which the function is true."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "filter")

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        yield list(self._marked(each_passed(self._call, records, self.detachment)))

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        return [detached(record, self.detachment)] if await self._call(record) else []


class FlatMapOperator(FunctionOperator):
    """Map each record to any number of records."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "flat_map")

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        call = self._call
        results = each_result((call(record) for record in records), self.detachment)
        return in_pieces(self._marked(results))

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        return await results_of(self._call(record), self.detachment)


class ProcessOperator(FunctionOperator):
    """Map each record to any number of records, with a view of the record's origin."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "process_element")

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        returned = self._called(self._context.process_context, records)
        return in_pieces(self._marked(each_result(returned, self.detachment)))

    def _called(self, view: ProcessContext, records: Iterator[Any]) -> Iterator[Any]:
        call, stamps = self._call, self._stamps
        for record in records:
            if stamps is not None:
                view.current_timestamp = stamps.stamp
            yield call(record, view)

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        return await results_of(self._call(record, self._context.process_context), self.detachment)


class CallableSinkOperator(FunctionOperator):
    """Pass every record to a function that consumes it."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "invoke")

    async def _process_batch(self, records: Any) -> None:
        await super()._process_batch(values_of(records))

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        call = self._call
        for record in records:
            call(record)
        yield []  # A sink has no results, but ``_apply`` must be a generator.

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        await self._call(record)
        return []


def _last_taken(records: list[Any] | ArrivedRecords, position: Iterator[Any]) -> Any:
    """Return the record that the iterator ``position`` has yielded last."""
    if isinstance(records, list):
        return records[len(records) - length_hint(position) - 1]
    return records.last


async def _drop_element(element: StreamElement) -> None:
    """Ignore the element: this operator is the last of its chain."""


def on_records(records: Sequence[Any]) -> str:
    """Describe the records that an error is about.

    Returns ``"on a record of type str, 'no number'"``, or ``"on 2 records of type int, str"``.
    """
    types = ", ".join(sorted({type(record).__name__ for record in records}))
    if len(records) == 1:
        return f"on a record of type {types}, {_shortened(records[0])}"
    return f"on {len(records)} records of type {types}"


def _shortened(record: Any) -> str:
    """Return a one-line representation of a record, for an error message."""
    if is_columns(record):
        return f"with {record.num_rows} rows"
    try:
        text = _SHORT.repr(record)
    except Exception as error:
        return f"whose repr() raised {type(error).__name__}"
    return text_of(" ".join(text.split()), _RECORD_CHARACTERS_MAX)
