"""Asynchronous functions: requests to other systems, beside records (Flink's AsyncWaitOperator).

Theory of operation. Each record starts a *request*: an asyncio task that awaits the user's
function, repeats it if the retry strategy says so, and ends with results or a timeout. The queue
(``stream_element_queue.py``) holds at most ``capacity`` elements, each from the start of its
request until its results are emitted. Elements that find the queue full *wait*: at most one batch,
or the restored records, and the event time behind them. While the queue is full, ``room`` is
unavailable. The subtask waits for it before the next batch and does other work meanwhile
(``record_slices.py``). This is the backpressure, and because of it no barrier has to wait for
requests.

Completed results are emitted only in the subtask's own turn: after a batch, or in a mail that a
completed request posts. So nothing is emitted in the middle of a checkpoint.

The state holds the records without emitted results, whether or not their request has started.
A subtask that is restored from it repeats these requests before any new record. The first error of
a request, or of the timeout handler, fails the subtask.

The operator owns the queue, the requests, and the threads of a blocking function.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from flinknet.buffer.availability import Availability
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.async_retry import AsyncRetryStrategy
from flinknet.functions.calls import in_pieces, is_awaiting, records_in, value_of
from flinknet.functions.context import RuntimeContext
from flinknet.functions.functions import AsyncFunction, fail_timed_out
from flinknet.operators.operators import FunctionOperator, on_records
from flinknet.operators.stream_element_queue import QueueEntry, StreamElementQueue
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch, on_wire
from flinknet.records.detached import each_detached
from flinknet.state.descriptors import ListStateDescriptor
from flinknet.state.operator_state import OperatorListState
from flinknet.wire.events import Watermark, WatermarkElement, WatermarkStatus

__all__ = ["AsyncWaitOperator"]

_IN_FLIGHT = ListStateDescriptor("_async_wait_operator_state_")


class AsyncWaitOperator(FunctionOperator):
    """Replace each record by the results of a request.

    Args:
        function: an AsyncFunction, or a plain function in its place.
        timeout_ms: time limit of a request, over all its attempts; 0 for none.
        capacity: maximum number of elements in the queue.
        retries: decides whether an attempt is repeated.
        ordered: whether results leave in the order of the records.
        in_thread: whether the function blocks, and is called in a thread.
    """

    def __init__(
        self,
        function: Any,
        timeout_ms: int,
        capacity: int,
        retries: AsyncRetryStrategy,
        *,
        ordered: bool,
        in_thread: bool = False,
    ) -> None:
        super().__init__(function, "async_invoke")
        _require_kind(function, self._call, in_thread=in_thread)
        self.needs_loop = True
        self._timeout_s = timeout_ms / 1000 if timeout_ms else None
        self._capacity = capacity
        self._retries = retries
        predicate = retries.get_retry_predicate()
        self._retries_result = predicate.result_predicate()
        self._retries_exception = predicate.exception_predicate()
        is_class = isinstance(function, AsyncFunction)
        self._timeout: Callable[[Any], Any] = function.timeout if is_class else fail_timed_out
        self._in_thread = in_thread
        self._queue = StreamElementQueue(capacity, ordered=ordered)
        self._waiting: deque[tuple[Any, WatermarkElement | None]] = deque()
        """Elements to be put into the queue: (record, None), or (None, event time)."""
        self._room = self.room = Availability()
        self._requests: set[asyncio.Task[list[Any]]] = set()
        self._failure: tuple[Any, BaseException] | None = None
        """The first record with a failed request, and its error."""
        self._news = asyncio.Event()
        self._has_posted = False
        self._is_closed = False
        self._threads: ThreadPoolExecutor | None = None
        self._in_flight: OperatorListState | None = None
        self.process = self._process

    # -- life cycle -------------------------------------------------------------------------------

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        if self._in_thread:  # One thread for each request that the queue can hold.
            self._threads = ThreadPoolExecutor(self._capacity, context.operator_name)
        self._in_flight = context.state.operator.get_list_state(_IN_FLIGHT)
        self._waiting.extend((record, None) for record in self._in_flight.get())
        self._begin_waiting()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        assert self._in_flight is not None, "an operator's state is captured while it is open"
        # Waiting records are newer than the records in the queue. Watermarks are not state.
        waiting = [record for record, event_time in self._waiting if event_time is None]
        self._in_flight.update([*self._queue.records(), *waiting])

    async def end_of_input(self) -> None:
        await self._until(lambda: not len(self._queue) and not self._waiting)
        await super().end_of_input()

    async def close(self) -> None:
        # Only tasks can be cancelled. A blocked thread ends when its function returns.
        self._is_closed = True
        requests = list(self._requests)
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        await super().close()

    # -- in the subtask's turn --------------------------------------------------------------------

    async def _process(self, records: Batch) -> None:
        await self._until_none_waits()
        self._waiting.extend((record, None) for record in on_wire(records))
        self._begin_waiting()
        await self._emit_completed()

    async def process_event_time(self, element: WatermarkElement) -> None:
        if self._waiting and isinstance(element, Watermark):
            if isinstance(self._waiting[-1][1], Watermark):
                self._waiting.pop()  # The new watermark is later and includes this one.
        else:
            await self._until_none_waits()
        self._waiting.append((None, element))
        self._begin_waiting()
        await self._emit_completed()

    async def _until_none_waits(self) -> None:
        await self._until(lambda: not self._waiting)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Emit completed results until ``is_so()`` is true."""
        while not is_so():
            self._news.clear()
            await self._emit_completed()
            if not is_so():
                await self._news.wait()

    async def _emit_completed(self) -> None:
        """Emit completed results and start waiting requests; raise the first failure."""
        if self._failure is not None:
            record, error = self._failure
            self._fail_request(record, error)
        while self._queue.has_completed:
            batch: list[Any] = []
            for record, results, event_time in self._queue.take_completed():
                if event_time is None:
                    batch += (
                        [(record[0], one) for one in results] if self.is_timestamped else results
                    )
                    continue
                await self._emit_batch(batch)
                batch = []
                await self._pass_event_time(event_time)
            await self._emit_batch(batch)
            self._begin_waiting()

    async def _emit_batch(self, batch: list[Any]) -> None:
        for piece in in_pieces(batch):
            await self._emit(TimestampedBatch.of(piece) if self.is_timestamped else piece)

    async def _pass_event_time(self, element: Watermark | WatermarkStatus) -> None:
        await super().process_event_time(element)

    async def _on_mail(self) -> None:
        self._has_posted = False
        await self._emit_completed()

    def _fail_request(self, record: Any, error: BaseException) -> None:
        value = self._value(record)
        if not isinstance(error, asyncio.CancelledError):
            self.fail(error, on_records((value,)))
        raise JobFailedError(
            f'operator "{self._context.operator_name}" failed {on_records((value,))}: its request '
            "was cancelled from outside of the job"
        ) from error

    # -- requests ---------------------------------------------------------------------------------

    def _begin_waiting(self) -> None:
        while self._waiting and not self._queue.is_full:
            record, event_time = self._waiting.popleft()
            if event_time is not None:
                self._queue.put_event_time(event_time)
                continue
            request = asyncio.create_task(self._request(self._value(record)))
            self._requests.add(request)
            request.add_done_callback(partial(self._end, self._queue.put(record)))
        self._room.set(not self._queue.is_full)

    def _end(self, entry: QueueEntry, request: asyncio.Task[list[Any]]) -> None:
        """Take the outcome of a finished request, and post a mail that emits it."""
        self._requests.discard(request)
        if self._is_closed:  # close() has cancelled the request, which is no failure.
            return
        error = asyncio.CancelledError() if request.cancelled() else request.exception()
        if error is None:
            self._queue.complete(entry, request.result())
        elif self._failure is None:
            self._failure = entry.record, error
        self._news.set()
        # One mail emits all results that are complete by the time it runs.
        if not self._has_posted:
            self._has_posted = True
            self._context.processing_time.post(self._on_mail)

    async def _request(self, value: Any) -> list[Any]:
        """Return the results of a record, or those of the timeout handler."""
        time = asyncio.timeout(self._timeout_s)
        try:
            async with time:
                return await self._attempts(value)
        except TimeoutError:
            if not time.expired():  # The user's function raised the error itself.
                raise
        try:
            return self._given(await value_of(self._timeout(value)))
        except (SystemExit, KeyboardInterrupt) as error:
            self.fail(error, on_records((value,)))

    async def _attempts(self, value: Any) -> list[Any]:
        """Call the function until its result or error is final.

        A request is cancelled when it times out or the operator is closed. It then ends without a
        result or another attempt, even if the function suppresses the cancellation.
        """
        request = asyncio.current_task()
        assert request is not None, "a request is a task"
        attempts = 1
        while True:
            try:
                results = await self._attempt(value)
            except (SystemExit, KeyboardInterrupt) as error:
                # In a separate task, either of them would end the event loop.
                self.fail(error, on_records((value,)))
            except Exception as error:
                if request.cancelling():
                    raise asyncio.CancelledError from error
                if not self._is_retried(self._retries_exception, error, attempts):
                    raise
            else:
                if request.cancelling():
                    raise asyncio.CancelledError
                if not self._is_retried(self._retries_result, results, attempts):
                    return results
            await asyncio.sleep(self._retries.get_backoff_time_millis(attempts) / 1000)
            attempts += 1

    def _is_retried(
        self, predicate: Callable[[Any], bool] | None, outcome: Any, attempts: int
    ) -> bool:
        retries = predicate is not None and predicate(outcome)
        return retries and self._retries.can_retry(attempts)

    async def _attempt(self, value: Any) -> list[Any]:
        if self._threads is None:
            return self._given(await self._call(value))
        # As in asyncio.to_thread, the function runs in the context of its subtask.
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, copy_context().run, lambda: self._given(self._call(value))
        )

    def _given(self, returned: Any) -> list[Any]:
        """Return the results in a new list, detached from the function.

        The function may change the returned values while another request runs.
        """
        return list(each_detached(records_in(returned), self.detachment))

    def _value(self, record: Any) -> Any:
        return record[1] if self.is_timestamped else record


def _require_kind(function: Any, call: Callable[..., Any], *, in_thread: bool) -> None:
    """Check that a function called in a thread is plain, and any other a coroutine function.

    Raises ConfigurationError: a plain function would block all others, and a coroutine function
    cannot be called in a thread.
    """
    if in_thread is not is_awaiting(call):
        return
    name = getattr(function, "__name__", type(function).__name__)
    if in_thread:
        raise ConfigurationError(
            f"async_invoke of {name} is a coroutine function, which cannot run in a thread: omit "
            "in_thread"
        )
    raise ConfigurationError(
        f"async_invoke of {name} is not a coroutine function, so it would block all other "
        "requests: declare it with async def, or set in_thread=True to call it in a thread"
    )
