"""Operators: what turns the records of a chain into other records, a batch at a time.

Theory of operation. ``process`` takes the records of one network buffer (or one batch of a source)
and hands what it made of them to ``emit``, which is the next operator's ``process`` or a record
writer. Nothing is done per record but the user's function: a plain function runs in one tight loop
over the batch, and only its results are awaited on, a batch at a time. A coroutine function is
awaited record by record, and what it returned is emitted before the next one starts, so that a slow
one does not hold back what is ready.

Rules that operators and sinks keep:

- what a function gives away is *detached* before its code runs again (``records/detached.py``), so
  it may go on changing it;
- a batch belongs to the one operator or writer that it was emitted to, with all records in it: a
  function may change and keep what it gets. Where several take a batch, each gets its own
  (``with_copies``). The list itself is never changed, and iterated once;
- an emitted batch is never empty, and holds at most about ``BATCH_RECORDS`` more than came in: the
  results of a generator function are taken in pieces, so that one record may become millions in
  bounded memory. Arrow record batches, which are large, are emitted one by one as they are made;
- the loop reads the batch through one iterator, whose position names the record that failed: that
  of a list, or the batch itself, if it has come over the network and its records are unpacked as
  they are asked for (``ArrivedRecords``).
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
from flinknet.operators.stamps import (
    Batch,
    StampedArrivals,
    StampedBatch,
    Stamps,
    StampsOfBatch,
    in_pairs,
    same,
    values_of,
    without_time,
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
"""Of a record in an error message: enough to find it again, too few to hide the error."""

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 8

Emit = Callable[[Any], Coroutine[Any, Any, None]]
"""Takes a batch: a list of records, or a ``StampedBatch``."""
StreamElement = WatermarkElement | LatencyMarker
"""What goes along with records from operator to operator."""
PassOn = Callable[[StreamElement], Coroutine[Any, Any, None]]


class Operator:
    """One operator of a chain in one subtask.

    Life: ``connect``, ``open``, any number of ``process``, ``end_of_input`` if the input ended
    well, and ``close``, which comes in any case once ``open`` was called.
    """

    is_stamped = False
    """Whether what it emits has timestamps: each batch is a ``StampedBatch``; the chain sets it."""

    room: Availability | None = None
    """Whether it would take another batch at once, if that may be because of others than those
    behind it: batches come in slices then, and the subtask looks up until there is room."""

    process: Emit
    """Takes a batch, with timestamps or not; returns when everything that came of it has been taken
    by the next operators."""

    detachment = Detachment.ALWAYS
    """How values that the function gives away are detached; the chain sets it."""

    needs_loop = False
    """Whether it awaits something for every record, so that its chain is better run by the event
    loop than in the thread of its subtask."""

    takes_whole_batches = False
    """Whether few records cost it about as much as many: its batches are not cut to let others have
    their turn."""

    iterates_once = False
    """Whether ``process`` takes ``ArrivedRecords`` for a list, too: it iterates over the batch, and
    does nothing else with it."""

    def connect(self, emit: Emit, pass_on: PassOn | None = None) -> None:
        """Set where results go, and who is told of event time and gets latency markers."""
        self._emit = emit
        self._pass_on = pass_on if pass_on is not None else _tell_nobody

    async def open(self, context: RuntimeContext) -> None:
        """Prepare for the first record."""
        self._context = context

    async def process_watermark(self, watermark: Watermark) -> None:
        """Event time has come further: everything before has been processed."""
        self._context.process_context.current_watermark = watermark.timestamp_ms
        await self._pass_on(watermark)

    async def process_watermark_status(self, status: WatermarkStatus) -> None:
        """Event time is waited for no longer, or again."""
        await self._pass_on(status)

    async def process_event_time(self, element: WatermarkElement) -> None:
        """Take a watermark or a status."""
        if isinstance(element, Watermark):
            await self.process_watermark(element)
        else:
            await self.process_watermark_status(element)

    async def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Note how long the marker has taken, and let it go on."""
        context = self._context
        now_ms = context.processing_time.get_current_processing_time()
        context.latency.take(marker, CLUSTER_CLOCK.shows_at(now_ms))
        await self._pass_on(marker)

    async def process_stream_element(self, element: StreamElement) -> None:
        """Take whatever goes along with records."""
        if isinstance(element, LatencyMarker):
            await self.process_latency_marker(element)
        else:
            await self.process_event_time(element)

    @property
    def late_records_dropped(self) -> int | None:
        """How many it has dropped because they were late; None if it never does."""
        return None

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """Bring the operator's own state up to date: a checkpoint captures it next."""

    async def persist(self) -> None:
        """Make durable what the last snapshot refers to; records are processed meanwhile."""

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, and with it those before."""

    async def end_of_input(self) -> None:
        """Emit what was held back until the last record."""

    def awaits_checkpoint(self) -> bool:
        """Whether it has something to do, after its last record, when a checkpoint is complete.
        Raises why that cannot be done any more."""
        return False

    def output_of_checkpoints(self) -> object | None:
        """Return the user's function or sink if it is told which checkpoints are complete: what it
        makes visible then is not undone by the state that a later attempt begins with."""
        return None

    async def withdraw_output(self, function: object, *, in_thread: bool = False) -> None:
        """Have a function or sink take back what it has made visible behind the checkpoint that
        its job goes on from."""
        context = self._context
        restored = context.state.restored_from
        if not isinstance(function, WithdrawableOutput) or not context.checkpointed:
            return
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
        """Release what ``open`` acquired."""

    def fail(self, error: BaseException, what: str) -> NoReturn:
        """Raise an error of a user's function with its place in the job.

        An error of flinknet's own says what happened, and is raised as it is. So are the
        cancellation of the subtask, its end with a savepoint, and the end of a coroutine that is
        not needed any more.
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
    """An operator around one user function; the subclasses say how the function is applied."""

    awaits = True
    """Whether the function may be a coroutine function."""

    iterates_once = True

    gives_one_each = False
    """Whether each record has exactly one result."""

    def __init__(self, function: Any, method: str) -> None:
        self._function = function
        self._stamps: StampsOfBatch | None = None
        """Of the batch in progress, if its records have timestamps."""
        self._call = bound_function(function, method)
        find_attributes_fast(function)
        awaiting = is_awaiting(self._call)
        if awaiting and not self.awaits:
            raise ConfigurationError(f"{method} cannot be a coroutine function here: use process()")
        self.needs_loop = is_awaiting(getattr(function, method, function))
        self.process = self._process_each if awaiting else self._process_batch

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
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
        """Apply a plain function to all records, as a generator of batches, which may be empty.

        It must be a generator: there a StopIteration that escapes from the user's function is an
        error, while ``map`` would take it for the end of the records.
        """
        raise NotImplementedError

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        """Apply a coroutine function to one record and return the results, detached."""
        raise NotImplementedError

    def _marked(self, results: Iterator[Any]) -> Iterator[Any]:
        """Generate the results, each with the timestamp of the record that was taken last."""
        return results if self._stamps is None else self._stamps.marked(results)

    def _beside(self, results: list[Any], stamps: Stamps) -> Batch:
        """Return the results as they are emitted, with their timestamps if they have some."""
        return StampedBatch(results, stamps(len(results))) if self.is_stamped else results

    async def _emit_results(
        self,
        where: Callable[[], str],
        call: Callable[..., Any],
        *arguments: Any,
        stamps: Stamps = without_time,
    ) -> None:
        """Call any kind of function and emit its results in pieces; ``where`` is said of errors."""
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
        if isinstance(records, StampedBatch | StampedArrivals):
            stamps = StampsOfBatch(records)
        self._stamps = stamps
        one_each = self.gives_one_each
        position = iter(records) if stamps is None else stamps.taken(one_each=one_each)
        batches = self._apply(position)
        while True:
            try:
                batch = next(batches, None)
            except BaseException as error:
                last = _last_taken(records, position) if stamps is None else stamps.last
                self.fail(error, on_records((last,)))
            if batch is None:
                return
            if batch:
                await self._emit(batch if stamps is None else self._beside(batch, stamps.take))

    async def _process_each(self, records: Batch) -> None:
        view = self._context.process_context
        for stamp, record in in_pairs(records):
            view.current_timestamp = stamp
            try:
                results = await self._apply_awaiting(record)
            except BaseException as error:
                self.fail(error, on_records((record,)))
            if results:
                await self._emit(self._beside(results, same(stamp)))


class MapOperator(FunctionOperator):
    """One record in, one record out."""

    gives_one_each = True

    def __init__(self, function: Any) -> None:
        super().__init__(function, "map")

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        returned = each_returned(self._call, records, self.detachment)
        for first in returned:
            yield [first] if is_columns(first) else [first, *returned]

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        return list(each_detached([await self._call(record)], self.detachment))


class FilterOperator(FunctionOperator):
    """Keeps the records for which the function is true."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "filter")

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        yield list(self._marked(each_passed(self._call, records, self.detachment)))

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        return [detached(record, self.detachment)] if await self._call(record) else []


class FlatMapOperator(FunctionOperator):
    """One record in, any number out."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "flat_map")

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        call = self._call
        results = each_result((call(record) for record in records), self.detachment)
        return in_pieces(self._marked(results))

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        return await results_of(self._call(record), self.detachment)


class ProcessOperator(FunctionOperator):
    """As flat_map, with a view of where the record came from."""

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
    """Hands every record to a function that keeps it."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "invoke")

    async def _process_batch(self, records: Any) -> None:
        await super()._process_batch(values_of(records))

    def _apply(self, records: Iterator[Any]) -> Iterator[list[Any]]:
        call = self._call
        for record in records:
            call(record)
        yield []

    async def _apply_awaiting(self, record: Any) -> list[Any]:
        await self._call(record)
        return []


def _last_taken(records: list[Any] | ArrivedRecords, position: Iterator[Any]) -> Any:
    if isinstance(records, list):
        return records[len(records) - length_hint(position) - 1]
    return records.last


async def _tell_nobody(element: StreamElement) -> None:
    """There is no operator behind."""


def on_records(records: Sequence[Any]) -> str:
    """Return which records an error is about: ``"on a record of type str, 'no number'"``, or
    ``"on 2 records of type int, str"``."""
    types = ", ".join(sorted({type(record).__name__ for record in records}))
    if len(records) == 1:
        return f"on a record of type {types}, {_shortened(records[0])}"
    return f"on {len(records)} records of type {types}"


def _shortened(record: Any) -> str:
    """What a record looks like, in a line that an error message can hold."""
    if is_columns(record):
        return f"with {record.num_rows} rows"
    try:
        text = _SHORT.repr(record)
    except Exception as error:
        return f"whose repr() raised {type(error).__name__}"
    return text_of(" ".join(text.split()), _RECORD_CHARACTERS_MAX)
